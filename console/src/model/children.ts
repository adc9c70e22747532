/** What became of a child whose parent was stopped: told from where the child itself stands, never from its parent's call. Pure. */

import type { CallState } from "./story";
import type { Status } from "./status";

/** What is known of a child: where it stands, and the call that runs in it. */
export interface Child { status: Status; busy: string; unattended: boolean }

/** Its state in a few words, and whether something of it runs on. Null: its parent's call says what there is to say. */
export function childWords(call: CallState, child: Child | undefined, isUnreached: boolean): { words: string; runs: boolean } | null {
  if (call === "finished" || call === "failed" || call === "closed" || call === "not begun" || call === "retrying") return null;
  if (isUnreached) return { words: "not reached by the stop: it may still run", runs: true };
  if (!child) return call === "running" ? null : { words: "its state is unknown", runs: false };
  if (child.unattended) return { words: `${child.status}, as far as is known: its worker is gone`, runs: true };
  switch (child.status) {
    case "running": return call === "running" ? null : { words: "runs", runs: true };
    case "waiting": return { words: "waits for a person", runs: false };
    case "queued": return { words: "queued: nothing has run", runs: false };
    case "pausing": case "cancelling": return { words: child.busy ? `${child.status}: ${child.busy} finishes first` : `${child.status}: not stopped yet`, runs: true };
    case "paused": return { words: call === "running" ? "paused" : "paused with its parent", runs: false };
    case "halted": return child.busy ? { words: `halted: ${child.busy} still runs`, runs: true } : { words: "halted", runs: false };
    case "cancelled": case "completed": case "failed": return { words: child.status, runs: false };
  }
}
