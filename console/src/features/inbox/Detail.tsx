/** The ask that is open: what it wants, with what, why, what changed since, what happens if nobody answers; answered in place. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Client, Refusal } from "../../api/client";
import { Live } from "../../api/live";
import { type Told, toldOf } from "../../api/outbox";
import type { Inbox, InboxAsk, Me } from "../../api/types";
import { pressWords } from "../../model/contact";
import { isReview } from "../../model/interventions";
import type { AskEntry } from "../../model/story";
import { count, readable, shorten, timeOfDay, version, visible, who } from "../../ui/format";
import { useGivingBack } from "../../ui/focus";
import { Lamp } from "../../ui/Parts";
import { go, href } from "../../ui/router";
import { AskTray } from "../handle/AskTray";
import { mayAnswer, NEED_APPROVAL, placeOf, wanted } from "../handle/asking";
import { CapReached } from "../handle/PauseTray";
import { ReviewTray } from "../handle/ReviewTray";
import { Waiting } from "../States";
import { dueAt, myName } from "./grouping";
import { TimeLeft } from "./Queue";

interface Props {
  client: Client; me: Me; ask: InboxAsk; inbox: Inbox;
  /** It is no longer in the inbox. */
  isGone: boolean;
  /** It has been answered from here. */
  answered: (words: string) => void;
  look: () => void;
  next: () => void;
}

export function Detail({ client, me, ask, inbox, isGone, answered, look, next }: Props): JSX.Element {
  const live = useMemo(() => new Live(client, ask.session), [client, ask.session]);
  useEffect(() => { live.start(); return () => live.stop(); }, [live]);
  const [refusal, refuse] = useState<Told | null>(null);
  const [isSent, setSent] = useState(false);
  useEffect(() => { refuse(null); setSent(false); }, [ask.session, ask.ask]);
  void live.rev.value;
  const session = live.run.session;
  const open = session?.asks.find((one) => one.id === ask.ask);
  const entry = session && live.run.entries.findLast((one): one is AskEntry => one.kind === "ask" && one.ask === ask.ask);
  const stepin = session && live.run.stepinFor(ask.ask);
  const end = entry ?? stepin?.ask ?? null;
  const answer = (value: unknown, name: string): void => {
    refuse(null);
    setSent(true);
    live.answer(value, name).then(() => answered(`You answered “${shorten(readable(value), 60)}” to ${ask.agent}.`), (error: Error) => {
      setSent(false);
      const isElsewhere = error instanceof Refusal && ["ask_not_found", "not_allowed"].includes(error.code) && !live.run.session?.asks.some((one) => one.id === ask.ask);
      refuse(toldOf(error, isElsewhere));
      look();
    });
  };
  const raise = (budget: number): void => {
    refuse(null);
    live.raise(budget).then(look, (error: Error) => refuse(toldOf(error)));
  };
  const connection = live.connection.value;
  const status = session?.status ?? ask.session_status;
  const call = open && live.run.asked(open.step);
  const place = placeOf(open?.prompt ?? "");
  const effect = open ? wanted(open.prompt, call)?.effect ?? null : null;
  return (
    <article class="detail" aria-label="Ask" data-ready={(open !== undefined && !isSent) || undefined}>
      <div class="row">
        <Lamp status={status}>{status}</Lamp>
        <span><a href={href({ run: ask.session })}>{ask.agent}</a> <code class="dim">{ask.session}</code></span>
        {!isGone && ask.deadline !== dueAt(ask) && <TimeLeft ask={ask} ahead={client.ahead} />}
        <Owning client={client} me={me} ask={ask} isGone={isGone} look={look} />
      </div>
      {refusal && <p class={refusal.isCalm ? "sub" : "still"} role="status">{refusal.words}</p>}
      {!session || (!open && !end) ? <Waiting connection={connection} id={ask.session} rows={3} words={live.records.length ? `Reading ${live.records.length.toLocaleString("en")} events…` : "Reading the session…"} />
        : !open || isSent ? <Over isSent={isSent} kept={live.outbox.kept.value.map((press) => pressWords(press, connection)).join(" ")} entry={end} me={me.name} next={next} hasNext={inbox.asks.length > 0} />
        : isReview(open.step) ? (
          <><CapReached live={live} role={me.role} raise={raise} /><ReviewTray live={live} ask={open} isOnly mayAnswer={mayAnswer(me.role, open.reason, true)} answer={answer} cancel={() => go(href({ run: ask.session, open: "preview" }))} /></>
        ) : (
          <AskTray key={open.id} live={live} ask={open} isOnly takesFocus={false} isWhole mayAnswer={mayAnswer(me.role, open.reason, false)} answer={answer}>
            <a class="btn big" data-key="r" href={href({ run: ask.session, open: "redirect" })}>Redirect… <kbd aria-hidden="true">r</kbd></a>
          </AskTray>
        )}
      {session && open && isReview(open.step) && stepin && <p class="sub">For the goal: {visible(ask.goal) || "none"} · {version(stepin.decision.policy)}</p>}
      {!isGone && inbox.approvals_in_a_row >= ask.tired_after && <Tired inbox={inbox} client={client} look={look} next={[effect === "irreversible" ? "irreversible" : "", place && `in ${place}`].filter(Boolean).join(" and ")} />}
      <p class="dim hints"><kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>↵</kbd> open the run{open?.reason === NEED_APPROVAL && " · an approval covers exactly this call, these arguments and these versions, once"}</p>
    </article>
  );
}

/** Somebody has answered, or nobody can any more. No error: it is done. */
function Over({ isSent, kept, entry, me, next, hasNext }: { isSent: boolean; kept: string; entry: AskEntry | null; me: string; next: () => void; hasNext: boolean }): JSX.Element {
  const words = isSent && kept ? kept
    : isSent ? "Sent. It counts when the session confirms it."
    : entry?.end === "answered" ? `Already answered by ${who(entry.by, me)} at ${timeOfDay(entry.ended_at!)}: “${shorten(readable(entry.value?.raw), 120)}”.`
    : `${{ superseded: "Withdrawn by a redirect", withdrawn: "Withdrawn by a cancel", expired: "Not answered in time" }[entry?.end ?? ""] ?? "The question is no longer open"}${entry?.ended_at ? ` at ${timeOfDay(entry.ended_at)}` : ""}.`;
  return (
    <>
      <p class="lead" role="status">{words}</p>
      {!isSent && hasNext && <div class="row"><button class="btn" type="button" onClick={next}>Next one <kbd aria-hidden="true">j</kbd></button></div>}
    </>
  );
}

/** Whose it is; taken with one press, given with a name. */
function Owning({ client, me, ask, isGone, look }: { client: Client; me: Me; ask: InboxAsk; isGone: boolean; look: () => void }): JSX.Element | null {
  const { words, send } = useSending(look);
  const [isGiving, give] = useState(false);
  const giving = useGivingBack<HTMLButtonElement>(isGiving);
  useEffect(() => give(false), [ask.session, ask.ask]);
  if (isGone) return null;
  const path = `/inbox/${encodeURIComponent(ask.session)}/${encodeURIComponent(ask.ask)}/own`;
  const isMine = ask.owner === myName(me);
  const mayOwn = me.role !== "watch";
  return (
    <span class="owning end">
      <span class="sub" role="status">{words || (isMine ? `Assigned to you${ask.owned_since === null ? "" : ` since ${timeOfDay(ask.owned_since)}`}` : ask.owner ? `Assigned to ${visible(ask.owner)}` : "Not assigned")}</span>
      {mayOwn && !isMine && <button class="btn small" type="button" data-key="t" aria-keyshortcuts="t" onClick={() => send(client.post(path, {}))}>Take it <kbd aria-hidden="true">t</kbd></button>}
      {mayOwn && !isGiving && <button class="plain" type="button" ref={giving} onClick={() => give(true)}>assign to…</button>}
      {isGiving && <NameForm label="Assign it to" button="Assign" submit={(name) => { send(client.post(path, { owner: name })); give(false); }} close={() => give(false)} />}
    </span>
  );
}

/** After so many approvals in a row: it informs, and stands in nobody's way. */
function Tired({ inbox, client, look, next }: { inbox: Inbox; client: Client; look: () => void; next: string }): JSX.Element {
  const quick = inbox.quick >= 6 ? " The last six took under 3 s each." : inbox.quick > 0 ? ` ${inbox.quick} of the last six took under 3 s.` : "";
  return (
    <div class="note" role="status">
      <span><b>{inbox.approvals_in_a_row} approvals in a row.</b>{quick}{next && ` The next one is ${next}.`}</span>
      <span class="end row"><a class="btn small" href={href({ policies: "" })}>Ask me less</a><HandOver client={client} look={look} /></span>
    </div>
  );
}

/** For an hour everything that is asked of me is asked of somebody else. */
export function HandOver({ client, look }: { client: Client; look: () => void }): JSX.Element {
  const [isOpen, open] = useState(false);
  const { words, send } = useSending(look);
  const opener = useGivingBack<HTMLButtonElement>(isOpen);
  if (!isOpen) return <>{words && <span class="sub" role="status">{words}</span>}<button class="btn small" type="button" ref={opener} onClick={() => open(true)}>Hand over for an hour</button></>;
  const give = (name: string): void => { open(false); send(client.post("/inbox/hand-over", { to: name, seconds: 3600 }), `Handed over to ${name} for ${count(1, "hour")}.`); };
  return <NameForm label="Hand over for an hour to" button="Hand over" submit={give} close={() => open(false)} />;
}

function NameForm({ label, button, submit, close }: { label: string; button: string; submit: (name: string) => void; close: () => void }): JSX.Element {
  const [name, write] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form class="naming" aria-label={label} onSubmit={(event) => { event.preventDefault(); if (name.trim()) submit(name.trim()); }} onKeyDown={(event) => { if (event.key === "Escape") { close(); event.stopPropagation(); } }}>
      <input class="field" ref={field} value={name} maxLength={128} placeholder="name" aria-label={label} autocomplete="off" onInput={(event) => write(event.currentTarget.value)} />
      <button class="btn small" type="submit">{button}</button>
      <button class="plain" type="button" onClick={close}>close</button>
    </form>
  );
}

function useSending(look: () => void): { words: ComponentChildren; send: (sent: Promise<unknown>, done?: string) => void } {
  const [words, say] = useState("");
  const send = (sent: Promise<unknown>, done = ""): void => {
    sent.then(() => { say(done); look(); }, (error: Error) => say(error.message));
  };
  return { words, send };
}
