/** What the core's command table takes now of the handle's verbs, from somebody with a role: the server need not be asked. Pure. */

import type { Session } from "./session";
import { ENDED } from "./status";

export type Verb = "pause" | "resume" | "redirect" | "cancel";
const VERBS: readonly Verb[] = ["pause", "resume", "redirect", "cancel"];
/** Dollars that rounding may make of nothing. */
const HAIR = 1e-9;

export function allowed(session: Session, role: string): ReadonlySet<Verb> {
  if (role === "watch") return new Set();
  return new Set(VERBS.filter((verb) => (session.erased_at === null ? takes(session, verb, role === "operate") : verb === "cancel")));
}

/** As core/decisions.py has it: the fixtures compare them. */
function takes(session: Session, verb: Verb, isOperator: boolean): boolean {
  const { status, deferred } = session;
  if (status === "halted") return isOperator && (verb === "resume" || verb === "cancel");
  if (verb === "cancel") return true;
  if (status === "cancelling") return false;
  if (ENDED.has(status)) return (verb === "redirect" || (verb === "resume" && status === "failed" && session.undo === null)) && canGoOn(session);
  if (verb !== "resume") return true;
  if (status === "pausing" || status === "paused") return !isCapped(session);
  return deferred !== null && !(deferred.stop === "cancel" && deferred.by.startsWith("parent "));
}

function canGoOn(session: Session): boolean {
  return session.failure?.code !== "damaged" && (session.undo?.done ?? true) && !session.discarded;
}

/** Whether it can only continue with a higher cap: the cost has reached it, or the next call would pass it. */
export function isCapped(session: Session): boolean {
  const budget = session.terms.budget;
  return budget !== null && (session.cost >= budget - HAIR || (session.pause?.budget ?? 0) > budget + HAIR);
}
