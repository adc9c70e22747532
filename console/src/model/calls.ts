/** What each event makes of a call that has begun and has no outcome: the same as core/open_calls.py. */

import type { Effect, EventData } from "./events";

export interface OpenCall {
  step: string; name: string; kind: "tool" | "model" | "child"; attempt: number; since: number; effect: Effect; key: string;
  settle: number; can_undo: boolean;
  end: "" | "aborted" | "lost" | "failed"; ended_at: number; again_at: number;
  undo: "" | "running" | "done" | "failed" | "lost"; undos: number;
  told: "" | "no"; redirected: number | null; said: number; before: OpenCall | null;
  /** Dollars of it that are in the session's cost already. */
  spent: number;
  /** Tokens of it that have come so far, which are not in the session's yet; and whether it is known to cost nothing. */
  written: number; free: boolean;
}

export function begun(data: EventData["step.begun"], at: number, before: OpenCall | undefined, said: number): OpenCall {
  return {
    step: data.step, name: data.name, kind: data.kind, attempt: data.attempt, since: at, effect: data.effect, key: data.key,
    settle: data.settle, can_undo: data.can_undo, end: "", ended_at: 0, again_at: 0, undo: "", undos: 0, told: "", redirected: null, said,
    before: before ? { ...before, before: null } : null, spent: 0, written: 0, free: false,
  };
}

/** A stop ended its body. Null: it did nothing, or says that it has not done it yet. */
export function aborted(call: OpenCall, asked: boolean, at: number): OpenCall | null {
  if (asked || call.effect === "read") return call.before;
  return { ...call, end: "aborted", ended_at: at };
}

/** It raised, and is tried again. What was answered need not settle: it ended by itself. */
export function failed(call: OpenCall, data: EventData["step.retrying"], at: number): OpenCall {
  return { ...call, end: "failed", ended_at: at, settle: data.unanswered ? call.settle : 0, again_at: data.again_at };
}

export function lost(call: OpenCall, at: number): OpenCall {
  if (call.end && call.undo !== "running") return call;
  return { ...call, end: call.end || "lost", ended_at: at, undo: call.undo === "running" ? "lost" : call.undo };
}

export function undoing(call: OpenCall, ended: EventData["undo.ended"], at: number): OpenCall {
  if (ended.lost) return { ...call, undo: "lost", ended_at: at };
  return { ...call, undo: ended.error ? "failed" : "done" };
}

/** A call that a withdrawn redirect would have closed goes on as if nobody had said it: another may still stand. */
export function unredirected(call: OpenCall, index: number, isWithdrawn: (place: number) => boolean): OpenCall {
  const before = call.before && unredirected(call.before, index, isWithdrawn);
  if (call.redirected !== index) return before === call.before ? call : { ...call, before };
  let other: number | null = null;
  for (let place = index - 1; place >= call.said; place--) {
    if (!isWithdrawn(place)) { other = place; break; }
  }
  return { ...call, redirected: other, before };
}
