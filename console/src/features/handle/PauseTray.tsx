/** While it is paused: the one-line difference, why it was paused, and a cap that can be raised. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import { isCapped } from "../../model/allowed";
import type { Message, Session } from "../../model/session";
import { cap, capitalised, money } from "../../ui/format";

export interface Changed { id: string; message: Message; before: string; isSeen: boolean }

/** What was said since it was paused, or was not seen before, with what it takes the place of. */
export function changesOf(live: Live): Changed[] {
  const session = live.run.session;
  if (!session) return [];
  return session.messages.flatMap((message, place) => {
    const isSeen = place < session.seen;
    // A policy that asks for the plan changes nothing: the log tells of it.
    if (message.withdrawn || message.by.startsWith("policy:") || (isSeen && !(session.pause && message.at >= session.pause.since))) return [];
    const before = message.level === "goal" ? session.messages.slice(0, place).findLast((one) => one.level === "goal" && !one.withdrawn)?.text ?? "" : "";
    return [{ id: `msg_${place + 1}`, message, before, isSeen }];
  });
}

const SAYS: Record<Message["level"], string> = { step: "changed the step", goal: "changed the goal", clarify: "explained", event: "reported an event" };

export function Difference({ live, who, edit, withdraw }: { live: Live; who: (by: string) => string; edit: (id: string, text: string) => void; withdraw: (id: string) => void }): JSX.Element {
  const [editing, setEditing] = useState("");
  const [text, write] = useState("");
  return (
    <>
      {changesOf(live).map(({ id, message, before, isSeen }) => (
        <div class="diff" key={id}>
          <span class="who">{capitalised(who(message.by))} {SAYS[message.level]}</span>
          {editing === id ? (
            <form class="talk" aria-label="Edit the message" onSubmit={(event) => { event.preventDefault(); if (text.trim()) { edit(id, text.trim()); setEditing(""); } }}>
              <input class="field" value={text} aria-label="New text" maxLength={200} onInput={(event) => write(event.currentTarget.value)} />
              <button class="btn small" type="submit">Change</button>
              <button class="plain" type="button" onClick={() => setEditing("")}>cancel</button>
            </form>
          ) : (
            <>
              <span class="what">{before && <><del>{before}</del> </>}<ins>{message.text}</ins></span>
              {!isSeen && <span class="end row">
                <button class="plain" type="button" onClick={() => { setEditing(id); write(message.text); }}>change</button>
                <button class="plain" type="button" onClick={() => withdraw(id)}>withdraw</button>
              </span>}
            </>
          )}
        </div>
      ))}
    </>
  );
}

const REASONS = ["checking something", "looks wrong", "costs too much"];

export function Reason({ give, skip }: { give: (reason: string) => void; skip: () => void }): JSX.Element {
  const [isOther, setOther] = useState(false);
  const [text, write] = useState("");
  return (
    <div class="row">
      <span class="sub">Why did you pause?</span>
      <span class="chips">
        {REASONS.map((reason) => <button key={reason} class="btn small" type="button" onClick={() => give(reason)}>{reason}</button>)}
        {isOther ? (
          <form class="talk" aria-label="Why did you pause?" onSubmit={(event) => { event.preventDefault(); give(text.trim()); }}>
            <input class="field small" aria-label="Reason" value={text} onInput={(event) => write(event.currentTarget.value)} ref={(field) => { if (field && !text) field.focus(); }} />
            <button class="btn small" type="submit">Keep</button>
          </form>
        ) : <button class="btn small" type="button" onClick={() => setOther(true)}>other…</button>}
        <button class="plain" type="button" onClick={skip}>skip</button>
      </span>
    </div>
  );
}

/** The least cap with which it can continue: the next sum in cents, or in two digits below them, as `core/budget.py` says it. */
export function leastCap(session: Session): string {
  const dollars = Math.max(session.cost, session.pause?.budget ?? 0);
  const digits = dollars >= 0.01 ? 2 : 1 - Math.floor(Math.log10(Math.max(dollars, 1e-12)));
  return ((Math.floor(dollars * 10 ** digits + 1e-9) + 1) / 10 ** digits).toFixed(digits);
}

/** The cap is reached: raise it, and resume a paused run, in one press. */
export function CapReached({ live, role, raise }: { live: Live; role: string; raise: (budget: number) => void }): JSX.Element | null {
  const [typed, type] = useState<string | null>(null);
  const [words, say] = useState("");
  const session = live.run.session;
  const budget = session?.terms.budget ?? null;
  if (!session || !isCapped(session) || budget === null || role === "watch") return null;
  const least = leastCap(session);
  const text = typed ?? least;
  const wanted = Number(text.replace(/^\s*\$/, ""));
  const isEnough = text.trim() !== "" && wanted >= Number(least);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isEnough) raise(wanted);
    else say(`Enter at least ${money(Number(least))}.`);
  };
  return (
    <form class="row" aria-label="Raise the cap" onSubmit={submit}>
      <span class="lead">{session.cost >= budget ? `The cap of ${cap(budget)} is reached.` : `The next call would pass the cap of ${cap(budget)}.`}</span>
      <label class="sum">New cap in dollars <input class="field" data-cap inputMode="decimal" autocomplete="off" maxLength={16} value={text} onInput={(event) => { type(event.currentTarget.value); say(""); }} /></label>
      <button class="btn solid big" type="submit">Raise the cap{isEnough ? ` to ${cap(wanted)}` : ""}{session.pause ? " and resume" : ""}</button>
      <span class="sub" role="status">{words || (session.asks.length === 0 && `${money(session.cost)} spent. It needs at least ${money(Number(least))} to continue.`)}</span>
    </form>
  );
}
