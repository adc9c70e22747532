/** What the API answers, as far as the console reads it. */

import type { Effect, Level, Outcome, ReceiptLine, Terms, UndoChoice, Verdict } from "../model/events";
import type { PendingCommand } from "../model/contact";
import type { Status } from "../model/status";

export interface Head {
  id: string; agent: string; goal: string; status: Status; turn: number; position: number; created_at: number; updated_at: number;
  asks: number; cost: number; finished_steps: number; parent: string | null;
  by: string; task_class: string | null; policy: string; budget: number | null; labels: string[]; risk: number | null; interventions: number;
  /** So many model calls have no known price: what was spent is at least `cost`. */
  unpriced: number;
  /** The price of an answer that is still being written is in `cost`. */
  estimated?: boolean;
  /** Seconds it has worked, and since when it works now; what waits, is paused or halted does not. */
  worked: number; working_since: number | null;
  /** It would go on, and its worker is gone, and no other has taken it. */
  unattended: boolean;
  /** Its worker lives, and has not answered the commands that are stored since then. */
  unreachable_since: number | null; silent_since: number | null; pending: PendingCommand[];
  /** The call that runs. */
  busy: string;
  /** The stop that waits for the end of the turn, because it is protected. */
  finishes_first: "" | "pause" | "cancel";
  open_asks: AskHead[];
}
export interface AskHead { id: string; reason: string; prompt: string; opened_at: number; step: string; deadline: number | null; tool: string }
export interface BulkOutcome { session: string; ok: boolean; status: string; code: string; problem: string }
export interface SessionPage { sessions: Head[]; next: string | null }
export interface SessionView { id: string; status: Status; position: number; allowed: string[]; etag: string; goal: string }
export interface Agent { name: string; version: string; mode: string; resumable: boolean; origin: string; asks: boolean; terms: Terms; description: string; /** Examples, the plainest first. */ goals: string[] }
export interface Me { name: string; role: "watch" | "steer" | "approve" | "operate" | "agent"; session: string | null; tenant?: string | null }
export interface RunningCall { step: string; name: string; kind: string; attempt: number; seconds: number; effect: Effect; doing: string }
export interface Reply {
  level: "accepted" | "decided" | "stopping" | "stopped"; status: Status; session: string;
  durability: "nothing" | "process" | "power"; durable: boolean; position: number; pause: string | null; message: string | null;
  running: RunningCall[]; unknown: string[]; unreachable_since: number | null; receipt: ReceiptLine[]; sentence: string;
  finishes_first: boolean; restarted_as: string | null; paused_by?: string[];
}
export interface Receipt { lines: ReceiptLine[]; final: boolean; is_preview: boolean; begins_anew: boolean; children: number; table: string }
export type Preview = Record<UndoChoice, Receipt>;
export interface NewSession { agent: string; goal: string; task_class?: string; budget?: number }
export type { Contact, Problem } from "../model/contact";
/** A signal beside its thresholds; `past` is the gravest that it is past. */
export interface Gauge {
  name: string; title: string; unit: "seconds" | "dollars" | "share" | "count" | "times" | "bytes" | "of 1"; value: number | null;
  warn: number | null; intervene: number | null; stop: number | null; below: boolean; past: "warn" | "intervene" | "stop" | null; since: number | null;
  unseen: string | null; history: [at: number, value: number][];
}
export interface Gauges { policy: string; task_class: string; position: number; at: number; signals: Gauge[] }
export interface InboxAsk {
  session: string; ask: string; agent: string; goal: string; tenant: string; reason: string; prompt: string; tool: string; step: string;
  opened_at: number; deadline: number | null; respond_by: number; owner: string; owned_since: number | null; reminded_at: number | null;
  escalated_at: number | null; escalated_to: string; is_review: boolean; session_status: Status; tired_after: number;
}
export interface Alarm {
  at: number; session: string; intervention: string; agent?: string; person?: string; by?: string; level?: string; signals?: string[]; sentence?: string; ask?: string;
  label?: Verdict | null;
}
export interface Batch { person: string; since: number; ready_at: number; alarms: Alarm[] }
/** What an agent told it made; `documentation` is empty where nothing says what it is. */
export interface Artifact {
  name: string; session: string; agent: string; position: number; made_at: number; due_at: number; person: string; documentation: string;
  reviewed_at: number | null; reviewed_by: string;
}
export interface Inbox { asks: InboxAsk[]; alarms: Batch[]; artifacts: Artifact[]; approvals_in_a_row: number; quick: number; running: number }
export type { Level, Outcome, ReceiptLine, UndoChoice };
