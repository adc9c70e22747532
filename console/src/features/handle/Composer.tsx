/** The redirect: level, one line, count, send. Nothing is cut silently, and no level is chosen for anybody. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { silentWords } from "../../model/contact";
import type { Level } from "../../model/events";
import { timeOfDay } from "../../ui/format";
import type { View } from "./view";

const LEVELS: [Level, string, string][] = [
  ["step", "Step", "adds to the next step"],
  ["goal", "Goal", "replaces the goal"],
  ["clarify", "Clarify", "only explains"],
];
const LONGEST = 200;
const LONGEST_TURN = 4000;

interface Props { view: View; isTurn: boolean; send: (text: string, level: Level) => void; close: () => void }

export function Composer({ view, isTurn, send, close }: Props): JSX.Element {
  const [level, choose] = useState<Level | null>(null);
  const [text, write] = useState("");
  const [isUndecided, setUndecided] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const first = useRef<HTMLInputElement>(null);
  // Before the next key can come: what is typed right after the press belongs here.
  useLayoutEffect(() => field.current?.focus(), []);
  const longest = isTurn ? LONGEST_TURN : LONGEST;
  const length = [...text].length;
  const over = length - longest;
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!text.trim() || over > 0) { field.current?.focus(); return; }
    if (isTurn) { send(text.trim(), "goal"); return; }
    if (level === null) { setUndecided(true); first.current?.focus(); return; }
    send(text.trim(), level);
  };
  const label = isTurn ? "New turn" : isUndecided && level === null ? "Choose step, goal or clarify" : "Redirect";
  return (
    <>
      <form class={isTurn ? "compose turn" : "compose"} aria-label={isTurn ? "New turn" : "Redirect"} onSubmit={submit}>
        {!isTurn && (
          <div class="seg" role="radiogroup" aria-label="Level">
            {LEVELS.map(([name, title, words], index) => (
              <label key={name}>
                <input ref={index === 0 ? first : undefined} type="radio" name="midcourse-level" checked={level === name} onChange={() => choose(name)} />
                <b>{title}</b><span>{words}</span>
              </label>
            ))}
          </div>
        )}
        <div class="say">
          <input ref={field} class="field" value={text} onInput={(event) => write(event.currentTarget.value)} autocomplete="off"
            aria-label={isTurn ? "What should it do next?" : "What should it do instead?"} aria-describedby="midcourse-count" aria-invalid={over > 0} />
          <output id="midcourse-count" aria-live="off" data-over={over > 0 || undefined}>{length} / {longest}{over > 0 && `, shorten by ${over}`}</output>
        </div>
        <button class="btn solid big" type="submit">{label} <kbd aria-hidden="true">↵</kbd></button>
      </form>
      <div class="row">
        <span class="sub">{isTurn ? "Continues in the same session, with its history." : consequence(view)}</span>
        <span class="end row">
          {view.status === "running" && view.silentSince == null && !view.isLost && <span class="dim">It keeps running while you type.</span>}
          <button class="plain" type="button" onClick={close}>close <kbd aria-hidden="true">esc</kbd></button>
        </span>
      </div>
    </>
  );
}

/** What sending cuts, and what it waits for. */
function consequence(view: View): JSX.Element {
  if (view.isLost) return <>Kept, and sent when the connection is back.</>;
  if (view.silentSince != null) return <>Stored at once. {silentWords(timeOfDay(view.silentSince))}: it sees this when it does.</>;
  if (view.isInstead) return <>Instead of cancelling: the hold is lifted, and it continues with this.</>;
  if (view.status === "queued") return <>Nothing has run: it starts with this.</>;
  if (view.status === "paused" || view.status === "pausing") return <>Kept, and seen at resume. Until then you can change it or take it back.</>;
  const tool = view.still.find((call) => call.kind !== "model");
  const cuts = view.still.some((call) => call.kind === "model") && "Interrupts the text that is being written. What is written is kept. ";
  const drops = view.status === "waiting" && "Withdraws the question. ";
  return <>{drops}{cuts}{tool ? <>Waits for <code>{tool.name}</code>: it finishes, and its result comes with the instruction.</> : !cuts && !drops && "Seen at the next step."}</>;
}
