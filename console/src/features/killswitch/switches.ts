/** The kill switches: those that stand, on every page; and what became of each session they reached. */

import { signal } from "@preact/signals";
import { type Client, Refusal } from "../../api/client";

export type ScopeKind = "all" | "agent" | "label" | "tenant";
export interface Scope { kind: ScopeKind; value: string }
export interface Reached {
  session: string; agent: string; goal: string; state: "stopped" | "still_running" | "not_reachable"; was: string;
  /** The call that goes on, and since when; 0: that is not known. */
  running: string; since: number;
}
export interface Switch {
  id: string; scope: Scope; reason: string; by: string; at: number; lifted_at: number | null; lifted_by: string; lifted_why?: string;
  counts: { stopped: number; still_running: number; not_reachable: number }; sessions: number; report?: Reached[];
  /** Whether it survives a restart of the server; what to say of a scope whose name nothing has. */
  durable: boolean; hint: string;
}
export interface Released { session: string; ok: boolean; status: string; problem: string }

const SELDOM = 5_000;
const OFTEN = 1_000;
/** One that was lifted is shown for so long, as long as sessions of it are halted. */
const REMEMBERED = 7 * 24 * 3600;

/** Those that stand, and those that were lifted of late, newest first. */
export const switches = signal<Switch[]>([]);

/** The head of what is said of one: on, and whether that is stored. */
export function standsWords(one: Switch): string { return !stands(one) ? "Kill switch was lifted" : one.durable ? "Kill switch is on" : "Kill switch is on, not stored"; }

export function stands(one: Switch): boolean { return one.lifted_at === null; }

/** Everything of it has stopped: there is nothing to wait for. */
export function isSettled(one: Switch): boolean { return one.counts.still_running + one.counts.not_reachable === 0; }

export function scopeWords(scope: Scope): string {
  return scope.kind === "all" ? "all sessions" : `${scope.kind} ${scope.value}`;
}

const NEWEST = (one: Switch, other: Switch): number => other.at - one.at;

/** With what only another answer has: a list names no session, and only the answer to the throw has a hint. */
function merged(one: Switch): Switch {
  const known = switches.peek().find((other) => other.id === one.id);
  return { ...one, report: one.report ?? known?.report ?? [], hint: one.hint || (known?.hint ?? "") };
}

let looking: () => void = () => {};

/** Look now: something was pressed. */
export function lookAgain(): void { looking(); }

export function watchSwitches(client: Client): void {
  let timer = 0;
  const look = async (): Promise<void> => {
    clearTimeout(timer);
    try {
      const { switches: found } = await client.get<{ switches: Switch[] }>("/kill-switches?limit=10");
      const recent = found.filter((one) => stands(one) || client.now() - (one.lifted_at ?? 0) < REMEMBERED);
      switches.value = recent.map(merged).sort(NEWEST);
    } catch (error) {
      // A server without them, or a token that may not look, has none to show. The page says that there is no connection.
      if (error instanceof Refusal) return;
    }
    timer = window.setTimeout(() => void look(), switches.value.some((one) => stands(one) && !isSettled(one)) && !document.hidden ? OFTEN : SELDOM);
  };
  looking = () => void look();
  void look();
}

/** What an answer said of one of them. */
export function take(one: Switch): void {
  const others = switches.value.filter((other) => other.id !== one.id);
  switches.value = [merged(one), ...others].sort(NEWEST);
}
