/** Policies and reports: thresholds as rails, and figures in words. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { columns, marksOf, nameOf, numberOf, reach, roomFor, shown, SIGNALS } from "../src/features/policy/signals";
import { byWhom, dollars, kindOf, percent, periodOf, range, seconds, signed, target, tokens } from "../src/features/report/words";

const duration = SIGNALS.find((one) => one.name === "duration")!;
const drift = SIGNALS.find((one) => one.name === "scope_drift")!;

test("a threshold is a number, a span of time, or not there", () => {
  assert.deepEqual(["15m", "500ms", "1.5h", "7d", 5, null, "soon"].map(numberOf), [900, 0.5, 5400, 604_800, 5, null, null]);
  const document = { signals: { duration: { warn: "10m", explain: null, intervene: "25m", stop: "45m" } } };
  assert.deepEqual(marksOf(document, duration).map((mark) => [mark.stage, mark.value]), [["warn", 600], ["intervene", 1500], ["stop", 2700]]);
  assert.deepEqual(marksOf(null, duration), []);
});

test("a rail reaches behind its last threshold, and a share never ends before 1", () => {
  const marks = marksOf({ signals: { duration: { stop: "100s" } } }, duration);
  assert.equal(Math.round(reach(duration, marks, null)), 115);
  assert.equal(reach(duration, marks, { signal: "duration", failed: [10_000], others: [] }), 200);
  assert.equal(reach(drift, [], null), 1);
});

test("numbers under a rail never lie upon each other, and the gravest stay", () => {
  const labelled = (document: object): string[] => {
    const marks = marksOf({ signals: { duration: document } }, duration);
    return roomFor(marks, reach(duration, marks, null), "time").map((mark) => mark.field);
  };
  assert.deepEqual(labelled({ warn: "10m", explain: "20m", intervene: "25m", stop: "45m" }), ["stop", "intervene", "warn"]);
  assert.deepEqual(labelled({ warn: "40m", explain: "42m", intervene: "44m", stop: "45m" }), ["stop"]);
  assert.deepEqual(labelled({ warn: "1m", stop: "45m" }), ["stop", "warn"]);
});

test("runs beyond the end of a rail are drawn at its end", () => {
  assert.deepEqual(columns([0, 9, 99, 500], 100, 10), [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
  assert.deepEqual(columns([], 1, 3), [0, 0, 0]);
});

test("numbers are read as people write them", () => {
  assert.deepEqual([shown(1500, "time"), shown(0.62, "share"), shown(10, "dollars"), shown(0.0533, "dollars"), shown(50, "count")], ["25 min", "0.62", "$10", "$0.0533", "50"]);
  assert.equal(nameOf("signals.loops.intervene"), "Repeats without progress: steps in");
  assert.equal(nameOf("restraint.first_after"), "restraint · first after");
});

test("a report's words are those of the server's own page", () => {
  assert.deepEqual([percent(0.5625), percent(0.074), percent(1), percent(null)], ["56.2 %", "7.4 %", "100 %", "–"]);
  assert.deepEqual([target([0.1, 0.2]), target([0, 0]), target([0.8, 1]), target([0, 0.3])], ["10–20 %", "0 %", "at least 80 %", "at most 30 %"]);
  assert.deepEqual([seconds(0.0031), seconds(1.9), seconds(190), seconds(9000), seconds(null)], ["3.1 ms", "1.9 s", "3:10 min", "2.5 h", "–"]);
  assert.deepEqual([dollars(412), dollars(0.005, true), dollars(0), dollars(null)], ["$412.00", "~$0.005", "$0.00", "–"]);
  assert.deepEqual([dollars(0.0451), dollars(1203.5), dollars(0.00002)], ["$0.05", "$1,203.50", "$2.0e-05"]);
  assert.deepEqual([range([0, 30]), range([30, 300]), range([300, null])], ["up to 30 s", "30 s–5 min", "over 5 min"]);
  assert.deepEqual([signed(21), signed(-0.159, "pp"), signed(0), signed(null)], ["+2,100 %", "-15.9 pp", "+0 %", "–"]);
  assert.deepEqual([tokens(30.4), tokens(3.52), tokens(null)], ["30 tok/s", "3.5 tok/s", "–"]);
});

test("more than was aimed at is a miss, but of what may be as high as it likes", () => {
  assert.equal(byWhom({ kill_switch: 4, person: 1, policy: 2, agent: 0 }), "1 by a person, 2 by policies, 4 by the kill switch");
  assert.equal(byWhom({}), "");
  assert.deepEqual([kindOf("above"), kindOf("above", true), kindOf("below", true), kindOf("too few to say"), kindOf("kept")], ["no", "ok", "no", "few", "ok"]);
  assert.deepEqual([periodOf("quarter"), periodOf("toString"), periodOf(null)], ["quarter", "week", "week"]);
});
