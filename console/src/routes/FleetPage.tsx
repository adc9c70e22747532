/** The fleet, live: what needs a person first, the filter in the address, the handle of those that are chosen. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Client } from "../api/client";
import { Outbox } from "../api/outbox";
import type { Head, Me } from "../api/types";
import { needsSomebody, title } from "../features/attention";
import { BulkHandle } from "../features/fleet/BulkHandle";
import { type Filter, filterOf, isFiltered, ORDERS, type Order, wordsOf } from "../features/fleet/filter";
import { Fleet, isSilent, MOST } from "../features/fleet/fleet";
import { GuidedPath } from "../features/fleet/GuidedPath";
import { Selection } from "../features/fleet/selection";
import { type Steps, Table } from "../features/fleet/Table";
import { Tiles } from "../features/fleet/Tiles";
import { areKeysOff, isTyping } from "../features/handle/pressing";
import { Cover } from "../features/killswitch/Cover";
import { Report } from "../features/killswitch/Report";
import { switches } from "../features/killswitch/switches";
import { Waiting } from "../features/States";
import { Top } from "../features/Top";
import { useGivingBack, useStaying } from "../ui/focus";
import { count } from "../ui/format";
import { address, go, href } from "../ui/router";

export function FleetPage({ client, me }: { client: Client; me: Me }): JSX.Element {
  const query = address.value.toString();
  const filter = useMemo(() => filterOf(address.value), [query]);
  const { agent, class: task_class, tag, search } = filter;
  // Another status or order is no other stream.
  const fleet = useMemo(() => new Fleet(client, filter), [client, agent, task_class, tag, search]);
  fleet.filter.value = filter;
  useEffect(() => { fleet.start(); return () => fleet.stop(); }, [fleet]);
  useEffect(() => { title.value = "Fleet"; }, []);
  const selection = useMemo(() => new Selection(() => fleet.rows.peek() ?? []), [fleet]);
  const [isOpen, lift] = useState(false);
  const cover = useGivingBack<HTMLButtonElement>(isOpen);
  const reports = useStaying<HTMLDivElement>(cover);
  const [said, say] = useState("");
  const steps = useRef<Steps | null>(null);
  useLayoutEffect(() => rowKeys(steps, selection, client, say), [selection]);
  const all = fleet.heads.value;
  const rows = fleet.rows.value;
  const connection = fleet.connection.value;
  const shown = switches.value.slice(0, 5);
  return (
    <>
      <Top page="fleet" connection={connection} />
      <main class="page has-handle">
        <div class="pagehead">
          <h1>Fleet</h1>{all && all.size > 0 && <span class="sub facts"><Facts heads={all} /></span>}
          <div class="end">
            {/* On a phone the top bar has no room for these two. */}
            <a class="btn small only-s" href={href({ new: "" })}>New run</a>
            <a class="btn small only-s" href={href({ settings: "" })}>Settings</a>
            {me.role === "operate" && me.session === null && <button class="btn danger small" type="button" ref={cover} aria-expanded={isOpen} onClick={() => lift(!isOpen)}>Kill switch…</button>}
          </div>
        </div>
        {isOpen && <Cover client={client} me={me} agents={named(all, (head) => [head.agent])} labels={named(all, (head) => head.labels)} close={() => lift(false)} />}
        <div ref={reports}>{shown.map((one) => <Report key={one.id} client={client} one={one} me={me} heads={all} />)}</div>
        <Tiles fleet={fleet} now={client.now()} />
        <Search key={`${agent} ${task_class} ${tag}`} filter={filter} total={all?.size ?? 0} shown={rows?.length ?? 0} isRead={rows !== null} toRows={() => steps.current?.to(-Infinity)} />
        {rows === null ? <Waiting connection={connection} words="Reading the sessions…" rows={8} />
          : rows.length === 0 ? <Empty client={client} isFiltered={isFiltered(filter)} words={wordsOf(filter)} />
          : <Table fleet={fleet} rows={rows} selection={selection} sort={sort} ahead={client.ahead} steps={steps} />}
        {(all?.size ?? 0) >= MOST && <p class="sub">The newest {MOST.toLocaleString("en")} are here. Narrow the filter to find older ones.</p>}
        <p class="still" role="status">{said}</p>
        <p class="dim hints"><kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>↵</kbd> open · <kbd>space</kbd> select, with <kbd>shift</kbd> up to here · <kbd>p</kbd> pause the focused or the selected · <kbd>/</kbd> filter, then <kbd>↵</kbd> to the rows · <kbd>n</kbd> new run</p>
      </main>
      <BulkHandle client={client} fleet={fleet} selection={selection} me={me} />
    </>
  );
}

function Facts({ heads }: { heads: ReadonlyMap<string, Head> }): JSX.Element {
  const [running, asks, halted, busy, alone, silent] = useMemo(() => {
    const every = [...heads.values()];
    const stopped = every.filter((head) => head.status === "halted");
    return [every.filter((head) => head.status === "running").length, every.filter(needsSomebody).length, stopped.length, stopped.filter((head) => head.busy).length, every.filter((head) => head.unattended).length, every.filter(isSilent).length];
  }, [heads]);
  return <><span class="num">{running.toLocaleString("en")}</span> running, {asks ? count(asks, "session needs you", "sessions need you") : "nothing needs you"}{halted > 0 && `, ${halted.toLocaleString("en")} halted${busy ? ` of which ${count(busy, "still runs", "still run")} something` : ""}`}{alone > 0 && `, ${alone.toLocaleString("en")} without a worker`}{silent > 0 && `, ${silent.toLocaleString("en")} whose worker does not answer`}</>;
}

function named(heads: ReadonlyMap<string, Head> | null, of: (head: Head) => string[]): string[] {
  return [...new Set([...(heads?.values() ?? [])].flatMap(of))].sort().slice(0, 200);
}

function change(set: (query: URLSearchParams) => void, replace = false): void {
  const next = new URLSearchParams(address.value);
  set(next);
  const to = next.toString();
  if (to !== address.value.toString()) go(to ? `?${to}` : location.pathname, replace);
}

function sort(order: Order): void { change((query) => { if (order === "needs") query.delete("sort"); else query.set("sort", order); }); }

function Empty({ client, isFiltered, words }: { client: Client; isFiltered: boolean; words: string }): JSX.Element {
  if (isFiltered) return <div class="empty"><b>No session matches <code>{words || "that"}</code>.</b><a href={href({})}>Clear the filter</a></div>;
  return (
    <>
      <div class="empty"><b>No session runs here yet.</b><a href={href({ new: "" })}>Start a new run</a></div>
      <GuidedPath client={client} />
    </>
  );
}

const NAMES: Record<Order, string> = { needs: "Needs you first", newest: "Newest", elapsed: "Longest", cost: "Costliest", risk: "Riskiest" };

function Search({ filter, total, shown, isRead, toRows }: { filter: Filter; total: number; shown: number; isRead: boolean; toRows: () => void }): JSX.Element {
  const given = address.value.get("q") ?? "";
  const [text, write] = useState(given);
  const typed = useRef(given);
  const [isLeaving, leave] = useState(false);
  const apply = (): void => { typed.current = text; change((query) => { if (text) query.set("q", text); else query.delete("q"); }, true); };
  useEffect(() => {
    const timer = setTimeout(apply, 250);
    return () => clearTimeout(timer);
  }, [text]);
  // Not before the rows are those of the filter: who types and presses Enter twice opens what they asked for.
  useEffect(() => { if (isLeaving && isRead && given === text) { leave(false); toRows(); } }, [isLeaving, isRead, given, text]);
  // The address was changed elsewhere: back, or a link.
  useEffect(() => { if (given !== typed.current) { typed.current = given; write(given); } }, [given]);
  return (
    <div class="filters">
      <input class="field" type="search" maxLength={1000} placeholder="Goal, agent, id, tag:… class:…" aria-label="Filter sessions" value={text} onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => { if (event.key === "Enter" || event.key === "ArrowDown") { apply(); leave(true); event.preventDefault(); } }} onBlur={() => leave(false)} />
      <div class="seg small" role="radiogroup" aria-label="Order">{ORDERS.map((order) => <label key={order}><input type="radio" name="order" checked={filter.order === order} onChange={() => sort(order)} /><b>{NAMES[order]}</b></label>)}</div>
      {(["agent", "class", "tag"] as const).map((name) => address.value.get(name) && <button key={name} class="btn small" type="button" onClick={() => change((query) => query.delete(name))}>{name} {address.value.get(name)} <span aria-label="remove this filter">✕</span></button>)}
      <span class="dim facts">{total > 0 && (shown === total ? count(total, "session") : `${count(total, "session")}, ${shown.toLocaleString("en")} shown`)}{total > 0 && " · the filter is in the URL"}</span>
    </div>
  );
}

function rowKeys(steps: { current: Steps | null }, selection: Selection, client: Client, say: (words: string) => void): () => void {
  const press = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || isTyping(event) || areKeysOff() || event.metaKey || event.ctrlKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "/") {
      document.querySelector<HTMLInputElement>('input[type="search"]')?.focus();
      event.preventDefault();
    } else if (key === "j" || key === "k") {
      const from = steps.current?.focused() ?? null;
      const to = steps.current?.to(key === "j" ? 1 : -1) ?? null;
      if (event.shiftKey && to) { if (from && !selection.ids.value.has(from)) selection.toggle(from, false); selection.toggle(to, true); }
      event.preventDefault();
    } else if (key === " ") {
      const id = steps.current?.focused() ?? null;
      // On a checkbox the browser does it.
      if (!id || event.target instanceof HTMLInputElement) return;
      selection.toggle(id, event.shiftKey);
      event.preventDefault();
    } else if (key === "p" && selection.ids.value.size === 0) {
      const id = steps.current?.focused() ?? null;
      if (!id) return;
      say("");
      Outbox.of(client, id).send("pause", "POST", `/sessions/${encodeURIComponent(id)}/pause`, {}).catch((error: Error) => say(error.message));
      event.preventDefault();
    }
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
