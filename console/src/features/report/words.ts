/** Shares, times and money of a report as people read them: the same words as the server's own page. Pure. */

import { money } from "../../ui/format";
import type { ByWhom, Proportion, Range, Verdict } from "./types";

export function percent(share: number | null): string {
  if (share === null) return "–";
  const parts = 1000 * share, whole = Math.round(parts);
  // Halves go to the even side, as on the server's page: 56.25 is 56.2.
  return `${(Math.abs(parts % 1) === 0.5 && whole % 2 ? whole - 1 : whole) / 10} %`;
}

/** 10–20 %, 0 %, at least 80 %. */
export function target([low, high]: Range): string {
  if (low === high) return percent(low);
  if (high >= 1) return `at least ${percent(low)}`;
  return low <= 0 ? `at most ${percent(high)}` : `${percent(low).replace(" %", "")}–${percent(high)}`;
}

/** 3.1 ms, 1.9 s, 3:10 min, 2.5 h. */
export function seconds(value: number | null): string {
  if (value === null) return "–";
  if (value < 1) return `${Number((1000 * value).toPrecision(3))} ms`;
  if (value < 60) return `${Number(value.toPrecision(3))} s`;
  if (value < 5400) return `${Math.floor(value / 60)}:${String(Math.floor(value % 60)).padStart(2, "0")} min`;
  return value < 172_800 ? `${(value / 3600).toFixed(1)} h` : `${(value / 86_400).toFixed(1)} d`;
}

export function dollars(value: number | null, isEstimate = false): string {
  if (value === null) return "–";
  return `${isEstimate ? "~" : ""}${money(value)}`;
}

/** 30 s, 5 min. */
export function short(value: number): string { return value && value % 60 === 0 && value < 3600 ? `${value / 60} min` : seconds(value); }

/** up to 30 s, 30 s–5 min, over 5 min. */
export function range([low, high]: [low: number, high: number | null]): string {
  if (high === null) return `over ${short(low)}`;
  return low ? `${short(low)}–${short(high)}` : `up to ${short(high)}`;
}

/** +240 %, -3.1 pp. */
export function signed(share: number | null, unit = "%"): string {
  if (share === null) return "–";
  const shown = Math.abs(share) < 1 ? (100 * share).toFixed(1).replace(/\.0$/, "") : Math.round(100 * share).toLocaleString("en");
  return `${share >= 0 ? "+" : ""}${shown} ${unit}`;
}

/** 41 tok/s. */
export function tokens(rate: number | null): string {
  if (rate === null) return "–";
  return `${rate < 10 ? Number(rate.toPrecision(2)) : Math.round(rate).toLocaleString("en")} tok/s`;
}

/** 75 % of 4; of nothing it is not known. */
export function of(rate: Proportion): string { return rate.of ? `${percent(rate.share)} of ${rate.of.toLocaleString("en")}` : "unknown"; }

export type Kind = "ok" | "no" | "few";

/** Whether a verdict is a target that was kept. More than asked for is fine of some. */
export function kindOf(verdict: Verdict, aboveIsFine = false): Kind {
  if (verdict === "too few to say") return "few";
  return verdict === "below" || (verdict === "above" && !aboveIsFine) ? "no" : "ok";
}

const STOPPERS: Record<keyof ByWhom, [once: string, often: string]> = { person: ["a person", "people"], policy: ["a policy", "policies"], budget: ["its budget", "their budgets"], agent: ["the agent itself", "agents themselves"], kill_switch: ["the kill switch", "the kill switch"], parent: ["its parent", "their parents"], deadline: ["a deadline", "deadlines"] };

/** 3 by people, 1 by the kill switch; empty if there was nobody. */
export function byWhom(counts: ByWhom): string {
  return (Object.keys(STOPPERS) as (keyof ByWhom)[]).filter((one) => counts[one]).map((one) => `${counts[one]!.toLocaleString("en")} by ${STOPPERS[one][counts[one]! > 1 ? 1 : 0]}`).join(", ");
}

export const PERIODS = { day: 86_400, week: 7 * 86_400, month: 30 * 86_400, quarter: 91 * 86_400 } as const;
export type Period = keyof typeof PERIODS;

export function periodOf(given: string | null): Period { return given !== null && Object.hasOwn(PERIODS, given) ? (given as Period) : "week"; }
