/** The three slots: they never move. Left holds and releases, middle changes course, right ends. Pure. */

import type { ShapeName } from "../../ui/Shape";
import { count } from "../../ui/format";
import { pressSlot } from "../../model/contact";
import { finishesFirst, isAsked, type View } from "./view";

export type Act =
  | "pause" | "abort" | "resume" | "retry" | "keep" | "lift"
  | "redirect" | "turn" | "raise" | "cancel" | "confirm" | "force" | "half-way" | "discard" | "undo" | "none";

export interface Slot {
  /** What a press does now. A change of it starts the guard. */
  act: Act;
  label: string; long: string; short: string; shape: ShapeName; key: string; tone: "" | "main" | "go" | "redirect";
  disabled: boolean;
}

const slot = (act: Act, label: string, long: string, short: string, shape: ShapeName, key: string, tone: Slot["tone"] = ""): Slot =>
  ({ act, label, long, short, shape, key, tone, disabled: false });
/** It stays where it is, dashed, and says why. */
const idle = (label: string, long: string, short: string, shape: ShapeName): Slot =>
  ({ act: "none", label, long, short, shape, key: "", tone: "", disabled: true });

export function slotsFor(view: View): [Slot, Slot, Slot] {
  return [left(view), middle(view), right(view)];
}

const WATCHING = "your token can only watch";

function onlyWatches(view: View): boolean { return view.allowed.size === 0 && view.status !== "halted"; }

/** What became of a press so far, or of a command that is stored: in a slot that waits for it. */
function asked(view: View, verb: string, label: string, shape: ShapeName): Slot {
  if (view.asking === verb && view.press && view.press.state !== "sending") return idle(label, ...pressSlot(view.press), shape);
  if (view.asking === verb) return idle(label, view.isLost ? "kept; sent when connected" : "asking the server", "asking", shape);
  return idle(label, view.isUnattended ? "stored; it has no worker" : view.silentSince == null ? "stored; its worker decides" : "stored; its worker does not answer", "stored", shape);
}

/** A press that the worker would not hear now: it is stored at once. */
function later(view: View, act: Act, label: string, shape: ShapeName, key: string, tone: Slot["tone"] = ""): Slot | null {
  if (view.isLost) return slot(act, label, "sent when connected", "sent later", shape, key, tone);
  if (view.isUnattended) return slot(act, label, "stored; done when a worker takes over", "stored", shape, key, tone);
  return view.silentSince == null ? null : slot(act, label, "stored; done when its worker answers", "stored", shape, key, tone);
}

function left(view: View): Slot {
  if (view.tray === "preview" || view.isInstead) {
    if (view.status === "halted") return slot("keep", "Keep it", "stays halted, as it was", "stays halted", "halted", "Escape");
    if (finishesFirst(view)) return slot("keep", "Keep going", "nothing has been stopped", "continues", "running", "Escape", "go");
    if (view.isProtected && ["completed", "failed", "cancelled"].includes(view.status)) return slot("keep", "Close", "it has ended in the meantime", "has ended", "completed", "Escape");
    if (!view.isOwnHold) return slot("keep", "Keep it", "stays paused, as it was", "stays paused", "paused", "Escape");
    // Not held as far as is known: there is nothing to resume.
    if (["queued", "running", "waiting"].includes(view.status) && (view.silentSince != null || view.isLost || view.press)) return slot("keep", "Keep going", "closes this; it was not held", "not held", "running", "Escape", "go");
    return slot("keep", "Keep going", "resumes where it stopped", "resumes", "running", "Escape", "go");
  }
  if (view.tray === "force") return slot("keep", "Let it finish", "the cancel waits for its end", "continues", "running", "Escape", "go");
  const at = view.isBetween ? view.step + 1 : view.step;
  if (isAsked(view, "resume")) return asked(view, "resume", "Resuming", "queued");
  if (view.isUnwritten) return idle("Pausing", "shut; not stored yet, retried", "not stored", "pausing");
  if (isAsked(view, "pause")) return asked(view, "pause", "Pausing", "pausing");
  switch (view.status) {
    case "queued": case "running": case "waiting": {
      if (onlyWatches(view)) return idle("Pause", WATCHING, "watch only", "paused");
      const tone = view.status === "waiting" ? "" : "main";
      const kept = later(view, "pause", "Pause", "paused", "p", tone);
      if (kept) return kept;
      if (view.status === "queued") return slot("pause", "Pause", "does not start until you resume", "will not start", "paused", "p", tone);
      if (view.deferred) return slot("resume", "Take it back", `the ${view.deferred} that waits for the end`, `no ${view.deferred}`, "running", "p", "go");
      if (view.isProtected) return slot("pause", "Pause", "after this turn: it finishes first", "finishes first", "paused", "p", tone);
      if (view.status === "waiting") return slot("pause", "Pause", "the question stays open", "question stays", "paused", "p", tone);
      return slot("pause", "Pause", "resume keeps context", "keeps context", "paused", "p", tone);
    }
    case "pausing": {
      const torn = view.still.find((call) => call.kind !== "model" && call.effect !== "irreversible" && !call.end);
      const waits = view.still.find((call) => call.effect === "irreversible") ?? view.still[0];
      if (torn && view.allowed.has("pause") && !view.isProtected) {
        const undone = torn.effect === "reversible" ? "aborts and undoes it now; done again on resume" : "aborts it now; done again on resume";
        return slot("abort", "Don't wait", undone, "aborts it now", "pausing", "p");
      }
      return idle("Pausing", waits ? `waits for ${waits.name}` : "nothing new starts", waits ? `waits for ${waits.name}` : "nothing new starts", "pausing");
    }
    case "paused":
      if (onlyWatches(view)) return idle("Resume", WATCHING, "watch only", "running");
      if (view.isCapped) return slot("raise", "Resume…", "after you raise the cap", "raise the cap", "running", "p", "go");
      {
        const kept = later(view, "resume", "Resume", "running", "p", "go");
        if (kept) return kept;
        const change = view.hasChange ? " with your change" : "";
        if (view.cut === "again") return slot("resume", "Resume", `restarts this answer${change}`, change ? "restarts, with your change" : "restarts it", "running", "p", "go");
        const what = view.cut === "continues" ? "continues this answer" : "continues";
        return slot("resume", "Resume", `${what} at step ${Math.max(1, at)}${change}`, change ? "continues with your change" : "continues", "running", "p", "go");
      }
    case "cancelling": return idle("Pause", "refused: it is being cancelled", "refused", "paused");
    case "halted":
      if (view.mayLift && view.isSwitchOn) return idle("Lift halt", "lift the kill switch first", "lift the switch first", "running");
      if (view.mayLift) return slot("lift", "Lift halt", "goes back to where it was", "goes back", "running", "p", "go");
      return idle("Resume", "only an operator can lift this", "operator only", "running");
    case "failed":
      if (view.allowed.has("resume")) return slot("retry", "Try again", "tries the failed step again", "the failed step", "running", "p");
      return idle("Pause", "it has ended", "it has ended", "paused");
    default: return idle("Pause", "it has ended", "it has ended", "paused");
  }
}

function middle(view: View): Slot {
  const redirect = (long: string, short: string): Slot => slot("redirect", "Redirect", long, short, "redirect", "r", "redirect");
  if (view.asking === "redirect") return asked(view, "redirect", "Redirect", "redirect");
  if ((view.tray === "preview" || view.isInstead) && view.status !== "halted") return redirect("instead of cancelling", "instead");
  if (onlyWatches(view)) return idle("Redirect", WATCHING, "watch only", "redirect");
  switch (view.status) {
    case "cancelling": return idle("Redirect", "refused: it is being cancelled", "refused", "redirect");
    case "halted": return idle("Redirect", "refused while halted", "refused", "redirect");
    case "completed": case "cancelled": case "failed":
      if (view.isUndoing) return idle("New turn", "after the undo", "after the undo", "redirect");
      if (view.isErased) return idle("New turn", "what was said was erased", "erased", "redirect");
      if (view.isDiscarded) return idle("New turn", "its progress was discarded", "discarded", "redirect");
      if (!view.allowed.has("redirect")) return idle("New turn", "its journal is damaged", "damaged", "redirect");
      return slot("turn", "New turn", view.status === "failed" ? `continues from step ${view.step} with a new instruction` : "continues from here with a new instruction", view.status === "failed" ? `from step ${view.step}` : "from here", "redirect", "r", "redirect");
    default: break;
  }
  const kept = later(view, "redirect", "Redirect", "redirect", "r", "redirect");
  if (kept) return kept;
  switch (view.status) {
    case "queued": return redirect("changes the goal before it starts", "changes the goal");
    case "waiting": return redirect("withdraws the question", "drops the question");
    case "pausing": return redirect("kept, seen at resume", "seen at resume");
    case "paused": return redirect("kept until you resume", "seen at resume");
    default: return view.isProtected ? redirect("at the next step", "next step") : redirect("changes the step or goal", "change course");
  }
}

function right(view: View): Slot {
  const cancel = (long: string, short: string): Slot => slot("cancel", "Cancel", long, short, "cancelled", "c");
  if (view.tray === "preview" && finishesFirst(view)) return slot("confirm", "Cancel run", "when this turn has ended", "at its end", "cancelled", "Enter", "main");
  if (view.tray === "preview") return slot("confirm", "Cancel run", view.confirm, view.confirm, "cancelled", "Enter", "main");
  if (view.isInstead) return cancel("back to the preview", "back");
  if (isAsked(view, "cancel")) return asked(view, "cancel", "Cancelling", "cancelling");
  if (isAsked(view, "undo")) return asked(view, "undo", "Undoing", "undone");
  if (onlyWatches(view)) return idle("Cancel", WATCHING, "watch only", "cancelled");
  switch (view.status) {
    case "cancelling":
      return view.still.length
        ? slot("force", "Force", "no more time for it; its result may stay unknown", "result unknown", "cancelled", "c")
        : idle("Cancelling", "settling what was in flight", "settling", "cancelling");
    case "halted": return view.allowed.has("cancel") ? cancel("shows a preview first; undoes what you choose", "preview first") : idle("Cancel", "only an operator, while halted", "operator only", "cancelled");
    case "completed": case "cancelled": case "failed":
      if (view.isUndoing) return idle("Undoing", "newest first", "newest first", "undone");
      if (view.isErased) return idle("Undo…", "the data it needs was erased", "erased", "undone");
      if (!view.undoable) return idle("Undo…", view.undoable === null ? "reading what was done" : "nothing left to undo", "nothing left", "undone");
      return slot("undo", "Undo…", `${count(view.undoable, view.status === "cancelled" ? "kept effect" : "effect")} can ${view.status === "cancelled" ? "still " : ""}be undone`, `${view.undoable} can be`, "undone", "u");
    default: break;
  }
  if (view.isLost) return idle("Cancel", "needs its preview: when connected", "when connected", "cancelled");
  if (finishesFirst(view)) {
    if (view.deferred !== "cancel") return cancel("after this turn: it finishes first", "finishes first");
    if (!view.mayForce) return idle("Cancelling", "at the end of this turn", "finishes first", "cancelling");
    if (view.tray === "force") return slot("discard", "Force it", "discarded; cannot be undone", "cannot be undone", "cancelled", "Enter", "main");
    return slot("half-way", "Force…", "would stop it unfinished; shows a preview first", "preview first", "cancelled", "c");
  }
  switch (view.status) {
    case "queued": return cancel("nothing has run; nothing to undo", "nothing to undo");
    case "waiting": return cancel("withdraws the question, saves partial work", "drops the question");
    default:
      if (view.isUnattended || view.silentSince != null) return cancel(`shows a preview first; stored until ${view.isUnattended ? "a worker takes over" : "its worker answers"}`, "preview first");
      return cancel("partial work is saved to the session", "partial work is saved");
  }
}
