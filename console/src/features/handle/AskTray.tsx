/** A question: what it wants, because of what, what changed since. The button that approves names the effect. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { ChildAsk, OpenAsk } from "../../model/session";
import { argumentsOf, shorten, timeOfDay, visible, wholeOf } from "../../ui/format";
import { EffectChip, Left } from "../../ui/Parts";
import { goalOf } from "../../model/session";
import { approving, NEED_APPROVAL, placeOf, wanted } from "./asking";

interface Props {
  live: Live; ask: OpenAsk | ChildAsk; isOnly: boolean; mayAnswer: boolean; takesFocus: boolean; answer: (value: unknown, ask: string) => void;
  /** There is no page of the run around it: its goal, what happens otherwise, and whether it can be undone, are told here. */
  isWhole?: boolean;
  /** More that can be done about it. */
  children?: ComponentChildren;
}

export function AskTray({ live, ask, isOnly, mayAnswer, takesFocus, answer, isWhole = false, children }: Props): JSX.Element {
  const [isTalking, talk] = useState(false);
  const [text, write] = useState("");
  const heading = useRef<HTMLParagraphElement>(null);
  useEffect(() => { if (takesFocus) heading.current?.focus(); }, [takesFocus]);
  const own = "id" in ask ? ask : null;
  const name = own ? own.id : `${(ask as ChildAsk).child}/${(ask as ChildAsk).ask}`;
  const call = own ? live.run.asked(own.step) : undefined;
  const wants = wanted(ask.prompt, call);
  const because = own && wants ? reasonBefore(live, own.since) : "";
  const place = placeOf(ask.prompt);
  const isApproval = ask.reason === NEED_APPROVAL;
  const options = own?.options ?? [];
  const isChoice = options.length > 0 && !(options.length === 2 && options.includes("approve") && options.includes("refuse"));
  const yes = options.includes("approve") ? "approve" : "yes";
  const no = options.includes("refuse") ? "refuse" : "no";
  const changes = live.run.session?.changes ?? [];
  const wantsText = !isApproval && !isChoice && !options.length;
  const whole = wants ? wholeOf(wants.arguments, isWhole ? 800 : 240) : "";
  const key = (letter: string): JSX.Element | false => isOnly && <kbd aria-hidden="true">{letter}</kbd>;
  const submit = (event: Event): void => { event.preventDefault(); if (text.trim()) answer(text.trim(), name); };
  return (
    <div class="ask" data-ask={name}>
      <div class="row asktop">
        <p class="lead" tabIndex={-1} ref={heading}>{visible(wants?.title || ask.prompt) || "It needs your answer."}</p>
        {own?.expires_at != null && <span class="left">answer within <Left until={own.expires_at} ahead={live.client.ahead} /></span>}
        {own?.expires_at != null && !isWhole && <span class="sub">then: {otherwise(own)}</span>}
        {!own && <span class="sub">asked by child <code>{(ask as ChildAsk).child}</code></span>}
      </div>
      {(wants || isWhole) && (
        <dl>
          {wants && <><dt>Wants to</dt><dd><code>{wants.name}</code> {wants.effect && <EffectChip effect={wants.effect} />} {place && <span class="chip" data-env={place}>{visible(place)}</span>} {!isWhole && argumentsOf(wants.arguments, 240)}</dd></>}
          {wants && isWhole && <><dt>With</dt><dd><bdi>{argumentsOf(wants.arguments, 800) || "no arguments"}</bdi></dd></>}
          {whole && <><dt>In full</dt><dd><details class="in-full"><summary>All arguments</summary><pre>{whole}</pre></details></dd></>}
          {isWhole && live.run.session && <><dt>For the goal</dt><dd>{visible(goalOf(live.run.session)) || "none"}</dd></>}
          {wants?.why && <><dt>Asked because</dt><dd>{wants.why}</dd></>}
          {because && <><dt>Because</dt><dd>“{because}”</dd></>}
          {changes.length > 0 && <><dt>Changed since</dt><dd class="changed">{changes.map((change) => `${change.resource}: ${change.why || `${change.before ?? "not found"} → ${change.now ?? "gone"}`}`).join("; ")}</dd></>}
          {own && isWhole && <><dt>Without an answer</dt><dd>{own.expires_at == null ? "it waits" : `${otherwise(own)}, at ${timeOfDay(own.expires_at)}`}</dd></>}
          {wants && isWhole && <><dt>Can be undone</dt><dd>{call ? (call.can_undo ? "yes" : "no") : "unknown: it has not started"}</dd></>}
        </dl>
      )}
      {!mayAnswer ? <p class="sub">Your token cannot answer this. It needs the role {isApproval ? "approve" : "steer"}.</p> : (
        <div class="row answers">
          {isChoice && options.map((option) => <button key={option} class="btn big" type="button" onClick={() => answer(option, name)}>{visible(option)}</button>)}
          {!isChoice && !wantsText && (
            <>
              <button class="btn solid big" type="button" data-key="a" onClick={() => answer(yes, name)}>{approving(ask.prompt, wants)} {key("a")}</button>
              <button class="btn big" type="button" data-key="x" onClick={() => answer(no, name)}>Refuse {key("x")}</button>
            </>
          )}
          {!wantsText && !isTalking && <button class="btn big" type="button" data-key="e" onClick={() => talk(true)}>{isApproval ? "Ask back…" : "In words…"} {key("e")}</button>}
          {children}
          {(wantsText || isTalking) && (
            <form class="talk" aria-label="Answer in words" onSubmit={submit} onKeyDown={(event) => { if (event.key === "Escape") { talk(false); write(""); heading.current?.focus(); event.preventDefault(); event.stopPropagation(); } }}>
              <input class="field" value={text} onInput={(event) => write(event.currentTarget.value)} aria-label="Your answer" autocomplete="off"
                ref={(field) => { if (isTalking && field && document.activeElement !== field && !text) field.focus(); }} />
              <button class="btn big" type="submit">{isApproval ? "Refuse with this message" : "Answer"}</button>
            </form>
          )}
        </div>
      )}
      {isApproval && isTalking && <p class="dim">Text never approves. The agent receives a refusal with your message.</p>}
    </div>
  );
}

function otherwise(ask: OpenAsk): string {
  return ask.default ? `answered ${JSON.stringify(ask.default.raw)}` : ask.on_expiry === "cancel" ? "the run is cancelled" : "the agent is notified that no answer came";
}

/** The last words of the model before it asked. */
function reasonBefore(live: Live, since: number): string {
  const before = live.run.entries.findLast((one) => one.kind === "step" && one.of === "model" && one.at < since);
  return before?.kind === "step" ? shorten(before.text.current.trim(), 240) : "";
}
