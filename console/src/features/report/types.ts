/** A report as the API tells it. */

export type Verdict = "kept" | "above" | "below" | "too few to say";
export type Range = [low: number, high: number];
export interface Proportion { part: number; of: number; share: number | null; low: number; high: number; target: Range | null; verdict: Verdict }
/** Who stepped in, how often; those who never did are left out. */
export type ByWhom = Partial<Record<"person" | "policy" | "budget" | "agent" | "kill_switch" | "parent" | "deadline", number>>;
export interface Times { count: number; p50: number | null; p99: number | null; most: number | null; target_p50: number | null; target_p99: number | null; verdict_p50: Verdict; verdict_p99: Verdict }
/** Where values lie; `curve` is every twentieth of them, from the least to the most. */
export interface Spread { count: number; p50: number | null; p99: number | null; most: number | null; curve: number[] }
export interface Durations { worked: Spread; range: [low: number, high: number | null] | null; inside: Proportion; verdict: Verdict }
export interface Outcomes { stopped: Proportion; unstopped: Proportion; difference: number | null; cancelled: number }
export interface ClassRow { task_class: string; policies: string[]; sessions: number; declared: number; interrupted: Proportion; interrupted_by: ByWhom; completed: Proportion; satisfied: Proportion; score: number | null; response: Times; stops: Times; duration: Durations; token_rate: Spread; outcomes: Outcomes }
export interface SignalRow { signal: string; agent: string; interventions: number; notices: number; warnings_right: number; warnings_wrong: number; right: number; wrong: number; unsure: number; rate: Proportion; needed: number }
export interface KindRow {
  kind: string; count: number; by: ByWhom; response: Times; save: Times; waited: Times; wait: Times; recovery: Times; resolution: Times;
  dollars: number; estimated: number; requests: number; kilobytes: number | null; quality: number | null; quality_of: number; progress: number | null;
  expected_avoided: number | null; expected_cost: number | null; cost: number | null; compared: number;
}
export interface Report {
  since: number; until: number; sessions: number; ended: number; agents: Record<string, number>; policies: Record<string, number>; interventions: number; by: ByWhom; notices: number;
  labelled: Proportion; warnings: Proportion; dollars_avoided: number; dollars_cost: number; cost: number; classes: ClassRow[]; signals: SignalRow[]; kinds: KindRow[];
  answers: { asked: number; open: number; seconds: Times; within: Proportion; target: number | null; resolution: Times };
  outcomes: Outcomes; token_rate: Spread; estimates: { within: Proportion; known: Proportion; error: number | null };
  recoveries: { all: Proportion; after_stop: Proportion; after_loss: Proportion; open: number };
  consistency: { sessions: Proportion; flaws: Record<string, string> }; returns: { roi: number | null; worth: number; cost: number; counted: number; of: number };
  stops: Times; histogram: { below: number | null; count: number }[]; waited: Times; outlived: Record<string, string[]>; outlived_count: number;
  alerts: { what: string; where: string; measured: string; target: string; count: number; sentence: string }[]; notes: string[]; meanings: Record<"interrupted" | "completed" | "stepped_in" | "only_told" | "false_positives" | "response" | "stop" | "duration" | "token_rate" | "calls_left" | "recovered" | "consistent" | "after_stop" | "roi", string>; method: string[];
}
export interface Item { id: string; what: string; answer: "holds" | "does not" | "unknown"; number: string; todo: string }
