/** Streamed text: cut, superseded, previewed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Text } from "../src/model/text";

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
