/** The kill switch under its cover: scope, reason, and how many that is now; then the press. The cover closes by itself. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Client, Refusal, Unreachable } from "../../api/client";
import type { Me } from "../../api/types";
import { count } from "../../ui/format";
import { useOnce } from "../once";
import { lookAgain, type Scope, type ScopeKind, stands, type Switch, take } from "./switches";

const OPEN = 20_000;
const GUARD = 500;
const COUNT_EVERY = 1_000;

interface Counted { count: number; by_status: Record<string, number>; sentence: string }

export function Cover({ client, me, agents, labels, close }: { client: Client; me: Me & { tenant?: string | null }; agents: string[]; labels: string[]; close: () => void }): JSX.Element {
  const [kind, choose] = useState<ScopeKind>("all");
  const [value, name] = useState("");
  const [reason, explain] = useState("");
  const [counted, count_] = useState<Counted | null>(null);
  const [problem, say] = useState("");
  /** What came of the last press; the count goes on meanwhile. */
  const [failure, fail] = useState("");
  const [isSent, sent] = useState(false);
  const send = useOnce(client);
  const root = useRef<HTMLElement>(null);
  const opened = useRef(performance.now());
  const scope: Scope = { kind, value: kind === "all" ? "" : value.trim() };
  const isNamed = kind === "all" || scope.value !== "";

  useEffect(() => root.current?.querySelector<HTMLElement>("select")?.focus(), []);
  // Closes by itself, 20 s after the last change.
  useLayoutEffect(() => {
    if (isSent) return;
    const timer = setTimeout(close, OPEN);
    return () => clearTimeout(timer);
  }, [kind, value, reason, isSent]);
  useEffect(() => {
    count_(null);
    fail("");
    if (!isNamed) return;
    let isOver = false;
    let timer = 0;
    const look = async (): Promise<void> => {
      try {
        const found = await client.post<Counted>("/kill-switches/preview", { scope });
        if (!isOver) { count_(found); say(""); }
      } catch (error) {
        if (!isOver) say(`${(error as Error).message}${error instanceof Refusal ? "" : " The count is not known."}`);
      }
      if (!isOver) timer = window.setTimeout(() => void look(), COUNT_EVERY);
    };
    timer = window.setTimeout(() => void look(), 150);
    return () => { isOver = true; clearTimeout(timer); };
  }, [kind, scope.value]);

  const halt = async (): Promise<void> => {
    if (!isNamed || !reason.trim() || isSent || performance.now() - opened.current < GUARD) return;
    sent(true);
    fail("");
    try {
      const thrown = await send<Switch>("/kill-switches", { scope, reason: reason.trim(), wait: 1 });
      take(thrown);
      if (stands(thrown)) close();
      else fail("It was on, and has been lifted since. Press again to halt again.");
    } catch (error) {
      fail(`${(error as Error).message}${error instanceof Unreachable ? " It may be on: the list shows it if it is. Press again: it is not thrown twice." : ""}`);
    }
    sent(false);
    lookAgain();
  };
  const isReady = isNamed && reason.trim() !== "";
  return (
    <section class="kill" aria-label="Kill switch" ref={root} onKeyDown={(event) => { if (event.key === "Escape") { close(); event.preventDefault(); event.stopPropagation(); } }}>
      <div class="row"><h2>Kill switch</h2><span class="sub">Stops everything in its scope now, without undo. It stays on until an operator lifts it. Sessions that start in its scope are halted.</span></div>
      <form onSubmit={(event) => { event.preventDefault(); void halt(); }}>
        <div class="row fields">
          <label class="scope">Scope
            <select class="field" value={kind} onChange={(event) => choose(event.currentTarget.value as ScopeKind)}>
              <option value="all">All sessions</option><option value="agent">One agent</option><option value="label">One label</option>
              {me.tenant == null && <option value="tenant">One tenant</option>}
            </select>
          </label>
          {kind !== "all" && (
            <label class="named">{kind === "agent" ? "Which agent" : kind === "label" ? "Which label" : "Which tenant"}
              <input class="field" list="kill-names" maxLength={200} value={value} onInput={(event) => name(event.currentTarget.value)} />
              <datalist id="kill-names">{(kind === "agent" ? agents : kind === "label" ? labels : []).map((one) => <option key={one} value={one} />)}</datalist>
            </label>
          )}
          <label class="why">Reason, shown on every halted run
            <input class="field" maxLength={1000} value={reason} onInput={(event) => explain(event.currentTarget.value)} />
          </label>
        </div>
        <div class="row foot">
          <span role="status">{failure || problem ? <span class="still">{failure || problem}</span> : !isNamed ? "Choose its scope." : counted ? counted.sentence : "Counting…"}</span>
          <span class="end row">
            <button class="btn big" type="button" onClick={close}>Close the cover</button>
            <button class="btn big halt" type="submit" aria-disabled={!isReady || isSent || undefined}>{isSent ? "Halting…" : `Halt ${counted ? count(counted.count, "session") : "them"}`}{!isReady && <small> {isNamed ? "give a reason first" : "name its scope first"}</small>}</button>
          </span>
        </div>
      </form>
      <p class="dim">The cover closes automatically, 20 s after the last change.</p>
    </section>
  );
}
