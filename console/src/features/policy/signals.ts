/** The signals of a policy as rails: their thresholds as numbers, up to where a rail reaches, and the words for both. Pure. */

import type { Rail, Settings } from "./types";

export type Unit = "time" | "dollars" | "share" | "count";
export type Stage = "warn" | "explain" | "intervene" | "stop";
/** A signal: its name in measurements, its part of the document, and which of the part's fields are thresholds of which stage. */
export interface Signal { name: string; part: string; title: string; about: string; unit: Unit; stages: [field: string, stage: Stage][] }
export interface Mark { field: string; stage: Stage; value: number }

const LEVELS: [string, Stage][] = [["warn", "warn"], ["intervene", "intervene"], ["stop", "stop"]];
export const SIGNALS: Signal[] = [
  { name: "duration", part: "duration", title: "Turn duration", about: "how long a turn works, waiting not counted", unit: "time", stages: [["warn", "warn"], ["explain", "explain"], ["intervene", "intervene"], ["stop", "stop"]] },
  { name: "cost", part: "cost", title: "Cost", about: "dollars a session", unit: "dollars", stages: [["warn", "warn"], ["stop", "stop"]] },
  { name: "cost.per_action", part: "cost", title: "Cost of an action", about: "dollars, the most expensive one", unit: "dollars", stages: [["per_action", "intervene"]] },
  { name: "budget", part: "budget", title: "Budget spent", about: "share of the session's own", unit: "share", stages: [["warn", "warn"], ["stop", "stop"]] },
  { name: "errors", part: "errors", title: "Errors", about: "share of the recent calls", unit: "share", stages: [["warn", "warn"], ["intervene", "intervene"]] },
  { name: "errors.streak", part: "errors", title: "Failures in a row", about: "without a success in between", unit: "count", stages: [["streak", "stop"]] },
  { name: "scope_drift", part: "scope_drift", title: "Distance from goal", about: "0 to 1, by an encoder", unit: "share", stages: LEVELS.slice(0, 2) },
  { name: "loops", part: "loops", title: "Repeats without progress", about: "the same call again", unit: "count", stages: LEVELS.slice(0, 2) },
  { name: "resources", part: "resources", title: "Resources touched", about: "files, tables, hosts", unit: "count", stages: LEVELS },
  { name: "hypothesis", part: "hypothesis", title: "Hypothesis unchanged", about: "since it was last stated or changed", unit: "time", stages: LEVELS.slice(0, 2) },
  { name: "api_calls", part: "api_calls", title: "Requests", about: "to models and tools", unit: "count", stages: LEVELS },
  { name: "compute_seconds", part: "compute_seconds", title: "Time in calls", about: "of models and tools", unit: "time", stages: LEVELS },
  { name: "bytes", part: "bytes", title: "Bytes moved", about: "that went over the network", unit: "count", stages: LEVELS },
  { name: "risk", part: "risk", title: "Combined risk", about: "all signals together, 0 to 1", unit: "share", stages: LEVELS.slice(0, 2) },
];

const UNITS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** Seconds of "15m", or the number it is; null where there is no threshold. */
export function numberOf(value: unknown): number | null {
  if (typeof value === "number") return value;
  const [, digits, unit] = typeof value === "string" ? /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(value.trim()) ?? [] : [];
  return digits && unit ? Number(digits) * UNITS[unit]! : null;
}

export function marksOf(document: Settings | null, signal: Signal): Mark[] {
  const part = ((document?.["signals"] as Settings | undefined)?.[signal.part] ?? {}) as Settings;
  return signal.stages.flatMap(([field, stage]) => {
    const value = numberOf(part[field]);
    return value === null ? [] : [{ field, stage, value }];
  });
}

/** A rail ends a little behind its last threshold; runs that went further are drawn at its end. Shares end at 1. */
export function reach(signal: Signal, marks: Mark[], rail: Rail | null): number {
  const highest = Math.max(0, ...marks.map((mark) => mark.value));
  const seen = Math.max(0, ...(rail?.failed ?? []), ...(rail?.others ?? []));
  if (signal.unit === "share") return Math.max(1, highest);
  return (highest ? Math.max(highest * 1.15, Math.min(seen, highest * 2)) : seen * 1.05) || 1;
}

/** How many runs there are in each of the rail's columns, as shares of the fullest. */
export function columns(values: number[], most: number, count = 44): number[] {
  const found = Array.from({ length: count }, () => 0);
  for (const value of values) found[Math.min(count - 1, Math.floor((count * value) / most))]! += 1;
  const top = Math.max(1, ...found);
  return found.map((one) => one / top);
}

/** 12 m, 56 s, $10, 0.62, 5. */
export function shown(value: number, unit: Unit): string {
  if (unit === "dollars") return `$${trimmed(value, value < 0.1 ? 4 : 2)}`;
  if (unit === "share") return trimmed(value, 2);
  if (unit === "count") return value >= 10_000 ? `${trimmed(value / 1000, 1)}k` : trimmed(value, value < 10 ? 1 : 0);
  if (value < 1) return `${trimmed(value * 1000, 0)} ms`;
  if (value < 60) return `${trimmed(value, 1)} s`;
  return value < 5400 ? `${trimmed(value / 60, 1)} min` : `${trimmed(value / 3600, 1)} h`;
}

/** Pixels of the narrowest rail, of a sign of its labels, and between two of them. */
const RAIL = 180, SIGN = 6.7, APART = 6;
const GRAVE: Stage[] = ["stop", "intervene", "explain", "warn"];

/** The marks whose numbers fit under a rail without lying upon each other, the gravest first. The others are in the words beside it. */
export function roomFor(marks: Mark[], most: number, unit: Unit): Mark[] {
  const taken: { at: number; half: number }[] = [];
  return [...marks].sort((one, other) => GRAVE.indexOf(one.stage) - GRAVE.indexOf(other.stage)).filter((mark) => {
    const here = { at: RAIL * Math.min(1, mark.value / most), half: (SIGN * shown(mark.value, unit).length) / 2 };
    const isFree = taken.every((one) => Math.abs(one.at - here.at) >= one.half + here.half + APART);
    if (isFree) taken.push(here);
    return isFree;
  });
}

function trimmed(value: number, digits: number): string { return String(Number(value.toFixed(digits))); }

export const STAGE_WORDS: Record<Stage, string> = { warn: "warn", explain: "explain", intervene: "in", stop: "stop" };

/** A setting as a person writes it. */
export function setting(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return Array.isArray(value) ? `[${value.map(setting).join(", ")}]` : String(value);
}

/** "signals.loops.intervene" as "Repeats without progress: steps in". */
export function nameOf(path: string): string {
  const [, part, field] = /^signals\.(\w+)\.(\w+)$/.exec(path) ?? [];
  const signal = SIGNALS.find((one) => one.part === part && one.stages.some(([name]) => name === field));
  if (!signal || !field) return path.replaceAll(".", " · ").replaceAll("_", " ");
  const stage = signal.stages.find(([name]) => name === field)![1];
  return `${signal.title}: ${{ warn: "warns", explain: "asks for the plan", intervene: "steps in", stop: "stops" }[stage]}`;
}
