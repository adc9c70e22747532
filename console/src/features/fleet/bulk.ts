/** The handle of many: what its slots do to those that are chosen, and what came of it. Pure. */

import type { BulkOutcome, Head } from "../../api/types";
import { type Press, pressSlot } from "../../model/contact";
import { ENDED, type Status } from "../../model/status";
import { count } from "../../ui/format";
import type { ShapeName } from "../../ui/Shape";
import type { Slot } from "../handle/slots";

export type Verb = "pause" | "resume" | "cancel";

export interface Many {
  heads: Head[];
  /** The tray asks whether to cancel. */
  isCancelling: boolean;
  /** What was pressed and not answered yet. */
  asking: Verb | "";
  press?: Press | null;
  isLost: boolean;
  role: string;
}

const PAUSABLE: ReadonlySet<Status> = new Set<Status>(["queued", "running", "waiting"]);

/** Those that a verb means something to. */
export function reached(verb: Verb, heads: Head[], role: string): Head[] {
  if (verb === "pause") return heads.filter((head) => PAUSABLE.has(head.status));
  if (verb === "resume") return heads.filter((head) => head.status === "paused" || (head.status === "halted" && role === "operate"));
  return heads.filter((head) => !ENDED.has(head.status) && head.status !== "cancelling" && (head.status !== "halted" || role === "operate"));
}

const slot = (act: Slot["act"], label: string, long: string, short: string, shape: ShapeName, key: string, tone: Slot["tone"] = ""): Slot =>
  ({ act, label, long, short, shape, key, tone, disabled: false });
const idle = (label: string, long: string, shape: ShapeName): Slot => ({ act: "none", label, long, short: long, shape, key: "", tone: "", disabled: true });

export function bulkSlots(many: Many): [Slot, Slot, Slot] {
  return [left(many), idle("Redirect", "one at a time", "redirect"), right(many)];
}

function why(many: Many): string {
  if (many.role === "watch") return "your token can only watch";
  if (many.press) return pressSlot(many.press)[0];
  if (many.isLost) return "when connected";
  return many.asking ? "asking the server" : "";
}

function left(many: Many): Slot {
  if (many.isCancelling) return slot("keep", "Keep them", "closes this; nothing was cancelled", "nothing is cancelled", "running", "Escape", "go");
  const pausable = reached("pause", many.heads, many.role).length;
  const paused = reached("resume", many.heads, many.role).length;
  const reason = why(many);
  if (pausable > 0) {
    if (reason) return idle(many.asking === "pause" ? "Pausing" : "Pause", reason, "paused");
    const rest = many.heads.length - pausable;
    const isPaused = many.heads.filter((head) => head.status === "paused").length;
    const long = isPaused > 0 && isPaused === rest ? `pauses ${pausable}; ${rest} ${rest === 1 ? "is" : "are"} paused already` : rest > 0 ? `pauses ${pausable}; ${rest} cannot be` : "resume keeps their context";
    return slot("pause", `Pause ${pausable}`, long, rest > 0 ? `pauses ${pausable}` : "keeps context", "paused", "p", "main");
  }
  if (paused > 0) {
    if (reason) return idle(many.asking === "resume" ? "Resuming" : "Resume", reason, "running");
    const halted = many.heads.filter((head) => head.status === "halted").length;
    const lifts = halted === paused ? "lifts the halt; each goes back to where it was" : `each continues where it stopped; lifts the halt of ${halted}`;
    return slot("resume", `Resume ${paused}`, halted > 0 ? lifts : "each continues where it stopped", halted > 0 ? "lifts the halt" : "continue", "running", "p", "go");
  }
  return idle("Pause", many.heads.length === 0 ? "none selected" : "none is running", "paused");
}

function right(many: Many): Slot {
  const ends = reached("cancel", many.heads, many.role).length;
  const reason = why(many);
  if (ends === 0) return idle("Cancel", many.heads.length === 0 ? "none selected" : "none can be cancelled", "cancelled");
  if (reason) return idle(many.asking === "cancel" ? "Cancelling" : "Cancel", reason, many.asking === "cancel" ? "cancelling" : "cancelled");
  if (many.isCancelling) return slot("confirm", `Cancel ${count(ends, "run")}`, "undoes what is in flight, keeps finished work", "undoes what is in flight", "cancelled", "Enter", "main");
  return slot("cancel", `Cancel ${ends}…`, "shows a preview first", "preview first", "cancelled", "c");
}

/** How those that are chosen stand: "2 running, 1 paused". */
export function standing(heads: Head[]): string {
  const counts = new Map<string, number>();
  for (const head of heads) counts.set(head.status, (counts.get(head.status) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one).map(([status, number]) => `${number.toLocaleString("en")} ${status}`).join(", ");
}

/** What came of it, one word for each: as it stands now if that is known, else as it was answered. */
export function result(outcome: BulkOutcome, now: Head | undefined): string {
  if (outcome.code === "not_reachable" && (!now || now.status === outcome.status)) return "not reachable";
  if (outcome.code === "not_durable") return "stopped, not durable";
  if (outcome.code === "session_not_found") return "not found";
  if (outcome.code === "session_ended") return "already ended";
  if (!outcome.ok && outcome.code !== "not_reachable") return "refused";
  if (now?.finishes_first) return `${now.finishes_first === "pause" ? "pausing" : "cancelling"}, finishes first`;
  return now?.status ?? (outcome.status || "taken");
}

const LAST = ["stopped, not durable", "refused", "already ended", "not found", "not reachable"];

/** "187 paused, 3 already ended, 1 not reachable": what was reached first. */
export function summary(results: string[]): string {
  const counts = new Map<string, number>();
  for (const one of results) counts.set(one, (counts.get(one) ?? 0) + 1);
  const place = (word: string): number => LAST.indexOf(word);
  return [...counts].sort(([one, many], [other, more]) => place(one) - place(other) || more - many).map(([word, number]) => `${number.toLocaleString("en")} ${word}`).join(", ");
}
