/** The fleet's filter as the address holds it, and the handle of many: its slots, and what is said of what came of it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BulkOutcome, Head } from "../src/api/types";
import { bulkSlots, type Many, result, summary } from "../src/features/fleet/bulk";
import { filterOf, isFiltered, wordsOf } from "../src/features/fleet/filter";
import type { Status } from "../src/model/status";

const head = (status: Status, id = status): Head => ({
  id, agent: "memo", goal: "", status, turn: 1, position: 1, created_at: 0, updated_at: 0, asks: 0, cost: 0, finished_steps: 0, parent: null,
  by: "", task_class: null, policy: "", budget: null, labels: [], risk: null, interventions: 0, busy: "", open_asks: [],
});
const many = (more: Partial<Many>): string[] =>
  bulkSlots({ heads: [], isCancelling: false, asking: "", isLost: false, role: "operate", ...more }).map((slot) => `${slot.disabled ? "(" : ""}${slot.label}${slot.disabled ? ")" : ""} ${slot.long}`);
const statuses = (...all: Status[]): Head[] => all.map((status, index) => head(status, `${index}`));

const ROWS: [string, Partial<Many>, string, string][] = [
  ["all run", { heads: statuses("running", "waiting") }, "Pause 2 resume keeps their context", "Cancel 2… shows a preview first"],
  ["one is paused", { heads: statuses("running", "running", "paused") }, "Pause 2 pauses 2; 1 is paused already", "Cancel 3… shows a preview first"],
  ["one has ended", { heads: statuses("running", "completed") }, "Pause 1 pauses 1; 1 cannot be", "Cancel 1… shows a preview first"],
  ["all are paused", { heads: statuses("paused", "paused") }, "Resume 2 each continues where it stopped", "Cancel 2… shows a preview first"],
  ["all have ended", { heads: statuses("completed", "failed") }, "(Pause) none is running", "(Cancel) none can be cancelled"],
  ["a halted one, and no operator", { heads: statuses("halted"), role: "approve" }, "(Pause) none is running", "(Cancel) none can be cancelled"],
  ["a halted one, and an operator", { heads: statuses("halted") }, "Resume 1 lifts the halt; each goes back to where it was", "Cancel 1… shows a preview first"],
  ["who may only watch", { heads: statuses("running"), role: "watch" }, "(Pause) your token can only watch", "(Cancel) your token can only watch"],
  ["no connection", { heads: statuses("running"), isLost: true }, "(Pause) when connected", "(Cancel) when connected"],
  ["asked, not answered", { heads: statuses("running"), asking: "pause" }, "(Pausing) asking the server", "(Cancel) asking the server"],
  ["the tray asks", { heads: statuses("running", "queued"), isCancelling: true }, "Keep them closes this; nothing was cancelled", "Cancel 2 runs undoes what is in flight, keeps finished work"],
];
for (const [name, view, left, right] of ROWS) test(`the slots of many, ${name}`, () => assert.deepEqual(many(view), [left, "(Redirect) one at a time", right]));

test("what came of many is counted, what was reached first, and each by how it stands now", () => {
  const outcome = (ok: boolean, status: string, code = ""): BulkOutcome => ({ session: "s", ok, status, code, problem: "" });
  assert.equal(result(outcome(true, "pausing"), head("paused")), "paused");
  assert.equal(result(outcome(true, "pausing"), undefined), "pausing");
  assert.equal(result(outcome(false, "completed", "session_ended"), head("completed")), "already ended");
  assert.equal(result(outcome(false, "running", "not_reachable"), head("running")), "not reachable");
  assert.equal(result(outcome(true, "running", "not_durable"), head("running")), "stopped, not durable");
  assert.equal(result(outcome(false, "running", "not_reachable"), head("paused")), "paused");
  assert.equal(result(outcome(false, "halted", "operator_only"), head("halted")), "refused");
  assert.equal(summary([...Array<string>(187).fill("paused"), "not reachable", ...Array<string>(3).fill("already ended")]), "187 paused, 3 already ended, 1 not reachable");
});

test("the filter is read from the address, and from among its words", () => {
  const filter = filterOf(new URLSearchParams("status=waiting&status=nonsense&agent=memo&q=late+invoices+tag:repo:api+class:very-long&sort=cost"));
  assert.deepEqual(filter, { status: ["waiting"], agent: "memo", class: "very_long", tag: "repo:api", search: "late invoices", order: "cost" });
  assert.equal(wordsOf(filter), "late invoices agent:memo class:very_long tag:repo:api waiting");
  assert.equal(isFiltered(filterOf(new URLSearchParams("sort=risk"))), false);
});
