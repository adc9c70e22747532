/** What an agent wrote or a tool returned: text, never markup. Ten thousand lines stay usable: a part is shown, the rest on demand. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { visible } from "../../ui/format";

const LINES = 120;
const CHARACTERS = 12_000;
const PIECE = 200;

export function LongText({ text, isLive = false, caret = false, mono = false }: { text: string; isLive?: boolean; caret?: boolean; mono?: boolean }): JSX.Element {
  const [isWhole, showWhole] = useState(false);
  const cut = isWhole ? null : part(text, isLive);
  const kind = mono ? "said-mono" : "said-text";
  if (!cut) {
    if (!isWhole) return <p class={kind}>{visible(text)}{caret && <span class="caret" aria-hidden="true" />}</p>;
    return (
      <div class="whole" tabIndex={0} role="group" aria-label="The whole text">
        {pieces(text).map((piece, index) => <p key={index} class={`${kind} piece`}>{visible(piece)}</p>)}
        {caret && <span class="caret" aria-hidden="true" />}
      </div>
    );
  }
  const more = <button class="plain" type="button" onClick={() => showWhole(true)}>show {cut.lines === 1 ? "all of it" : `all ${cut.lines.toLocaleString("en")} lines`}</button>;
  return (
    <>
      {isLive && <p class="cutlines">{more}</p>}
      <p class={kind}>{visible(cut.text)}{caret && <span class="caret" aria-hidden="true" />}</p>
      {!isLive && <p class="cutlines">{more}</p>}
    </>
  );
}

/** The beginning, or of what is still being written the end. Null: it is short. */
function part(text: string, isLive: boolean): { text: string; lines: number } | null {
  if (text.length <= CHARACTERS && newlines(text, LINES) <= LINES) return null;
  const lines = text.split("\n");
  const some = (isLive ? lines.slice(-LINES) : lines.slice(0, LINES)).join("\n");
  return { text: isLive ? some.slice(-CHARACTERS) : some.slice(0, CHARACTERS), lines: lines.length };
}

function newlines(text: string, enough: number): number {
  let found = 0;
  for (let at = text.indexOf("\n"); at >= 0 && found <= enough; at = text.indexOf("\n", at + 1)) found++;
  return found;
}

/** In pieces that the browser lays out only when they are seen. */
function pieces(text: string): string[] {
  const lines = text.split("\n");
  return Array.from({ length: Math.ceil(lines.length / PIECE) }, (_, index) => lines.slice(index * PIECE, (index + 1) * PIECE).join("\n"));
}
