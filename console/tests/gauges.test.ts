/** What a gauge says and where its marks stand; alarms by their cause. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Alarm, Gauge, InboxAsk } from "../src/api/types";
import { placeOf, titleOf } from "../src/features/handle/asking";
import { agentsOf, grouped } from "../src/features/inbox/grouping";
import { ceiling, earlier, grown, isShown, numberOf, pastOf, scaleOf } from "../src/ui/gauge";

const gauge = (more: Partial<Gauge>): Gauge => ({
  name: "loops", title: "Repeats", unit: "count", value: 4, warn: 3, intervene: 5, stop: null, below: false, past: "warn", since: 60, unseen: null,
  history: [[10, 1], [60, 3], [70, 4]], ...more,
});
const minute = (at: number): string => `minute ${at / 60}`;

test("a number is read in its unit", () => {
  assert.deepEqual(
    [numberOf(401, "seconds"), numberOf(3.179, "dollars"), numberOf(1.04, "share"), numberOf(0.7, "of 1"), numberOf(2, "times"), numberOf(1204, "count"), numberOf(999, "bytes"), numberOf(2e6, "bytes")],
    ["06:41", "$3.18", "104 %", "0.70", "2.0 ×", "1,204", "999 bytes", "2.0 MB"],
  );
});

test("a sentence is there only when it is past something", () => {
  assert.equal(pastOf(gauge({}), minute), "warns at 3, since minute 1");
  assert.equal(pastOf(gauge({ past: null, since: null }), minute), "");
  assert.equal(pastOf(gauge({ past: "intervene", intervene: 0.3, unit: "share", below: true, since: null }), minute), "steps in below 30 %");
});

test("a tape ends at its stop, else at all of it, else beyond its last mark", () => {
  assert.equal(scaleOf(gauge({ stop: 10 })), 10);
  assert.equal(scaleOf(gauge({ unit: "of 1", warn: 0.5, intervene: 0.7 })), 1);
  assert.equal(scaleOf(gauge({})), 8);
  assert.equal(scaleOf(gauge({ warn: null, intervene: null })), null);
});

test("only what grows with time grows with time", () => {
  assert.equal(grown(gauge({}), 30).value, 4);
  assert.equal(grown(gauge({ name: "duration" }), 30).value, 34);
  assert.equal(grown(gauge({ name: "duration" }), -3).value, 1, "a clock that stopped earlier");
  assert.equal(grown(gauge({ name: "duration" }), -5).value, 0);
});

test("as it was earlier, it was past what it was past then", () => {
  const then = earlier(gauge({}), 20);
  assert.deepEqual([then.value, then.past, then.history.length], [1, null, 1]);
  assert.deepEqual([earlier(gauge({}), 60).past, earlier(gauge({}), 60).since], ["warn", 60]);
  assert.equal(earlier(gauge({}), 5).value, null);
});

test("a plot has room for the next threshold", () => {
  assert.equal(ceiling(gauge({})), 5 * 1.08);
  assert.equal(ceiling(gauge({ history: [[1, 9]] })), 9 * 1.08);
  assert.equal(ceiling(gauge({ history: [], warn: null, intervene: null })), 1);
});

test("what is well and of no interest is not shown", () => {
  assert.equal(isShown(gauge({})), true);
  assert.equal(isShown(gauge({ value: 0, past: null })), false);
  assert.equal(isShown(gauge({ name: "cost", value: 0, past: null })), true);
  assert.equal(isShown(gauge({ value: null })), false);
});

test("alarms are grouped by their cause, without what is asked above", () => {
  const alarm = (number: number, signal: string, more: Partial<Alarm> = {}): Alarm => ({ at: number, session: `s${number}`, intervention: "int_1", agent: number > 2 ? "b" : "a", signals: [signal], level: "notify", ...more });
  const asks = [{ session: "s9", ask: "ask_1" }] as InboxAsk[];
  const groups = grouped([{ person: "", since: 0, ready_at: 0, alarms: [alarm(1, "cost"), alarm(2, "loops"), alarm(3, "cost"), alarm(9, "cost", { ask: "ask_1" })] }], asks);
  assert.deepEqual(groups.map((one) => [one.cause, one.sessions, one.at]), [["cost", 2, 3], ["loops", 1, 2]]);
  assert.equal(agentsOf([alarm(1, ""), alarm(3, ""), alarm(4, "")]), "b ×2, a");
});

test("a question that a list has cut still has its title", () => {
  const whole = "Allow 'delete' (delete_records) with [1, 2]? It changes something in prod.";
  assert.deepEqual([titleOf(whole), titleOf(whole.slice(0, 40)), titleOf("Which first?")], ["Allow delete_records?", "Allow delete_records?", "Which first?"]);
  assert.deepEqual([placeOf(whole), placeOf("It changes something in eu-west and costs about 3."), placeOf("Which?")], ["prod", "eu-west", ""]);
});
