/** What an agent wrote or a tool returned: text, never markup. Ten thousand lines stay usable: a part is shown, the rest on demand. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type End, excerpt } from "../../model/text";
import { visible } from "../../ui/format";

const PIECE = 200;

/** `keeps`: which end of a long text is shown; of one that is being written, or was cut, that is where it ends. */
export function LongText({ text, keeps = "head", caret = false, mono = false }: { text: string; keeps?: End; caret?: boolean; mono?: boolean }): JSX.Element {
  const [isWhole, showWhole] = useState(false);
  const shown = isWhole ? null : excerpt(text, keeps);
  const kind = mono ? "said-mono" : "said-text";
  if (!shown) {
    if (!isWhole) return <p class={kind}>{visible(text)}{caret && <span class="caret" aria-hidden="true" />}</p>;
    return (
      <div class="whole" tabIndex={0} role="group" aria-label="The whole text">
        {pieces(text).map((piece, index) => <p key={index} class={`${kind} piece`}>{visible(piece)}</p>)}
        {caret && <span class="caret" aria-hidden="true" />}
      </div>
    );
  }
  const more = <button class="plain" type="button" onClick={() => showWhole(true)}>show {shown.lines === 1 ? "all" : `all ${shown.lines.toLocaleString("en")} lines`}</button>;
  return (
    <>
      {keeps === "tail" && <p class="cutlines">{more}</p>}
      <p class={kind}>{visible(shown.text)}{caret && <span class="caret" aria-hidden="true" />}</p>
      {keeps === "head" && <p class="cutlines">{more}</p>}
    </>
  );
}

/** In pieces that the browser lays out only when they are seen. */
function pieces(text: string): string[] {
  const lines = text.split("\n");
  return Array.from({ length: Math.ceil(lines.length / PIECE) }, (_, index) => lines.slice(index * PIECE, (index + 1) * PIECE).join("\n"));
}
