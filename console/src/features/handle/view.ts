/** What the handle shows, worked out from what is known: pure, so that each state can be tested. */

import type { OpenCall } from "../../model/calls";
import type { Run } from "../../model/run";
import { running } from "../../model/session";
import { ENDED, type Status } from "../../model/status";

/** The one tray: what is open in it beside what the status brings. */
export type Tray = "" | "redirect" | "preview" | "undo";

export interface View {
  status: Status;
  /** What was pressed and not answered yet. */
  asking: string;
  isLost: boolean;
  tray: Tray;
  /** The composer was opened from the preview. */
  isInstead: boolean;
  /** Verbs the server would take now; null while it has not said. */
  allowed: ReadonlySet<string> | null;
  /** Calls that still run, tools before streams. */
  still: OpenCall[];
  step: number;
  /** Whether the last step has its outcome, so that the next one is ahead. */
  isBetween: boolean;
  hasChange: boolean;
  isProtected: boolean;
  /** How many effects can still be undone. */
  undoable: number | null;
  confirm: string;
  mayLift: boolean;
  canRetry: boolean;
  /** The gate was shut for the preview: leaving it lets the run go on. */
  isOwnHold: boolean;
  isUndoing: boolean;
  /** What was said in it is gone, and nothing can be done with it any more. */
  isErased?: boolean;
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

export function isEnded(status: Status): boolean { return ENDED.has(status); }
