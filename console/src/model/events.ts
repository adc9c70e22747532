/** The facts a journal is made of, as `GET /events` gives them: the fields that the console reads. */

export type Effect = "read" | "idempotent" | "reversible" | "irreversible";
export type Level = "step" | "goal" | "clarify";
export type MessageLevel = Level | "event";
export type UndoChoice = "in-flight" | "all" | "none";
export type PlanStatus = "queued" | "running" | "done" | "interrupted";
export type Outcome =
  | "undone" | "kept" | "cannot be undone" | "undo failed" | "undo ran with unknown result" | "unknown" | "still running";

/** A user's value: inline, or the digest of a blob. */
export interface Value { raw: unknown; blob: string; size: number }
export interface PlanItem { title: string; status: PlanStatus }
export interface Terms {
  task_class: string | null; policy: string; budget: number | null; ttl_seconds: number | null; on_expiry: unknown;
}
export interface ReceiptLine {
  step: string; name: string; outcome: Outcome; effect: Effect | "hold"; attempt: number; detail: string; arguments: string;
}
/** Whether it was right to step in. */
export type Verdict = "right" | "wrong" | "unsure";
/** One signal past one of its thresholds. */
export interface Reason { signal: string; stage: string; value: number; threshold: number; sentence: string; below: boolean }
/** What a policy, or the agent itself, decided: `wanted` is what the signals alone ask for, `held` which restraint made it less. */
export interface Decision {
  level: "none" | "notify" | "ask_plan" | "ask" | "pause" | "stop"; wanted: Decision["level"]; policy: string; reasons: Reason[];
  unseen: { signal: string; why: string }[]; held: string[]; worth: { sentence: string } | null; question: string; words: string;
}
export interface Change { resource: string; before: string | null; now: string | null; policy: string; why: string }

interface Attempted { step: string; attempt: number }
interface Spent { cost: number; tokens: number; free: boolean }

export interface EventData {
  "session.created": {
    agent: string; agent_version: string; goal: string; parent: string | null; forked_from: string; terms: Terms; by: string;
  };
  "session.started": object;
  "session.taken": { lost: string[]; silent: boolean };
  "session.forked": { source: string };
  "session.parked": object;
  "session.pause_requested": { pause: string; by: string; reason: string; grace: number | null; lapses?: number | null; budget?: number | null };
  "session.pause_renewed": { pause: string; by: string };
  "session.pause_lifted": { pause: string; by: string };
  "session.paused": { unknown: string[]; unreached: string[] };
  "session.resumed": { by: string; pause: string | null };
  "session.redirected": { text: string; level: MessageLevel; by: string; grace: number | null };
  "session.turn_opened": { text: string; level: MessageLevel; by: string; repeats: number; queued: string | null };
  "message.queued": { message: string; text: string; by: string };
  "message.edited": { message: string; text: string; by: string };
  "message.withdrawn": { message: string; by: string };
  "message.seen": { count: number };
  "budget.raised": { budget: number; by: string };
  "session.cancel_requested": { by: string; grace: number; reason: string; undo: UndoChoice; force?: boolean };
  "session.cancelled": { receipt: ReceiptLine[]; unreached: string[]; restarted_as?: string | null };
  "stop.deferred": { stop: "pause" | "cancel"; by: string; reason: string; undo: UndoChoice };
  "stop.taken_back": { by: string };
  "undo.requested": { by: string; reason: string; force: boolean };
  "undo.begun": { step: string; name: string; attempt: number; key: string; effect: Effect; number: number };
  "undo.ended": { step: string; attempt: number; key: string; number: number; error: string; lost: boolean };
  "undo.finished": { receipt: ReceiptLine[] };
  "hold.taken": { name: string };
  "hold.released": { name: string; number: number; error: string };
  "world.changed": { changes: Change[] };
  "session.halted": { by: string; reason: string; switch?: string };
  "session.halt_lifted": { by: string };
  "session.waiting": object;
  "session.woken": object;
  "session.completed": { result: Value };
  "session.failed": { code: string; message: string; step: string | null };
  "agent.changed": { before: string; now: string };
  "agent.silent": { seconds: number; advice: string };
  "agent.blocked": { seconds: number; where: string; advice: string };
  "tools.needed": { tools: string[] };
  "child.asked": { child: string; ask: string; reason: string; prompt: string };
  "child.ask_closed": { child: string; ask: string };
  "checkpoint.taken": { scope: string };
  "step.begun": Attempted & {
    name: string; kind: "tool" | "model" | "child"; arguments: string; effect: Effect; key: string; settle: number;
    can_undo: boolean; approval: string | null;
  };
  "step.not_begun": Attempted;
  "step.finished": Attempted & Spent & { value: Value; streamed: boolean; told_by: string; nothing_done: boolean };
  "step.failed": Attempted & Spent & { kind: string; detail: string; cut: boolean; nothing_done: boolean };
  "step.retrying": Attempted & Spent & {
    kind: string; detail: string; wait: number; again_at: number; attempts: number; retry_after: number | null; unanswered: boolean; left: number | null;
  };
  "step.aborted": Attempted & { asked: boolean };
  "step.settled": Attempted & { by: string; happened: boolean | null };
  "step.cut": Attempted & Spent & { length: number; continues?: "" | "prefix" | "quote" };
  "step.closed": Attempted & { message: number; truth: string };
  "segment.written": Attempted & { offset: number; text: string; cost?: number; tokens?: number; free?: boolean; continues?: string };
  "ask.opened": {
    ask: string; step: string; reason: string; prompt: string; options: string[]; expires_at: number | null;
    default: Value | null; on_expiry: "fail" | "cancel";
  };
  "ask.answered": { ask: string; step: string; value: Value; by: string };
  "ask.closed": { ask: string; step: string; end: "superseded" | "withdrawn" | "expired"; then: string | null };
  "value.drawn": { name: string };
  "plan.changed": { items: PlanItem[] };
  "report.made": { progress: number | null; hypothesis: string; artifact: string; message: string; documentation: string; step?: string | null };
  "intervention.made": { intervention: string; by: string; decision: Decision; pause: string | null; ask: string | null };
  "intervention.labelled": { about: string; verdict: Verdict; by: string; note: string };
  "session.rated": { score: number; by: string; note: string };
  "session.erased": { by: string; reason: string; kept: string };
}

export type EventType = keyof EventData;
export type RecordOf<T extends EventType> = { position: number; at: number; type: T; version: number; data: EventData[T] };
/** An event with its place and time. A type that this console does not know changes nothing but the position. */
export type Recorded = { [T in EventType]: RecordOf<T> }[EventType];

/** A preview of streamed text; the durable segment replaces it. */
export interface Delta { step: string; attempt: number; offset: number; text: string }
