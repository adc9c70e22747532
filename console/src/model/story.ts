/** What happened, as a person reads it: one entry per step, word, question, stop and end, in the order they began. */

import type { Change, Decision, Effect, MessageLevel, ReceiptLine, UndoChoice, Value, Verdict } from "./events";
import type { Text } from "./text";

export type CallState = "running" | "finished" | "failed" | "aborted" | "closed" | "lost" | "not begun" | "asking" | "retrying";

interface Common {
  /** Where it began in the journal, when, and how long the run had run by then. */
  position: number; at: number; clock: number;
  /** The plan item that was running. */
  item: string;
  /** Grows with each change, so that only what changed is drawn again. */
  rev: number;
}

export interface StepEntry extends Common {
  kind: "step"; step: string; name: string; of: "tool" | "model" | "child"; number: number;
  arguments: string; effect: Effect; attempt: number; state: CallState; begun_at: number; ended_at: number | null;
  value: Value | null; detail: string; told_by: string; child: string; text: Text; tokens: number; cost: number;
  undo: "" | "running" | "done" | "failed" | "lost"; can_undo: boolean; key: string;
  /** The attempts that are told here: a stream that was cut goes on further down, after what had cut it. */
  from: number; until: number | null; earlier: StepEntry | null;
  /** When it is tried again, of how many attempts, while it waits for that. */
  again_at: number; attempts: number;
}
export interface SaidEntry extends Common {
  kind: "said"; id: string; text: string; level: MessageLevel; by: string; turn: number; opens: boolean; queued: boolean;
  withdrawn: boolean; edited: string; seen_at: number | null;
}
export interface AskEntry extends Common {
  kind: "ask"; ask: string; step: string; reason: string; prompt: string; end: string; by: string; value: Value | null; ended_at: number | null;
}
export interface StopEntry extends Common {
  kind: "stop"; what: "pause" | "cancel" | "halt" | "undo"; by: string; reason: string; stopped_at: number | null; lifted_at: number | null;
  lifted_by: string; lapses: number | null; undo: UndoChoice | null; unknown: string[]; unreached: string[];
}
export interface EndEntry extends Common {
  kind: "end"; how: "completed" | "failed" | "cancelled" | "undone"; value: Value | null; code: string; message: string; receipt: ReceiptLine[];
}
export interface NoteEntry extends Common { kind: "note"; words: string; detail: string; amber: boolean; changes: Change[] }
/** A policy, or the agent itself, stepped in. What that led to is told here, not in lines of its own. */
export interface StepInEntry extends Common {
  kind: "stepin"; id: string; by: string; decision: Decision; pause: string | null; asks: string | null; verdict: Verdict | ""; judged_by: string;
  said: SaidEntry | null; ask: AskEntry | null; stop: StopEntry | null;
}

export type Entry = StepEntry | SaidEntry | AskEntry | StopEntry | EndEntry | NoteEntry | StepInEntry;

/** Grows with each change of an entry, and of what is told with it. */
export function revOf(entry: Entry): number {
  if (entry.kind !== "stepin") return entry.rev;
  return entry.rev + (entry.said?.rev ?? 0) + (entry.ask?.rev ?? 0) + (entry.stop?.rev ?? 0);
}

type Own<T extends Entry> = Omit<T, "position" | "at" | "clock" | "item" | "rev">;
export type Begin = { [K in Entry["kind"]]: Own<Extract<Entry, { kind: K }>> }[Entry["kind"]];
