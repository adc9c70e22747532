/** What the API says of policies, as far as the console reads it. */

export interface Summary { name: string; version: number; extends: string; about: string; is_built_in: boolean; by: string; why: string; at: number | null }
export type Settings = { [name: string]: unknown };
export interface Whole extends Summary { document: Settings; yaml: string }
export interface Change { path: string; before: unknown; after: unknown; tightens: boolean | null; /** Such as `no longer steps in`. */ words: string }
export interface Mistake { line: number; field: string; sentence: string }
export interface Check { name: string; extends: string; document: Settings; changes: Change[] }

export interface Score {
  runs: number; failures: number; successes: number; unknown: number; interventions: number; failures_stopped: number; successes_stopped: number;
  recall: number | null; false_positive_rate: number | null; precision: number | null; steps_saved: number | null;
  intervals: Record<string, [low: number, high: number]>; unmeasured: Record<string, string>;
}
export interface CurvePoint { scale: number; recall: number | null; false_positive_rate: number | null }
export interface TriedPolicy {
  name: string; version: number; all: Score; sources: Record<string, Score>; classes: Record<string, Score>; curve: CurvePoint[];
  per_hour: number | null; at_most: number; when: { failure: number[]; success: number[] };
}
export interface Rail { signal: string; failed: number[]; others: number[] }
export interface Trial {
  runs: number; failures: number; successes: number; unknown: number; since: number | null; until: number | null; limit: number; is_enough: boolean; sentence: string;
  policies: TriedPolicy[]; baseline: Score; rails: Rail[]; notes: string[];
}
export interface Calibration { policy: string; yaml: string; changes: Change[]; failures: number; successes: number; stopped: number; stopped_wrongly: number; sentence: string; notes: string[] }

export interface Proposal {
  id: string; name: string; policy: string; changes: { path: string; before: string; after: string; tightens: boolean | null; words: string }[]; evidence: string[];
  made_at: number; agent?: string; person?: string; state?: "open" | "accepted" | "refused" | "superseded"; by?: string; why?: string; kept_as?: string; document: Settings;
}
