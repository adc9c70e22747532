/** A run: its goal and course, plan, what happened, its signals; the handle below. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Client } from "../api/client";
import { Live } from "../api/live";
import type { Head, Me } from "../api/types";
import { title } from "../features/attention";
import { filterOf } from "../features/fleet/filter";
import { Fleet } from "../features/fleet/fleet";
import { Handle } from "../features/handle/Handle";
import { areKeysOff, isTyping } from "../features/handle/pressing";
import { Course } from "../features/run/Course";
import { Goal } from "../features/run/Goal";
import { Inspecting } from "../features/run/Inspecting";
import { Log } from "../features/run/Log";
import { Plan } from "../features/run/Plan";
import { useGauges } from "../features/run/gauging";
import { Signals } from "../features/run/Signals";
import { Waiting } from "../features/States";
import { Top } from "../features/Top";
import { runAt } from "../model/run";
import { goalOf } from "../model/session";
import { address, go, href } from "../ui/router";
import { save } from "../ui/save";

export function RunPage({ client, me, id }: { client: Client; me: Me; id: string }): JSX.Element {
  const live = useMemo(() => new Live(client, id), [client, id]);
  useEffect(() => { live.start(); return () => live.stop(); }, [live]);
  const follows = useSignal(true);
  const page = useRef<HTMLElement>(null);
  const dock = useRef<HTMLDivElement>(null);
  const [isForking, setForking] = useState(false);
  const family = useFamily(client, live);
  const gauges = useGauges(live);
  const rev = live.rev.value;
  const connection = live.connection.value;
  const session = live.run.session;
  // Once: who loads the page again does not shut the gate again.
  const [opens] = useState<"preview" | "redirect" | null>(() => { const what = address.value.get("open"); return what === "preview" || what === "redirect" ? what : null; });
  useEffect(() => { if (opens) go(href({ run: id }), true); }, []);
  const given = Number(address.value.get("at")) || null;
  const at = given !== null && given < live.run.position ? given : null;
  const shown = useMemo(() => (at === null ? live.run : runAt(id, live.records, at)), [live, at]);
  const goal = session ? goalOf(session) || session.agent : id;
  useEffect(() => { title.value = goal; }, [goal]);
  useLayoutEffect(() => keys(follows), []);
  useEffect(() => roomBelow(page.current, dock.current), [session === null]);
  const inspect = (position: number | null): void => {
    setForking(false);
    go(href({ run: id, at: position === null ? undefined : String(position) }), true);
  };
  void rev;
  if (!session) return <><Top page="run" connection={connection} /><main class="page"><Waiting connection={connection} words={`Reading session ${id}…`} id={id} /></main></>;
  return (
    <>
      <Top page="run" connection={connection} />
      <main class="page has-handle" ref={page}>
        <Goal live={live} run={shown} me={me.name} family={family}
          inspect={() => inspect(Math.max(1, live.run.position - 1))} fork={() => { inspect(null); setForking(true); }} save={() => save(`${id}.json`, { session: id, events: live.records })} />
        <Course live={live} run={shown} me={me.name} at={at} inspect={inspect} drift={gauges?.signals.find((one) => one.name === "scope_drift") ?? null} />
        {(at !== null || isForking) && <Inspecting live={live} at={at} inspect={inspect} isForking={isForking} />}
        {!live.isCaughtUp.value && live.records.length > 500 && <p class="sub">Reading {live.records.length.toLocaleString("en")} events…</p>}
        <div class="run">
          <div class="col-plan"><h2>Plan</h2><Plan run={shown} /></div>
          <div class="col-log"><Log live={live} run={shown} me={me.name} mayJudge={me.role !== "watch" && me.session === null} follows={follows} family={family} /></div>
          <div class="col-sig"><Signals live={live} run={shown} gauges={gauges} family={family} /></div>
        </div>
      </main>
      <div class="dock" ref={dock}><Handle live={live} me={me.name} role={me.role} keys={document} opens={opens} /></div>
    </>
  );
}

/** The page ends above the handle, however high its tray is. */
function roomBelow(page: HTMLElement | null, dock: HTMLElement | null): () => void {
  if (!page || !dock) return () => {};
  const watching = new ResizeObserver(() => {
    page.style.paddingBottom = `${dock.offsetHeight + 48}px`;
    page.style.setProperty("--dock", `${dock.offsetHeight}px`);
  });
  watching.observe(dock);
  return () => watching.disconnect();
}

/** Children of a session have ids that begin with its own. As they change: where each stands is its own to say. */
function useFamily(client: Client, live: Live): Head[] {
  const isParent = live.run.entries.some((entry) => entry.kind === "step" && entry.of === "child");
  const fleet = useMemo(() => (isParent ? new Fleet(client, filterOf(new URLSearchParams({ q: `${live.id}.`, sort: "newest" }))) : null), [client, live, isParent]);
  useEffect(() => { fleet?.start(); return () => fleet?.stop(); }, [fleet]);
  return fleet?.rows.value ?? [];
}

function keys(follows: { value: boolean }): () => void {
  const press = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event) || areKeysOff()) return;
    if (event.key === "f") follows.value = !follows.value;
    if (event.key !== "+" && event.key !== "-") return;
    const button = document.querySelector<HTMLButtonElement>(`.log [data-key="${event.key}"]`);
    button?.scrollIntoView({ block: "nearest" });
    button?.click();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
