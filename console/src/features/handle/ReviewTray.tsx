/** A policy's review: why it was stopped, and the three answers: go on, go on with an instruction, cancel, which shows its preview first. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import { isCapped } from "../../model/allowed";
import { figuresOf } from "../../model/interventions";
import type { OpenAsk } from "../../model/session";
import { version, visible } from "../../ui/format";
import { Word } from "../../ui/Parts";

export const GO_ON = "go on";
/** A correction is short. */
const LONGEST = 200;

interface Props { live: Live; ask: OpenAsk; isOnly: boolean; mayAnswer: boolean; answer: (value: unknown, ask: string) => void; cancel: () => void }

export function ReviewTray({ live, ask, isOnly, mayAnswer, answer, cancel }: Props): JSX.Element {
  const [text, write] = useState("");
  const made = live.run.stepinFor(ask.id);
  const isQuestion = made?.decision.level === "ask";
  const isHalted = live.run.session?.status === "halted";
  // At its cap it cannot go on before that is raised, and the tray above says how.
  const isAtCap = live.run.session !== null && isCapped(live.run.session);
  const length = [...text].length;
  const over = length - LONGEST;
  const key = (letter: string): JSX.Element | false => isOnly && <kbd aria-hidden="true">{letter}</kbd>;
  const submit = (event: Event): void => { event.preventDefault(); if (text.trim() && over <= 0) answer(text.trim(), ask.id); };
  const title = isQuestion ? "The agent asks" : isAtCap ? "The cap paused it" : made?.decision.level === "stop" ? "Policy stopped it" : "Policy paused it";
  return (
    <div class="ask review" data-ask={ask.id}>
      <div class="row asktop"><Word status="waiting">{title}</Word>{made && <span class="sub">{version(made.decision.policy)}</span>}</div>
      <p class="lead" tabIndex={-1}>{visible(ask.prompt) || "It needs your answer."}</p>
      {made && figuresOf(made.decision).length > 0 && <p class="math">{figuresOf(made.decision).map(visible).join("\n")}</p>}
      {!mayAnswer ? <p class="sub">Your token cannot answer this. It needs the role steer.</p> : isHalted ? <p class="sub">It can be answered once the halt is lifted.</p> : (
        <div class="row answers">
          {!isAtCap && <button class="btn solid big" type="button" data-key="a" onClick={() => answer(GO_ON, ask.id)}>Continue {key("a")}</button>}
          <button class="btn big" type="button" data-key="x" onClick={cancel}>Cancel… {key("x")}</button>
          {!isAtCap && <form class="talk" aria-label={isQuestion ? "Answer it" : "Continue with an instruction"} onSubmit={submit}>
            <span class="say">
              <input class="field" value={text} data-key="e" onInput={(event) => write(event.currentTarget.value)} autocomplete="off" aria-invalid={over > 0}
                aria-label={isQuestion ? "Your answer" : "An instruction"} placeholder={isQuestion ? "Your answer" : "Or give an instruction to continue with"} />
              {length > 0 && <output aria-live="off" data-over={over > 0 || undefined}>{length} / {LONGEST}{over > 0 && `, shorten by ${over}`}</output>}
            </span>
            <button class="btn big" type="submit">{isQuestion ? "Answer" : "Continue with this"}</button>
          </form>}
        </div>
      )}
    </div>
  );
}
