/** The sessions, live: what needs saying first, the filter in the address. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Client } from "../api/client";
import type { Head } from "../api/types";
import { needsSomebody, title } from "../features/attention";
import { Fleet, filterOf, isFiltered } from "../features/fleet/fleet";
import { GuidedPath } from "../features/fleet/GuidedPath";
import { Tiles } from "../features/fleet/Tiles";
import { areKeysOff, isTyping } from "../features/handle/pressing";
import { Refused, Rules, useLate } from "../features/States";
import { Top } from "../features/Top";
import { count, fullTime, money, timeOfDay, visible } from "../ui/format";
import { Word } from "../ui/Parts";
import { address, go, href } from "../ui/router";

export function FleetPage({ client }: { client: Client }): JSX.Element {
  const query = address.value.toString();
  const filter = useMemo(() => filterOf(address.value), [query]);
  const fleet = useMemo(() => new Fleet(client, filter), [client, filter]);
  useEffect(() => { fleet.start(); return () => fleet.stop(); }, [fleet]);
  // Paused by a policy, a session waits for its review: of those that are paused, the others are left out.
  const isNeedy = address.value.has("needs");
  const page = isNeedy || (filter.status.length === 1 && filter.status[0] === "waiting") ? "waiting" : "fleet";
  useEffect(() => { title.value = page === "waiting" ? "Needs you" : "Fleet"; }, [page]);
  const heads = isNeedy ? fleet.heads.value?.filter(needsSomebody) ?? null : fleet.heads.value;
  const connection = fleet.connection.value;
  const table = useRef<HTMLTableElement>(null);
  useEffect(() => rowKeys(table, client), []);
  const running = heads?.filter((head) => head.status === "running").length ?? 0;
  const asks = heads?.filter(needsSomebody).length ?? 0;
  return (
    <>
      <Top page={page} connection={connection} />
      <main class="page">
        <div class="pagehead"><h1>{page === "waiting" ? "Needs you" : "Fleet"}</h1>{heads && heads.length > 0 && <span class="sub facts"><span class="num">{running}</span> running, {asks ? count(asks, "needs you", "need you") : "nothing needs you"}</span>}</div>
        <Tiles heads={heads} filter={filter} isWhole={fleet.next.value === null} />
        <Search key={filter.search} />
        {connection.state === "refused" && !heads ? <Refused code={connection.problem?.code ?? ""} detail={connection.problem?.detail ?? ""} />
          : heads === null ? <Reading isLost={connection.state === "lost"} />
          : heads.length === 0 ? <Empty client={client} isFiltered={isFiltered(filter)} words={[filter.search, filter.agent, ...filter.status].filter(Boolean).join(" ")} />
          : (
            <div class="scroller">
              <table class="grid cards" ref={table}>
                <thead><tr><th scope="col">Status</th><th scope="col">Goal, agent</th><th scope="col" class="r hide-s">Steps</th><th scope="col" class="r hide-s">Spent</th><th scope="col" class="r">Started</th><th scope="col" class="r hide-m">Last event</th></tr></thead>
                <tbody>{heads.map((head) => <Row key={head.id} head={head} />)}</tbody>
              </table>
            </div>
          )}
        {fleet.next.value !== null && <p class="earlier"><button class="btn" type="button" onClick={() => void fleet.more()}>Show older ones</button></p>}
        <p class="dim hints"><kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>↵</kbd> open · <kbd>p</kbd> pause the focused one · <kbd>/</kbd> filter · <kbd>n</kbd> new run</p>
      </main>
    </>
  );
}

function Reading({ isLost }: { isLost: boolean }): JSX.Element | null {
  const isLate = useLate();
  if (isLost) return <div class="empty" role="alert"><b>No connection to the server.</b>It is tried again by itself.</div>;
  return isLate ? <Rules words="Reading the sessions…" rows={8} /> : null;
}

function Empty({ client, isFiltered, words }: { client: Client; isFiltered: boolean; words: string }): JSX.Element {
  if (isFiltered) return <div class="empty"><b>No session matches <code>{words}</code>.</b><a href={href({})}>Clear the filter</a></div>;
  return (
    <>
      <div class="empty"><b>No session runs here yet.</b><a href={href({ new: "" })}>Start a new run</a></div>
      <GuidedPath client={client} />
    </>
  );
}

function Search(): JSX.Element {
  const [text, write] = useState(address.value.get("search") ?? "");
  useEffect(() => {
    const timer = setTimeout(() => {
      const next = new URLSearchParams(address.value);
      if (text) next.set("search", text); else next.delete("search");
      const to = next.toString();
      if (to !== address.value.toString()) go(to ? `?${to}` : location.pathname, true);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  const agent = address.value.get("agent");
  return (
    <div class="filters">
      <input class="field" type="search" placeholder="Goal, agent, id" aria-label="Filter sessions" value={text} onInput={(event) => write(event.currentTarget.value)} />
      {agent && <a class="btn small" href={href({ status: address.value.getAll("status") })}>agent {agent} <span aria-label="remove this filter">✕</span></a>}
      <span class="sub">The address holds the filter.</span>
    </div>
  );
}

function Row({ head }: { head: Head }): JSX.Element {
  return (
    <tr>
      <td><Word status={head.status} /></td>
      <td class="what">
        <div><a class="rowlink" href={href({ run: head.id })}>{visible(head.goal) || "no goal was given"}</a></div>
        <div class="under">{head.asks > 0 && <><b class="left">{head.asks === 1 ? "asks you something" : `asks you ${head.asks} things`}</b><small>·</small></>}<small>{head.agent}{head.parent && ` · child of ${head.parent}`}{head.turn > 1 && ` · turn ${head.turn}`}</small></div>
      </td>
      <td class="r hide-s">{head.finished_steps.toLocaleString("en")}</td>
      <td class="r hide-s">{money(head.cost)}</td>
      <td class="r" title={fullTime(head.created_at)}>{timeOfDay(head.created_at)}</td>
      <td class="r hide-m" title={fullTime(head.updated_at)}>{timeOfDay(head.updated_at)}</td>
    </tr>
  );
}

function rowKeys(table: { current: HTMLTableElement | null }, client: Client): () => void {
  const press = (event: KeyboardEvent): void => {
    if (isTyping(event) || areKeysOff() || event.metaKey || event.ctrlKey || event.altKey || !"jkp/".includes(event.key)) return;
    if (event.key === "/") {
      document.querySelector<HTMLInputElement>('input[type="search"]')?.focus();
      event.preventDefault();
      return;
    }
    const rows = [...(table.current?.querySelectorAll<HTMLAnchorElement>(".rowlink") ?? [])];
    const here = rows.indexOf(document.activeElement as HTMLAnchorElement);
    if (event.key === "p") {
      const id = here < 0 ? null : new URL(rows[here]!.href).searchParams.get("run");
      if (id) void client.post(`/sessions/${encodeURIComponent(id)}/pause`, {}).catch(() => undefined);
      return;
    }
    rows[Math.min(rows.length - 1, Math.max(0, here + (event.key === "j" ? 1 : -1)))]?.focus();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
