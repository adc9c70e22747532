/** What is said of the children of a run that was stopped. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Child, childWords } from "../src/model/children";

const child = (status: Child["status"], busy = ""): Child => ({ status, busy, unattended: false });

test("a child is said to be what it is itself, whatever became of its parent's call", () => {
  const said = (one: Child | undefined): string | undefined => childWords("aborted", one, false)?.words;
  assert.equal(said(child("paused")), "paused with its parent");
  assert.equal(said(child("pausing", "send_report")), "pausing: send_report finishes first");
  assert.equal(said(child("completed")), "completed");
  assert.equal(said(child("cancelled")), "cancelled");
  assert.equal(said(child("running")), "runs");
  assert.equal(said(child("halted", "send_report")), "halted: send_report still runs");
  assert.equal(said(undefined), "its state is unknown");
});

test("a child that the stop did not reach may still run, wherever it was seen last", () => {
  assert.deepEqual(childWords("aborted", child("paused"), true), { words: "not reached by the stop: it may still run", runs: true });
});

test("what a child returned, or how it failed, is told by its parent's call", () => {
  assert.equal(childWords("finished", child("completed"), false), null);
  assert.equal(childWords("failed", child("failed"), false), null);
  assert.equal(childWords("running", child("running"), false), null);
});

test("while its parent is being stopped a child that has stopped is not called running", () => {
  assert.deepEqual(childWords("running", child("paused"), false), { words: "paused", runs: false });
  assert.equal(childWords("running", child("pausing", "send_report"), false)?.runs, true);
});
