/** The small parts: lamp, word, chips, outcomes, meters, clocks. */

import type { ComponentChildren, JSX } from "preact";
import type { Effect, Outcome } from "../model/events";
import type { Status } from "../model/status";
import { second } from "./clock";
import { clock, fullTime, timeOfDay } from "./format";
import { Shape, type ShapeName } from "./Shape";

/** A clock that goes: seconds since `since`, by a clock that is `ahead` of ours. */
export function Ticking({ since, ahead = 0 }: { since: number; ahead?: number }): JSX.Element {
  void second.value;
  return <time>{clock(Date.now() / 1000 + ahead - since)}</time>;
}

/** What is left until `until`. */
export function Left({ until, ahead = 0 }: { until: number; ahead?: number }): JSX.Element {
  void second.value;
  return <time>{clock(until - Date.now() / 1000 - ahead)}</time>;
}

export function At({ at }: { at: number }): JSX.Element {
  return <time dateTime={new Date(at * 1000).toISOString()} title={fullTime(at)}>{timeOfDay(at)}</time>;
}

export function Lamp({ status, shape, stale, unfinished, children }: { status: Status; shape?: ShapeName; stale?: boolean; unfinished?: boolean; children: ComponentChildren }): JSX.Element {
  return (
    <span class="lamp" part="lamp" data-status={status} data-stale={stale || undefined} data-unfinished={unfinished || undefined}>
      <Shape name={shape ?? (status === "halted" && unfinished ? "halted-open" : status)} />{children}
    </span>
  );
}

export function Word({ status, shape, children }: { status: Status; shape?: ShapeName; children?: ComponentChildren }): JSX.Element {
  return <span class="word" data-status={status}><Shape name={shape ?? status} />{children ?? status}</span>;
}

export function EffectChip({ effect }: { effect: Effect | "hold" }): JSX.Element {
  const shape: ShapeName | null = effect === "irreversible" ? "permanent" : effect === "reversible" ? "undone" : null;
  return <span class="chip" data-effect={effect}>{shape && <Shape name={shape} />}{effect === "hold" ? "held" : effect}</span>;
}

const OUTCOMES: Record<Outcome, [key: string, shape: ShapeName]> = {
  "still running": ["running", "running"],
  "undo failed": ["undofailed", "undofailed"],
  "undo ran with unknown result": ["unknown", "unknown"],
  unknown: ["unknown", "unknown"],
  "cannot be undone": ["permanent", "permanent"],
  undone: ["undone", "undone"],
  kept: ["kept", "kept"],
};
/** Worst first. */
export const OUTCOME_ORDER = Object.keys(OUTCOMES) as Outcome[];
export const outcomeKey = (outcome: Outcome): string => OUTCOMES[outcome][0];
export const outcomeShape = (outcome: Outcome): ShapeName => OUTCOMES[outcome][1];

export function Meter({ label, value, max, words, className = "cap" }: { label: string; value: number; max: number; words: string; className?: string }): JSX.Element {
  const share = max > 0 ? Math.min(100, (100 * value) / max) : 0;
  return (
    <span class={className} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={max} aria-valuenow={Math.min(value, max)} aria-valuetext={words}>
      <i style={{ width: `${share}%` }} />
    </span>
  );
}
