/** The inbox: what needs an answer, soonest first, one of them open in place; and what could wait, by cause. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Client } from "../api/client";
import type { InboxAsk, Me } from "../api/types";
import { title } from "../features/attention";
import { GUARD, areKeysOff, isTyping } from "../features/handle/pressing";
import { Alarms } from "../features/inbox/Alarms";
import { Detail, HandOver } from "../features/inbox/Detail";
import { grouped, keyOf, myName } from "../features/inbox/grouping";
import { Inboxed } from "../features/inbox/inbox";
import { Made } from "../features/inbox/Made";
import { MADE, Queue } from "../features/inbox/Queue";
import { Waiting } from "../features/States";
import { Top } from "../features/Top";
import { count } from "../ui/format";
import { go, href } from "../ui/router";

export function InboxPage({ client, me }: { client: Client; me: Me }): JSX.Element {
  const inboxed = useMemo(() => new Inboxed(client), [client]);
  useEffect(() => { inboxed.start(); return () => inboxed.stop(); }, [inboxed]);
  useEffect(() => { title.value = "Inbox"; }, []);
  const chosen = useSignal("");
  const said = useSignal("");
  /** The ask that is open, also when it has left the inbox: it is not taken away under somebody's eyes. */
  const kept = useRef<InboxAsk | null>(null);
  /** Answered from here: not shown as open while the list still has it. */
  const done = useRef(new Set<string>());
  const page = useRef<HTMLElement>(null);
  const inbox = inboxed.now.value;
  const connection = inboxed.connection.value;
  const asks = (inbox?.asks ?? []).filter((ask) => !done.current.has(keyOf(ask)));
  const groups = inbox ? grouped(inbox.alarms, asks) : [];
  const made = inbox?.artifacts ?? [];
  const keys = [...asks.map(keyOf), ...groups.map((group) => `alarm ${group.cause}`), ...(made.length ? [MADE] : [])];
  const isKept = chosen.value !== "" && kept.current !== null && keyOf(kept.current) === chosen.value && !done.current.has(chosen.value);
  const open = keys.includes(chosen.value) || isKept ? chosen.value : keys[0] ?? "";
  const listed = asks.find((ask) => keyOf(ask) === open);
  if (listed) kept.current = listed;
  const ask = listed ?? (isKept ? kept.current : null);
  const group = groups.find((one) => `alarm ${one.cause}` === open);
  useLayoutEffect(() => { if (open) chosen.value = open; }, [open]);
  const choose = (key: string): void => { chosen.value = key; said.value = ""; };
  const step = (by: number): void => {
    const here = keys.indexOf(open);
    const to = keys[here < 0 ? 0 : Math.min(keys.length - 1, Math.max(0, here + by))];
    if (to === undefined) return;
    choose(to);
    page.current?.querySelector<HTMLElement>(`[data-item="${CSS.escape(to)}"]`)?.focus();
  };
  const hasAnswered = useRef(false);
  useLayoutEffect(() => {
    // What had the focus went with the answer: it goes to what is open next, so that Tab and a reader go on from there.
    if (hasAnswered.current && document.activeElement === document.body) page.current?.querySelector<HTMLElement>(open ? `[data-item="${CSS.escape(open)}"]` : ".empty")?.focus();
    hasAnswered.current = false;
  }, [open]);
  const answered = (key: string, words: string): void => {
    const here = keys.indexOf(key);
    done.current.add(key);
    said.value = words;
    if (chosen.value === key) { chosen.value = keys[here + 1] ?? keys[here - 1] ?? ""; hasAnswered.current = true; }
    void inboxed.look();
  };
  useKeys(page, open, step, ask);
  const look = (): void => void inboxed.look();
  const batched = groups.reduce((sum, one) => sum + one.alarms.length, 0);
  return (
    <>
      <Top page="inbox" connection={connection} />
      <main class="page" ref={page}>
        <div class="pagehead"><h1>Inbox</h1>
          {inbox && <span class="sub facts">{count(asks.length, "needs an answer", "need an answer")} · {batched} batched</span>}
          {inbox && me.role !== "watch" && <span class="end row"><HandOver client={client} look={look} /></span>}
        </div>
        <p class="sub answered" role="status" aria-live="polite">{said.value}</p>
        {!inbox ? <Waiting connection={connection} words="Reading the inbox…" />
          : !ask && !group && open !== MADE ? <div class="empty" tabIndex={-1}><b>{connection.state === "lost" ? "Nothing needed you at the last update." : "Nothing needs you."}</b>{count(inbox.running, "session runs inside its limits", "sessions run inside their limits")}. Alarms that can wait arrive here in one batch an hour.</div>
          : (
            <div class="inbox">
              <Queue asks={asks} groups={groups} made={made} open={open} choose={choose} me={myName(me)} ahead={client.ahead} />
              {ask ? <Detail client={client} me={me} ask={ask} inbox={inbox} isGone={!listed} answered={(words) => answered(keyOf(ask), words)} look={look} next={() => step(1)} />
                : group ? <Alarms client={client} me={me} group={group} />
                : <Made client={client} me={me} artifacts={made} look={look} />}
            </div>
          )}
      </main>
    </>
  );
}

/** What has just come to be open takes no press for a moment, neither by key nor by pointer: a second one was meant for what was there before. */
function useKeys(page: { current: HTMLElement | null }, open: string, step: (by: number) => void, ask: InboxAsk | null): void {
  const latest = useRef({ step, ask });
  latest.current = { step, ask };
  const since = useRef({ open: "", at: 0 });
  if (since.current.open !== open) since.current = { open, at: since.current.at === 0 ? -Infinity : performance.now() };
  useLayoutEffect(() => {
    const isGuarded = (): boolean => performance.now() - since.current.at < GUARD;
    const press = (event: KeyboardEvent): void => {
      if (isTyping(event) || areKeysOff() || event.metaKey || event.ctrlKey || event.altKey || event.repeat || event.defaultPrevented) return;
      const { step, ask } = latest.current;
      if (event.key === "j" || event.key === "k") { step(event.key === "j" ? 1 : -1); event.preventDefault(); return; }
      const target = event.target instanceof Element ? event.target : null;
      if (event.key === "Enter") {
        // On something that Enter presses by itself, it does that.
        if (!ask || (target?.closest("button, a, summary") && !target.closest(".item"))) return;
        event.preventDefault();
        go(href({ run: ask.session }));
        return;
      }
      if (!"axert+-".includes(event.key) || event.key.length !== 1) return;
      const within = "+-".includes(event.key) && target?.closest(".alarms li") ? target.closest(".alarms li") : page.current?.querySelector(".detail");
      const button = within?.querySelector<HTMLElement>(`[data-key="${event.key}"]`);
      if (!button) return;
      event.preventDefault();
      if (isGuarded()) return;
      if (button instanceof HTMLInputElement) button.focus(); else button.click();
    };
    const click = (event: MouseEvent): void => {
      const isAnswer = event.target instanceof Element && event.target.closest(".detail .answers") !== null;
      if (isAnswer && isGuarded()) { event.preventDefault(); event.stopPropagation(); }
    };
    document.addEventListener("keydown", press);
    page.current?.addEventListener("click", click, true);
    const home = page.current;
    return () => { document.removeEventListener("keydown", press); home?.removeEventListener("click", click, true); };
  }, []);
}
