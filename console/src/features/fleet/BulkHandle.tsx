/** The handle of the rows that are chosen: the same slots in the same places, and above them what came of each. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Client } from "../../api/client";
import { BULK, Outbox, toldOf } from "../../api/outbox";
import type { BulkOutcome, Head, Me, Preview } from "../../api/types";
import { tally } from "../../model/receipt";
import { count, spent, unpricedWords, visible } from "../../ui/format";
import { useGivingBack } from "../../ui/focus";
import { Word } from "../../ui/Parts";
import { href } from "../../ui/router";
import { KeptPresses } from "../KeptPresses";
import { SlotButton } from "../handle/Handle";
import { areKeysOff, isTyping, useGuard } from "../handle/pressing";
import type { Slot } from "../handle/slots";
import { bulkSlots, reached, result, standing, summary, type Verb } from "./bulk";
import type { Fleet } from "./fleet";
import type { Selection } from "./selection";

/** As many as one request takes. */
const AT_ONCE = 1_000;
/** So many previews are read, and so many rows of a tray are shown. */
const SHOWN = 20;
/** Milliseconds after which those that have moved on are read again. */
const AGAIN = 1_000;
const DONE: Record<Verb, string> = { pause: "paused", resume: "resumed", cancel: "cancelled" };

interface Came { verb: Verb; outcomes: BulkOutcome[] }

export function BulkHandle({ client, fleet, selection, me }: { client: Client; fleet: Fleet; selection: Selection; me: Me }): JSX.Element | null {
  const [isCancelling, cancelling] = useState(false);
  const [came, tell] = useState<Came | null>(null);
  const root = useGivingBack<HTMLElement>(isCancelling, ".slot:last-child");
  // Kept while nothing is decided about it, and sent again with the same key.
  const outbox = useMemo(() => Outbox.of(client, BULK), [client]);
  const press = outbox.pending.value[0];
  const asking = (press?.verb ?? "") as Verb | "";
  const kept = outbox.kept.value.length > 0;
  const problem = outbox.told.value?.words ?? "";
  const guard = useGuard();
  const all = fleet.heads.value;
  const heads = [...selection.ids.value].flatMap((id) => all?.get(id) ?? []);
  const slots = bulkSlots({ heads, isCancelling, asking, press: press ?? null, isLost: fleet.connection.value.state !== "live", role: me.role });
  const close = (): void => { cancelling(false); tell(null); outbox.told.value = null; };

  const send = async (verb: Verb): Promise<void> => {
    const ids = reached(verb, heads, me.role).map((head) => head.id);
    close();
    const outcomes: BulkOutcome[] = [];
    try {
      for (let start = 0; start < ids.length; start += AT_ONCE) {
        const answer = await outbox.send<{ outcomes: BulkOutcome[] }>(verb, "POST", "/sessions/bulk", { verb, sessions: ids.slice(start, start + AT_ONCE) });
        outcomes.push(...answer.outcomes);
      }
      if (verb === "cancel") selection.clear();
    } catch (error) {
      outbox.told.value = toldOf(error as Error);
    }
    if (outcomes.length) tell({ verb, outcomes });
  };
  const act = (slot: Slot, index: number): void => {
    if (slot.disabled || !guard.passes(index, slot.act)) return;
    if (slot.act === "pause" || slot.act === "resume") void send(slot.act);
    else if (slot.act === "cancel") { tell(null); cancelling(true); }
    else if (slot.act === "confirm") void send("cancel");
    else if (slot.act === "keep") close();
  };
  const latest = useRef({ slots, act, close, isOpen: isCancelling || came !== null || problem !== "" });
  latest.current = { slots, act, close, isOpen: isCancelling || came !== null || problem !== "" };
  useLayoutEffect(() => keys(root, latest, selection), []);
  const results = came?.outcomes.map((outcome) => ({ outcome, word: result(outcome, all?.get(outcome.session)) })) ?? [];
  const words = came ? `${summary(results.map((one) => one.word))}.` : "";
  const isShown = kept || heads.length > 0 || came !== null || problem !== "" || asking !== "";
  return (
    <div class="dock">
      <p class="vh" role="status" aria-live="polite">{problem || (asking ? `Asking to ${asking}.` : words || (heads.length ? `${count(heads.length, "session")} selected.` : ""))}</p>
      {isShown && (
        <section class="handle many" aria-label={heads.length ? `Handle for ${count(heads.length, "selected session")}` : "Results"} ref={root}>
          {isCancelling && <CancelTray client={client} heads={reached("cancel", heads, me.role)} />}
          {(came || problem || kept) && (
            <div class="tray">
              <KeptPresses outbox={outbox} connection={fleet.connection.value} />
              {problem && <p class="still">{problem}</p>}
              {came && <Outcomes came={came} results={results} words={words} heads={all} />}
              {(came || problem) && <p><button class="plain" type="button" onClick={close}>close <kbd aria-hidden="true">esc</kbd></button></p>}
            </div>
          )}
          <div class="bar">
            <div class="now">
              <strong>{heads.length ? `${count(heads.length, "session")} selected` : asking ? "Asking the server…" : "None selected"}</strong>
              <p class="doing">{heads.length > 0 && `${standing(heads)}. `}<span class="told">The result is shown for each session.</span></p>
              {heads.length > 0 && <button class="plain tiny" type="button" onClick={() => { selection.clear(); close(); }}>Clear the selection</button>}
            </div>
            <dl class="dials"><div><dt>spent in total</dt><dd><Together heads={heads} /></dd></div></dl>
            <div class="slots" role="group" aria-label="Controls">
              {slots.map((slot, index) => <SlotButton key={index} slot={slot} index={index} act={act} watch={guard.watch} isOpen={index === 2 && isCancelling ? true : undefined} />)}
            </div>
          </div>
        </section>
      )}
    </div>
  );
}

function Together({ heads }: { heads: Head[] }): JSX.Element {
  const all = { cost: heads.reduce((sum, head) => sum + head.cost, 0), unpriced: heads.reduce((sum, head) => sum + head.unpriced, 0), estimated: heads.some((head) => head.estimated) };
  return <span class={all.cost > 0 || all.unpriced === 0 ? undefined : "unpriced"} title={unpricedWords(all) || undefined}>{spent(all)}</span>;
}

/** What a cancel of these would come to, before it is confirmed. They go on meanwhile. */
function CancelTray({ client, heads }: { client: Client; heads: Head[] }): JSX.Element {
  const [previews, set] = useState<ReadonlyMap<string, string>>(new Map());
  const lead = useRef<HTMLParagraphElement>(null);
  const last = heads.filter((head) => head.task_class === "protected" && (head.status === "running" || head.status === "waiting")).length;
  const shown = heads.slice(0, SHOWN);
  const latest = useRef(heads);
  latest.current = shown;
  const ids = shown.map((head) => head.id).join(" ");
  useLayoutEffect(() => lead.current?.focus(), []);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const read = new Map<string, number>();
    // They go on meanwhile: of those that have moved on since, it is read again.
    const look = async (): Promise<void> => {
      for (const { id, position } of latest.current) {
        if (read.get(id) === position) continue;
        const words = await client.get<Preview>(`/sessions/${encodeURIComponent(id)}/cancel/preview`).then(
          (found) => { read.set(id, position); return tally(found["in-flight"].lines) || "nothing was changed"; },
          (error: Error) => error.message,
        );
        if (isOver) return;
        set((known) => new Map(known).set(id, words));
      }
      timer = window.setTimeout(() => void look(), AGAIN);
    };
    void look();
    return () => { isOver = true; clearTimeout(timer); };
  }, [ids]);
  return (
    <div class="tray">
      <p class="lead" tabIndex={-1} ref={lead}>Cancel {count(heads.length, "session")}? What is in flight is undone, finished work is kept.{last > 0 && ` ${count(last, "is protected and finishes its", "are protected and finish their")} turn first.`} They keep running while you read this.</p>
      <ul class="outcomes">{shown.map((head) => <li key={head.id}><Word status={head.status} /><a href={href({ run: head.id })}>{visible(head.goal) || head.id}</a><span class="sub">{previews.get(head.id) ?? "reading what was done…"}</span></li>)}</ul>
      {heads.length > shown.length && <p class="sub">and {(heads.length - shown.length).toLocaleString("en")} more.</p>}
    </div>
  );
}

function Outcomes({ came, results, words, heads }: { came: Came; results: { outcome: BulkOutcome; word: string }[]; words: string; heads: ReadonlyMap<string, Head> | null }): JSX.Element {
  const others = results.filter(({ word }) => word !== DONE[came.verb] && !(came.verb === "resume" && word === "running"));
  return (
    <>
      <p class="lead">{words}</p>
      {others.length > 0 && (
        <ul class="outcomes">
          {others.slice(0, SHOWN).map(({ outcome, word }) => {
            const head = heads?.get(outcome.session);
            return <li key={outcome.session}><b>{word}</b><a href={href({ run: outcome.session })}>{visible(head?.goal ?? "") || outcome.session}</a><span class="sub">{outcome.problem || (head?.busy ? `${head.busy} still running` : "")}</span></li>;
          })}
        </ul>
      )}
      {others.length > SHOWN && <p class="sub">and {(others.length - SHOWN).toLocaleString("en")} more.</p>}
    </>
  );
}

interface Latest { slots: readonly Slot[]; act: (slot: Slot, index: number) => void; close: () => void; isOpen: boolean }

function keys(root: { current: HTMLElement | null }, latest: { current: Latest }, selection: Selection): () => void {
  const press = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.repeat) return;
    const { slots, act, close, isOpen } = latest.current;
    if (event.key === "Escape" && (isOpen || selection.ids.value.size > 0)) {
      if (isOpen) close(); else selection.clear();
      event.preventDefault();
      return;
    }
    if (isTyping(event)) return;
    const target = event.composedPath()[0];
    if (event.key === "Enter") {
      // Confirms only with the focus in the tray, on something that Enter does not press by itself.
      const index = slots.findIndex((slot) => slot.key === "Enter");
      const isInTray = target instanceof HTMLElement && root.current?.querySelector(".tray")?.contains(target) && target.closest("button, a") === null;
      if (index >= 0 && isInTray) { act(slots[index]!, index); event.preventDefault(); }
      return;
    }
    if (areKeysOff() || event.shiftKey || selection.ids.value.size === 0) return;
    const index = slots.findIndex((slot) => slot.key === event.key.toLowerCase());
    if (index < 0) return;
    act(slots[index]!, index);
    event.preventDefault();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
