/** The browser's model folds the same journals as core/ to the same state. */

import assert from "node:assert/strict";
import { test } from "node:test";
import histories from "../fixtures/histories.json";
import runs from "../fixtures/runs.json";
import { allowed } from "../src/model/allowed";
import type { Recorded } from "../src/model/events";
import { figuresOf, general, sentenceOf, unseenOf } from "../src/model/interventions";
import { Run } from "../src/model/run";
import { goalOf, type Session, spentSoFar } from "../src/model/session";
import { spent } from "../src/ui/format";

type Known = Record<string, unknown> & { position: number; texts: Record<string, string> };
interface Journal { name: string; session: string; events: Recorded[]; allowed: string[][]; states: Known[]; decisions: { sentence: string; arithmetic: string }[] }

const pick = (from: object | null, names: string[]): unknown =>
  from && Object.fromEntries(names.map((name) => [name, (from as Record<string, unknown>)[name]]));

function shown(session: Session, known: Known): Record<string, unknown> {
  const call = ["step", "name", "kind", "attempt", "since", "effect", "key", "settle", "can_undo", "end", "ended_at", "undo", "undos", "told", "redirected", "said"];
  const own: Record<string, unknown> = {
    goal: goalOf(session), budget: session.terms.budget, calls: [...session.calls.values()].map((one) => pick(one, call)),
    cuts: Object.fromEntries(session.cuts), children: Object.fromEntries(session.children), pause: pick(session.pause, ["id", "by", "since", "origin", "reason", "grace", "lapses_at"]),
    deferred: pick(session.deferred, ["stop", "by", "since", "reason", "undo"]),
    cancel: pick(session.cancel, ["by", "since", "grace", "undo"]), undo: pick(session.undo, ["by", "since", "done"]),
    holds: [...session.holds].sort(),
  };
  return Object.fromEntries(Object.keys(known).filter((name) => name !== "texts").map((name) =>
    [name, name in own ? own[name] : (session as unknown as Record<string, unknown>)[name]]));
}

test("a run that forgets is told again from the start, and is the same", () => {
  const [journal] = histories as unknown as Journal[];
  const [run, other] = [new Run(journal!.session), new Run(journal!.session)];
  journal!.events.forEach((record) => run.apply(record));
  run.forget();
  assert.equal(run.position, 0);
  journal!.events.slice(0, 3).forEach((record) => { run.apply(record); other.apply(record); });
  assert.deepEqual(run, other);
});

for (const journal of [...histories, ...runs] as unknown as Journal[]) {
  test(`${journal.name} is folded as core folds it`, () => {
    const run = new Run(journal.session);
    for (const record of journal.events) {
      run.apply(record);
      const known = journal.states.find((state) => state.position === record.position);
      if (!known || !run.session) continue;
      const { texts, ...rest } = known;
      assert.deepEqual(shown(run.session, known), rest);
      for (const [step, text] of Object.entries(texts)) assert.equal(run.step(step)?.text.current, text, `text of ${step}`);
    }
    assert.equal(run.position, journal.events.length);
    const decisions = run.entries.flatMap((entry) => (entry.kind === "stepin" ? [entry.decision] : []));
    assert.deepEqual(decisions.map((one) => ({
      sentence: sentenceOf(one), arithmetic: [...figuresOf(one), ...unseenOf(one).map((unseen) => `not seen: ${unseen}`)].join("; "),
    })), journal.decisions);
  });

  test(`${journal.name}: the handle offers what core would take, after every event`, () => {
    const run = new Run(journal.session);
    const offered = journal.events.map((record) => {
      run.apply(record);
      return ["steer", "operate"].map((role) => [...allowed(run.session!, role)].join(" "));
    });
    assert.deepEqual(offered, journal.allowed);
  });

  test(`${journal.name}, told twice, is told once`, () => {
    const once = new Run(journal.session);
    const twice = new Run(journal.session);
    journal.events.forEach((record) => once.apply(record));
    [...journal.events, ...journal.events].forEach((record) => twice.apply(record));
    assert.deepEqual(twice.entries, once.entries);
  });
}

test("a number has four digits, as Python's :.4g writes it", () => {
  const known: [number, string][] = [
    [0, "0"], [5, "5"], [0.7, "0.7"], [0.74321, "0.7432"], [600.6, "600.6"], [1234, "1234"], [9999.6, "1e+04"], [12345.6, "1.235e+04"], [0.0001, "0.0001"],
    [0.00001234, "1.234e-05"], [2.5e15, "2.5e+15"], [-3.14159, "-3.142"], [1 / 3, "0.3333"],
  ];
  for (const [number, written] of known) assert.equal(general(number), written);
});

test("what a policy's decision led to is told with it, not in lines of its own", () => {
  const journal = (runs as unknown as Journal[]).find((one) => one.name === "run watched")!;
  const run = new Run(journal.session);
  journal.events.forEach((record) => run.apply(record));
  const [noticed, asked, paused] = run.entries.filter((entry) => entry.kind === "stepin");
  assert.equal(noticed!.decision.level, "notify");
  assert.ok(asked!.said?.seen_at);
  assert.deepEqual([asked!.verdict, asked!.judged_by], ["unsure", "local"]);
  assert.deepEqual([paused!.ask?.end, paused!.ask?.value?.raw, paused!.stop?.lifted_by], ["answered", "that is enough", "local"]);
  assert.deepEqual(run.entries.filter((entry) => entry.kind === "ask" || entry.kind === "stop"), []);
  assert.deepEqual(run.entries.flatMap((entry) => (entry.kind === "said" ? [entry.text] : [])), ["a run: watched", "that is enough"]);
  assert.deepEqual(run.marks.map((mark) => mark.what).filter((what) => what !== "read"), ["plan", "pause", "redirect"]);
});

test("what an answer has written so far is counted as it comes, and said again by its end", () => {
  const terms = { task_class: null, policy: "", budget: null, ttl_seconds: null, on_expiry: "fail" };
  const run = new Run("sess_1");
  let position = 0;
  const tell = (type: string, data: object): void => run.apply({ position: ++position, at: position, type, version: 1, data } as unknown as Recorded);
  const begin = (step: string): void => tell("step.begun", { step, name: "say", kind: "model", attempt: 1, arguments: "", effect: "read", key: "", settle: 0, can_undo: false, approval: null });
  tell("session.created", { agent: "a", agent_version: "1", goal: "g", parent: null, forked_from: "", terms, by: "ada" });
  tell("session.started", {});
  begin("1/say#0");
  tell("segment.written", { step: "1/say#0", attempt: 1, offset: 0, text: "one ", cost: 0.2, tokens: 80, free: false });
  assert.deepEqual(spentSoFar(run.session!), { cost: 0.2, estimated: true, tokens: 80, written: 80, unpriced: 0 });
  tell("step.finished", { step: "1/say#0", attempt: 1, value: { raw: null, blob: null, size: 0 }, streamed: true, cost: 0.25, tokens: 90, free: false, told_by: "" });
  assert.deepEqual(spentSoFar(run.session!), { cost: 0.25, estimated: false, tokens: 90, written: 0, unpriced: 0 });
  begin("1/say#1");
  tell("segment.written", { step: "1/say#1", attempt: 1, offset: 0, text: "two ", cost: 0, tokens: 10, free: false });
  assert.deepEqual(spentSoFar(run.session!), { cost: 0.25, estimated: false, tokens: 100, written: 10, unpriced: 1 });
  assert.equal(spent(spentSoFar(run.session!)), "≥ $0.25");
});
