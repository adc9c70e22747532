/** How a signal is read: its number, its scale, the sentence when it is past a threshold. Pure. */

import type { Gauge } from "../api/types";
import { clock, count, money } from "./format";

const STAGES = ["warn", "intervene", "stop"] as const;
export type Stage = (typeof STAGES)[number];
export interface Mark { stage: Stage; at: number }

const DOES: Record<Stage, string> = { warn: "warns", intervene: "steps in", stop: "stops" };
/** What is shown also where nothing is the matter. */
const MAIN = new Set(["duration", "cost", "budget", "scope_drift", "errors", "resources", "token_rate"]);
/** What grows by a second each second. */
const WITH_TIME = new Set(["duration", "hypothesis"]);

export function numberOf(value: number, unit: Gauge["unit"]): string {
  switch (unit) {
    case "seconds": return clock(value);
    case "dollars": return money(value);
    case "share": return `${Math.round(100 * value)} %`;
    case "of 1": return value.toFixed(2);
    case "times": return `${value.toFixed(1)} ×`;
    case "bytes": return value < 1000 ? count(value, "byte") : value < 1e6 ? `${(value / 1e3).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
    case "count": return value.toLocaleString("en", { maximumFractionDigits: 1 });
  }
}

export function marksOf(gauge: Gauge): Mark[] {
  return STAGES.flatMap((stage) => { const at = gauge[stage]; return at === null ? [] : [{ stage, at }]; });
}

/** "steps in at 0.70", "stops at $50.00". */
export function doesAt(gauge: Gauge, { stage, at }: Mark): string {
  return `${DOES[stage]} ${gauge.below ? "below" : "at"} ${numberOf(at, gauge.unit)}`;
}

/** The right end of a tape: its stop; else all of it, for a share; else a little beyond the last mark. Null: nothing to hold it against. */
export function scaleOf(gauge: Gauge): number | null {
  const marks = marksOf(gauge);
  if (!marks.length) return null;
  const last = Math.max(...marks.map((mark) => mark.at));
  if (gauge.stop !== null) return gauge.stop;
  if (gauge.unit === "of 1" || gauge.unit === "share") return gauge.below ? Math.max(2, 1.05 * last) : Math.max(1, 1.05 * last);
  return 1.6 * last;
}

/** A sentence, only when it is past something. */
export function pastOf(gauge: Gauge, time: (at: number) => string): string {
  if (gauge.past === null) return "";
  return `${doesAt(gauge, { stage: gauge.past, at: gauge[gauge.past]! })}${gauge.since === null ? "" : `, since ${time(gauge.since)}`}`;
}

/** The same at another time: what grows with time has grown, or not yet, and nothing else has changed. */
export function grown(gauge: Gauge, seconds: number): Gauge {
  return gauge.value !== null && WITH_TIME.has(gauge.name) ? { ...gauge, value: Math.max(0, gauge.value + seconds) } : gauge;
}

/** As it was at an earlier time, as far as the history tells. */
export function earlier(gauge: Gauge, at: number): Gauge {
  const history = gauge.history.filter((point) => point[0] <= at + 1e-6);
  const value = history.at(-1)?.[1] ?? null;
  const past = value === null ? null : marksOf(gauge).findLast((mark) => (gauge.below ? value < mark.at : value >= mark.at))?.stage ?? null;
  return { ...gauge, value, history, past, since: past !== null && gauge.since !== null && gauge.since <= at ? gauge.since : null };
}

export function isShown(gauge: Gauge): boolean {
  if (gauge.value === null || gauge.name === "risk") return false;
  return MAIN.has(gauge.name) || gauge.past !== null || (gauge.value > 0 && marksOf(gauge).length > 0);
}

export function isUnseen(gauge: Gauge): boolean { return gauge.value === null && marksOf(gauge).length > 0; }

/** The highest thing that a plot has room for: the values, and the next threshold above them. */
export function ceiling(gauge: Gauge): number {
  const highest = Math.max(0, ...gauge.history.map((point) => point[1]));
  const next = Math.min(...marksOf(gauge).map((mark) => mark.at).filter((at) => at > highest));
  return (Number.isFinite(next) ? next : highest) * 1.08 || 1;
}

const CAUSES: Record<string, string> = {
  duration: "Turns take long", cost: "Cost passed a limit", "cost.per_action": "An action was expensive", "cost.acceleration": "Calls get more expensive", budget: "Budgets run out",
  errors: "Error rate is high", "errors.streak": "Failures in a row", scope_drift: "Away from the goal", "scope_drift.alignment": "Away from its hypothesis", resources: "Many resources touched",
  token_rate: "Tokens come slowly", calls_left: "More calls left than budget", hypothesis: "Hypothesis is old", "scope.expansion": "Work has spread",
  "scope.new_domain": "Changes in a new domain", loops: "Repeats without progress", api_calls: "Many requests", compute_seconds: "Much time in calls", bytes: "Much data moved",
  own_artifacts: "Uses what it made itself", artifact: "Made something to review", risk: "Combined risk is high",
};

/** What a group of alarms has in common, as a title. */
export function causeOf(signal: string): string { return CAUSES[signal] ?? (signal ? signal.replaceAll("_", " ") : "Asked by the agent"); }
