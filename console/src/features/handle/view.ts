/** What the handle shows, worked out from what is known: pure, so that each state can be tested. */

import type { Verb } from "../../model/allowed";
import type { OpenCall } from "../../model/calls";
import { isStored, type PendingCommand, type Press } from "../../model/contact";
import type { Run } from "../../model/run";
import { running } from "../../model/session";
import { ENDED, type Status } from "../../model/status";

/** The one tray: what is open in it beside what the status brings. */
export type Tray = "" | "redirect" | "preview" | "undo" | "force";

export interface View {
  status: Status;
  /** What was pressed and not answered yet. */
  asking: string;
  /** The same press, with what is known of it. */
  press?: Press | null;
  /** Commands that are stored and not decided, whoever pressed them, and since when the worker has not answered. */
  stored?: readonly PendingCommand[];
  silentSince?: number | null;
  /** The last heartbeat of a worker that lives, if that is too long ago. */
  heartbeat?: number | null;
  /** Its gate is shut, and that could not be stored. */
  isUnwritten?: boolean;
  isLost: boolean;
  tray: Tray;
  /** The composer was opened from the preview. */
  isInstead: boolean;
  /** Verbs the server would take now. */
  allowed: ReadonlySet<Verb>;
  /** Calls that still run, tools before streams. */
  still: OpenCall[];
  step: number;
  /** Whether the last step has its outcome, so that the next one is ahead. */
  isBetween: boolean;
  hasChange: boolean;
  /** What a resume does with an answer that was cut. */
  cut?: "" | "continues" | "again";
  /** Nothing goes on before the cap is raised. */
  isCapped?: boolean;
  isProtected: boolean;
  /** A stop waits for the end of the turn: which one, if somebody has asked for it. */
  deferred: "" | "pause" | "cancel";
  /** Whether the caller may force what finishes first to end half-way. */
  mayForce: boolean;
  /** How many effects can still be undone. */
  undoable: number | null;
  confirm: string;
  /** At work as far as its journal knows, and nobody drives it. */
  isUnattended?: boolean;
  /** Halted, and whoever looks is an operator: they end the halt. */
  mayLift: boolean;
  /** The kill switch that halted it stands: until it is lifted nothing in its scope goes on, whoever asks. */
  isSwitchOn: boolean;
  /** The gate was shut for the preview: leaving it lets the run go on. */
  isOwnHold: boolean;
  isUndoing: boolean;
  /** What was said in it is gone, and nothing can be done with it any more. */
  isErased?: boolean;
  /** It was forced to end half-way: nothing goes on in it. */
  isDiscarded?: boolean;
}

export function stillRunning(run: Run): OpenCall[] {
  const session = run.session;
  if (!session) return [];
  const order = (call: OpenCall): number => (call.kind === "model" ? 1 : 0);
  return running(session).sort((one, other) => order(one) - order(other) || one.since - other.since);
}

/** The number of the step at hand, and whether it is still ahead. */
export function place(run: Run): { step: number; isBetween: boolean } {
  const last = run.entries.findLast((one) => one.kind === "step");
  const isOpen = last?.kind === "step" && !["finished", "failed", "closed", "not begun"].includes(last.state);
  return { step: run.begun, isBetween: !isOpen };
}

/** Protected, and begun: a stop waits for the end of the turn. */
export function finishesFirst(view: View): boolean { return view.isProtected && (view.status === "running" || view.status === "waiting"); }

/** Whether that was asked for and is not decided, as far as the page or the server knows. */
export function isAsked(view: View, verb: string): boolean {
  return view.asking === verb || isStored(view.stored ?? [], verb);
}

export function isEnded(status: Status): boolean { return ENDED.has(status); }
