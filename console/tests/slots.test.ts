/** The three slots in each status: the table of the design, row by row. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { slotsFor } from "../src/features/handle/slots";
import type { View } from "../src/features/handle/view";
import type { OpenCall } from "../src/model/calls";
import { STATUSES } from "../src/model/status";

const CALM: View = {
  status: "running", asking: "", isLost: false, tray: "", isInstead: false, allowed: new Set(["pause", "resume", "redirect", "cancel"]),
  still: [], step: 14, isBetween: true, hasChange: false, isProtected: false, deferred: "", mayForce: false, undoable: 1, confirm: "undo 2, keep the rest", mayLift: false, isSwitchOn: false,
  isOwnHold: true, isUndoing: false,
};
const call = (effect: OpenCall["effect"]): OpenCall => ({
  step: "1/send#0", name: "send_report", kind: "tool", attempt: 1, since: 0, effect, key: "k", settle: 0, can_undo: false, end: "", ended_at: 0, undo: "",
  undos: 0, told: "", redirected: null, said: 1, before: null, spent: 0,
});
const shown = (view: Partial<View>): string[] => slotsFor({ ...CALM, ...view }).map((slot) => `${slot.disabled ? "(" : ""}${slot.label}${slot.disabled ? ")" : ""} ${slot.long}`);

const ROWS: [string, Partial<View>, string[]][] = [
  ["queued", { status: "queued" }, ["Pause does not start until you resume", "Redirect changes the goal before it starts", "Cancel nothing has run; nothing to undo"]],
  ["running", {}, ["Pause resume keeps context", "Redirect changes the step or goal", "Cancel partial work is saved to the session"]],
  ["pausing, irreversible", { status: "pausing", still: [call("irreversible")] }, ["(Pausing) waits for send_report", "Redirect kept, seen at resume", "Cancel partial work is saved to the session"]],
  ["pausing, can be torn", { status: "pausing", still: [call("read")] }, ["Don't wait aborts it now; done again on resume", "Redirect kept, seen at resume", "Cancel partial work is saved to the session"]],
  ["paused at the cap", { status: "paused", isCapped: true }, ["Resume… after you raise the cap", "Redirect kept until you resume", "Cancel partial work is saved to the session"]],
  ["paused in an answer", { status: "paused", cut: "continues", isBetween: false }, ["Resume continues this answer at step 14", "Redirect kept until you resume", "Cancel partial work is saved to the session"]],
  ["paused in an answer that cannot go on", { status: "paused", cut: "again" }, ["Resume restarts this answer", "Redirect kept until you resume", "Cancel partial work is saved to the session"]],
  ["paused", { status: "paused", hasChange: true }, ["Resume continues at step 15 with your change", "Redirect kept until you resume", "Cancel partial work is saved to the session"]],
  ["waiting", { status: "waiting" }, ["Pause the question stays open", "Redirect withdraws the question", "Cancel withdraws the question, saves partial work"]],
  ["cancel preview", { status: "pausing", tray: "preview" }, ["Keep going resumes where it stopped", "Redirect instead of cancelling", "Cancel run undo 2, keep the rest"]],
  ["cancelling", { status: "cancelling", still: [call("irreversible")] }, ["(Pause) refused: it is being cancelled", "(Redirect) refused: it is being cancelled", "Force no more time for it; its result may stay unknown"]],
  ["cancelled", { status: "cancelled" }, ["(Pause) it has ended", "New turn continues from here with a new instruction", "Undo… 1 kept effect can still be undone"]],
  ["halted, an operator looks", { status: "halted", allowed: new Set(["resume", "cancel"]), mayLift: true }, ["Lift halt goes back to where it was", "(Redirect) refused while halted", "Cancel shows a preview first; undoes what you choose"]],
  ["halted, an operator looks, the kill switch is on", { status: "halted", allowed: new Set(["resume", "cancel"]), mayLift: true, isSwitchOn: true }, ["(Lift halt) lift the kill switch first", "(Redirect) refused while halted", "Cancel shows a preview first; undoes what you choose"]],
  ["halted, an operator previews a cancel", { status: "halted", allowed: new Set(["resume", "cancel"]), mayLift: true, tray: "preview", isOwnHold: false }, ["Keep it stays halted, as it was", "(Redirect) refused while halted", "Cancel run undo 2, keep the rest"]],
  ["halted", { status: "halted", allowed: new Set() }, ["(Resume) only an operator can lift this", "(Redirect) refused while halted", "(Cancel) only an operator, while halted"]],
  ["protected", { isProtected: true }, ["Pause after this turn: it finishes first", "Redirect at the next step", "Cancel after this turn: it finishes first"]],
  ["protected, a cancel's preview", { isProtected: true, tray: "preview", isOwnHold: false }, ["Keep going nothing has been stopped", "Redirect instead of cancelling", "Cancel run when this turn has ended"]],
  ["protected, a pause waits", { isProtected: true, deferred: "pause" }, ["Take it back the pause that waits for the end", "Redirect at the next step", "Cancel after this turn: it finishes first"]],
  ["protected, a cancel waits", { isProtected: true, deferred: "cancel" }, ["Take it back the cancel that waits for the end", "Redirect at the next step", "(Cancelling) at the end of this turn"]],
  ["protected, a cancel waits, an operator looks", { isProtected: true, deferred: "cancel", mayForce: true }, ["Take it back the cancel that waits for the end", "Redirect at the next step", "Force… would stop it unfinished; shows a preview first"]],
  ["protected, forced: what that means is shown", { isProtected: true, deferred: "cancel", mayForce: true, tray: "force" }, ["Let it finish the cancel waits for its end", "Redirect at the next step", "Force it discarded; cannot be undone"]],
  ["forced", { status: "cancelled", isProtected: true, isDiscarded: true }, ["(Pause) it has ended", "(New turn) its progress was discarded", "Undo… 1 kept effect can still be undone"]],
  ["completed", { status: "completed", undoable: 3 }, ["(Pause) it has ended", "New turn continues from here with a new instruction", "Undo… 3 effects can be undone"]],
  ["erased", { status: "completed", isErased: true, undoable: 1, allowed: new Set(["cancel"]) }, ["(Pause) it has ended", "(New turn) what was said was erased", "(Undo…) the data it needs was erased"]],
  ["failed", { status: "failed", undoable: 2 }, ["Try again tries the failed step again", "New turn continues from step 14 with a new instruction", "Undo… 2 effects can be undone"]],
  ["connection lost", { isLost: true }, ["Pause sent when connected", "Redirect sent when connected", "(Cancel) needs its preview: when connected"]],
  ["a worker that does not answer", { silentSince: 5, stored: [{ command: "pause", by: "", at: 5 }] }, ["(Pausing) stored; its worker does not answer", "Redirect stored; done when its worker answers", "Cancel shows a preview first; stored until its worker answers"]],
  ["a worker that does not answer, a cancel is stored", { silentSince: 5, stored: [{ command: "cancel", by: "", at: 5 }] }, ["Pause stored; done when its worker answers", "Redirect stored; done when its worker answers", "(Cancelling) stored; its worker does not answer"]],
  ["a preview whose hold a silent worker has not decided", { tray: "preview", silentSince: 5, stored: [{ command: "pause", by: "", at: 5 }] }, ["Keep going closes this; it was not held", "Redirect instead of cancelling", "Cancel run undo 2, keep the rest"]],
  ["a stop that could not be stored", { isUnwritten: true }, ["(Pausing) shut; not stored yet, retried", "Redirect changes the step or goal", "Cancel partial work is saved to the session"]],
  ["a stop that could not be stored, its press just answered", { isUnwritten: true, asking: "pause" }, ["(Pausing) shut; not stored yet, retried", "Redirect changes the step or goal", "Cancel partial work is saved to the session"]],
  ["a store that takes nothing", { asking: "pause", press: { key: "k", verb: "pause", since: 0, state: "turned away", problem: null, mayHaveArrived: true } }, ["(Pausing) not stored yet; retried", "Redirect changes the step or goal", "Cancel partial work is saved to the session"]],
  ["asked, not answered", { asking: "pause" }, ["(Pausing) asking the server", "Redirect changes the step or goal", "Cancel partial work is saved to the session"]],
  ["a token that may only watch", { allowed: new Set() }, ["(Pause) your token can only watch", "(Redirect) your token can only watch", "(Cancel) your token can only watch"]],
];
for (const [name, view, expected] of ROWS) test(`the slots, ${name}`, () => assert.deepEqual(shown(view), expected));

test("every status has three slots, and each names its consequence, long and short", () => {
  for (const status of STATUSES) {
    const slots = slotsFor({ ...CALM, status });
    assert.equal(slots.length, 3);
    for (const slot of slots) assert.ok(slot.label && slot.long && slot.short, `${status}: ${JSON.stringify(slot)}`);
  }
});
