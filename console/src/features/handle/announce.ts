/** What is said to those who listen: only when something has changed, and how long a call still runs now and then. */

import type { Live } from "../../api/live";
import { isReview } from "../../model/interventions";
import { connectionWord, pressWords, silentWords, storedName } from "../../model/contact";
import { verdict } from "../../model/receipt";
import { spoken, timeOfDay, who } from "../../ui/format";
import { isEnded, type View } from "./view";

/** Seconds after which a call that outlives a stop is named again. */
const AGAIN = [10, 60, 300, 600, 900, 1200, 1500, 1800, 2100, 2400, 2700, 3000, 3300, 3600];

/** What is said: it changes on a transition, and when a call has run on for a while. */
export function polite(live: Live, view: View, refusal: string): string {
  if (refusal) return refusal;
  if (view.press && view.press.state !== "sending") return pressWords(view.press, live.connection.value);
  if (view.asking === "pause") return "Asking to pause.";
  if (view.isUnwritten && !isEnded(view.status)) return "Nothing new starts. That could not be stored.";
  if (view.stored?.length && view.silentSince != null) return `${storedName(view.stored)}. ${silentWords(timeOfDay(view.silentSince))}.`;
  if (view.isUnattended) return `Its worker is gone. Last seen ${view.status}.`;
  const call = view.still[0];
  const ran = call ? live.seenAt() - call.since : 0;
  const mark = AGAIN.filter((seconds) => seconds <= ran).at(-1);
  const still = call ? ` Still running: ${call.name}${mark ? `, ${spoken(mark)}` : ""}.` : "";
  switch (view.status) {
    case "queued": return "Queued.";
    case "running": return "Running.";
    case "pausing": return `Pausing.${still} Nothing else starts.`;
    case "paused": return `Paused ${view.isBetween ? `before step ${view.step + 1}` : `in step ${view.step}`}. Nothing runs. Press p to resume.`;
    case "cancelling": return `Cancelling.${still}`;
    case "cancelled": return `Cancelled. ${live.receipt.value ? verdict(live.receipt.value.lines, live.receipt.value.children) : ""}`;
    case "completed": return "Completed.";
    case "failed": return `Failed at step ${view.step}.`;
    default: return "";
  }
}

/** What is said at once. */
export function assertive(live: Live, view: View): string {
  if (live.connection.value.state === "refused") return "This page is no longer logged in.";
  if (view.isLost) return `${connectionWord(live.connection.value)}. Last seen ${view.status}.`;
  if (view.status === "halted") return "Halted by an operator.";
  const review = live.run.session?.asks.find((one) => isReview(one.step));
  if (review && view.status === "paused") return `Paused by ${who(live.run.session?.pause?.by ?? "", "")}. Waiting for an answer: ${review.prompt}`;
  const ask = live.run.session?.asks[0];
  if (view.status !== "waiting" || !ask) return "";
  if (ask.expires_at === null) return `Waiting for an answer: ${ask.prompt}`;
  const left = ask.expires_at - live.now();
  return `Waiting for an answer: ${ask.prompt} ${left <= 60 ? "One minute left." : `${Math.round((ask.expires_at - ask.since) / 60)} minutes to answer.`}`;
}
