/** Streamed text: cut, superseded, previewed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Recorded } from "../src/model/events";
import { Run } from "../src/model/run";
import { excerpt, Text } from "../src/model/text";

test("a regenerated attempt supersedes what was cut, and a continued one goes on from it", () => {
  const text = new Text();
  text.write(1, 0, "I score all 412 ");
  text.cutAt(1, { at: 10, by: "local", what: "redirect", tokens: 41 });
  text.write(2, 0, "Only the 268. ");
  assert.deepEqual(text.parts.map((part) => [part.text, part.superseded]), [["I score all 412 ", true], ["Only the 268. ", false]]);
  assert.equal(text.current, "Only the 268. ");
  text.cutAt(2, { at: 11, by: "local", what: "pause", tokens: 4 });
  text.write(3, 14, "Then more.");
  assert.equal(text.current, "Only the 268. Then more.");
});

test("a preview is shown once, and gives way to the durable segment", () => {
  const text = new Text();
  text.write(1, 0, "杭州 😀 ");
  assert.equal(text.length, 5);
  assert.ok(text.show(1, 5, "and "));
  assert.ok(!text.show(1, 5, "and "));
  assert.ok(text.show(1, 9, "so"));
  text.write(1, 5, "and ");
  assert.deepEqual(text.preview.map((one) => one.text), ["so"]);
  text.write(1, 9, "so on");
  assert.deepEqual(text.preview, []);
  assert.ok(!text.show(1, 9, "so"));
});

test("a stream that a redirect cut goes on after it in the story, and shares its text", () => {
  const run = new Run("sess_1");
  const terms = { task_class: null, policy: "", budget: null, ttl_seconds: null, on_expiry: "fail" };
  const told: [string, object][] = [
    ["session.created", { agent: "a", agent_version: "1", goal: "g", parent: null, forked_from: "", terms, by: "ada" }],
    ["session.started", {}],
    ["step.begun", { step: "1/say#0", name: "say", kind: "model", attempt: 1, arguments: "", effect: "read", key: "", settle: 0, can_undo: false, approval: null }],
    ["segment.written", { step: "1/say#0", attempt: 1, offset: 0, text: "All 412 " }],
    ["session.redirected", { text: "only the EU", level: "step", by: "ada", grace: null }],
    ["step.cut", { step: "1/say#0", attempt: 1, length: 8, cost: 0, tokens: 2 }],
    ["step.begun", { step: "1/say#0", name: "say", kind: "model", attempt: 2, arguments: "", effect: "read", key: "", settle: 0, can_undo: false, approval: null }],
    ["segment.written", { step: "1/say#0", attempt: 2, offset: 0, text: "The EU " }],
  ];
  told.forEach(([type, data], index) => run.apply({ position: index + 1, at: index, type, version: 1, data } as unknown as Recorded));
  assert.deepEqual(run.entries.map((entry) => entry.kind), ["said", "step", "said", "step"]);
  assert.equal(run.begun, 1);
  assert.equal(run.step("1/say#0")?.text.current, "The EU ");
  const [, first] = run.entries;
  assert.ok(first?.kind === "step" && first.until === 1 && first.text.parts[0]?.superseded);
});

test("of a long text that was cut its end is shown, of a finished one its beginning, and each says how long the whole is", () => {
  const lines = Array.from({ length: 500 }, (_, index) => `line ${index + 1}`).join("\n");
  assert.equal(excerpt(lines, "tail")?.text.split("\n").at(-1), "line 500");
  assert.equal(excerpt(lines, "tail")?.text.split("\n").length, 120);
  assert.equal(excerpt(lines, "head")?.text.split("\n")[0], "line 1");
  assert.equal(excerpt(lines, "tail")?.lines, 500);
  const word = `begins ${"w".repeat(20_000)} ends`;
  assert.ok(excerpt(word, "tail")?.text.endsWith(" ends"));
  assert.ok(excerpt(word, "head")?.text.startsWith("begins "));
  assert.equal(excerpt("short", "tail"), null);
});

test("what is missing between two previews is marked, and not left out in silence", () => {
  const text = new Text();
  text.write(1, 0, "one ");
  text.show(1, 4, "two ");
  text.show(1, 14, "four ");
  assert.equal(text.preview.map((one) => one.text).join(""), "two … four ");
  text.write(1, 4, "two three four ");
  assert.deepEqual([text.current, text.preview], ["one two three four ", []]);
});
