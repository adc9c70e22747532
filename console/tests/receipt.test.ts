/** The one count of a receipt's lines. The same cases as tests/unit/core/test_tally.py. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReceiptLine } from "../src/model/events";
import { sizes, tally, undoable, undone, verdict } from "../src/model/receipt";

const line = (outcome: ReceiptLine["outcome"], effect: ReceiptLine["effect"] = "reversible"): ReceiptLine =>
  ({ step: "s", name: "n", outcome, effect, attempt: 1, detail: "", arguments: "" });

test("effects are counted by what became of them, and what is held beside them", () => {
  assert.equal(tally([line("kept"), line("undone"), line("kept"), line("undone", "hold")]), "1 undone, 2 kept, 1 hold released");
  assert.equal(tally([line("kept", "hold"), line("undo failed", "hold"), line("kept", "hold")]), "2 holds still held, 1 hold not released");
  assert.equal(tally([line("still running"), line("cannot be undone"), line("unknown")]), "1 cannot be undone, 1 unknown, 1 still running");
  assert.equal(verdict([]), "Nothing was changed.");
});

test("what can still be undone is what is called kept, and no hold", () => {
  const lines = [line("kept"), line("kept", "hold"), line("undo failed"), line("undone")];
  assert.equal(undoable(lines), 2);
  assert.equal(sizes(lines), "3 effects, 1 hold");
  assert.equal(sizes([line("kept", "hold")]), "1 hold");
  assert.equal(sizes([]), "no effects");
});

test("a preview promises to undo only what was not undone before", () => {
  assert.equal(undone([line("undone"), line("undone"), line("undone", "hold")], [line("undone"), line("kept")]), 1);
});
