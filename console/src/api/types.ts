/** What the API answers, as far as the console reads it. */

import type { Effect, Level, Outcome, ReceiptLine, Terms, UndoChoice } from "../model/events";
import type { Status } from "../model/status";

export interface Head {
  id: string; agent: string; goal: string; status: Status; turn: number; position: number; created_at: number; updated_at: number;
  asks: number; cost: number; finished_steps: number; parent: string | null;
  /** Not sent by every server. */
  budget?: number | null; task_class?: string | null;
}
export interface SessionPage { sessions: Head[]; next: string | null }
export interface SessionView { id: string; status: Status; position: number; allowed: string[]; etag: string; goal: string }
export interface Agent { name: string; version: string; mode: string; resumable: boolean; origin: string; asks: boolean; terms: Terms; description?: string; goals?: string[] }
export interface Me { name: string; role: "watch" | "steer" | "approve" | "operate"; session: string | null }
export interface RunningCall { step: string; name: string; kind: string; attempt: number; seconds: number; effect: Effect; doing: string }
export interface Reply {
  level: "accepted" | "decided" | "stopping" | "stopped"; status: Status; session: string;
  durability: "nothing" | "process" | "power"; durable: boolean; position: number; pause: string | null; message: string | null;
  running: RunningCall[]; unknown: string[]; unreachable_since: number | null; receipt: ReceiptLine[]; sentence: string;
}
export interface Receipt { lines: ReceiptLine[]; final: boolean; is_preview: boolean; table: string }
export type Preview = Record<UndoChoice, Receipt>;
export interface NewSession { agent: string; goal: string; task_class?: string; budget?: number }
export interface Problem { status: number; code: string; detail: string; title: string; allowed?: string[]; status_now?: string }
export type { Level, Outcome, ReceiptLine, UndoChoice };
