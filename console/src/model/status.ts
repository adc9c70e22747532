/** Where a session stands, and the table of what changes that: the same as `TRANSITIONS` in core/session.py. */

export const STATUSES = [
  "queued", "running", "waiting", "pausing", "paused", "cancelling", "cancelled", "halted", "completed", "failed",
] as const;
export type Status = (typeof STATUSES)[number];

export const ENDED: ReadonlySet<Status> = new Set<Status>(["completed", "failed", "cancelled"]);
const LIVE = STATUSES.filter((one) => !ENDED.has(one));

/** Statuses in which the clock of the run goes: what waits for somebody does not count. */
export const COUNTS: ReadonlySet<Status> = new Set<Status>(["running", "pausing", "cancelling"]);

type Target = Status | "back";
const from = (statuses: Iterable<Status>, to: Target): Partial<Record<Status, Target>> =>
  Object.fromEntries([...statuses].map((one) => [one, to]));

export const TRANSITIONS: Readonly<Record<string, Partial<Record<Status, Target>>>> = {
  "session.started": { queued: "running" },
  "session.waiting": { running: "waiting" },
  "session.woken": { waiting: "running" },
  "ask.answered": { waiting: "running" },
  "ask.closed": { waiting: "running" },
  "session.pause_requested": from(["queued", "running", "waiting", "pausing"], "pausing"),
  "session.pause_renewed": from(["pausing", "paused"], "pausing"),
  "session.paused": { pausing: "paused" },
  "session.resumed": { pausing: "back", paused: "back", failed: "running" },
  "session.cancel_requested": from(LIVE, "cancelling"),
  "session.cancelled": { cancelling: "cancelled" },
  "session.halted": from(LIVE.filter((one) => one !== "halted"), "halted"),
  "session.halt_lifted": { halted: "back" },
  "session.completed": { running: "completed" },
  "session.failed": from(LIVE.filter((one) => one !== "cancelling" && one !== "halted"), "failed"),
  "session.turn_opened": from(ENDED, "running"),
};
