/** A step that waits to be tried again is told with its error and its time; the next attempt clears that. */

import assert from "node:assert/strict";
import { test } from "node:test";
import histories from "../fixtures/histories.json";
import type { Recorded } from "../src/model/events";
import { Run } from "../src/model/run";
import { running } from "../src/model/session";

const journal = histories.find((one) => one.name === "tried again") as unknown as { session: string; events: Recorded[] };

test("a step that waits to be tried again says which attempt failed, why and when", () => {
  const run = new Run(journal.session);
  const first = journal.events.findIndex((record) => record.type === "step.retrying");
  journal.events.slice(0, first + 1).forEach((record) => run.apply(record));
  const step = run.entries.findLast((entry) => entry.kind === "step");
  assert.ok(step?.kind === "step");
  assert.deepEqual(
    { state: step.state, detail: step.detail, attempt: step.attempt, attempts: step.attempts, again_at: step.again_at, cost: step.cost },
    { state: "retrying", detail: "ConnectionError: gone", attempt: 1, attempts: 5, again_at: 102, cost: 0.25 },
  );
  assert.ok(!running(run.session!).some((call) => call.step === step.step), "nothing of it runs");
});

test("the next attempt runs, in the same place", () => {
  const run = new Run(journal.session);
  const again = journal.events.findIndex((record) => record.type === "step.begun" && record.data.attempt === 2);
  journal.events.slice(0, again + 1).forEach((record) => run.apply(record));
  const step = run.entries.findLast((entry) => entry.kind === "step");
  assert.ok(step?.kind === "step");
  assert.deepEqual({ state: step.state, detail: step.detail, attempt: step.attempt }, { state: "running", detail: "", attempt: 2 });
});
