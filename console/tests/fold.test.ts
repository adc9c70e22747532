/** The browser's model folds the same journals as core/ to the same state. */

import assert from "node:assert/strict";
import { test } from "node:test";
import histories from "../fixtures/histories.json";
import runs from "../fixtures/runs.json";
import type { Recorded } from "../src/model/events";
import { Run } from "../src/model/run";
import { goalOf, type Session } from "../src/model/session";

type Known = Record<string, unknown> & { position: number; texts: Record<string, string> };
interface Journal { name: string; session: string; events: Recorded[]; states: Known[] }

const pick = (from: object | null, names: string[]): unknown =>
  from && Object.fromEntries(names.map((name) => [name, (from as Record<string, unknown>)[name]]));

function shown(session: Session, known: Known): Record<string, unknown> {
  const call = ["step", "name", "kind", "attempt", "since", "effect", "key", "settle", "can_undo", "end", "ended_at", "undo", "undos", "told", "redirected", "said"];
  const own: Record<string, unknown> = {
    goal: goalOf(session), budget: session.terms.budget, calls: [...session.calls.values()].map((one) => pick(one, call)),
    children: Object.fromEntries(session.children), pause: pick(session.pause, ["id", "by", "since", "origin", "reason", "grace", "lapses_at"]),
    cancel: pick(session.cancel, ["by", "since", "grace", "undo"]), undo: pick(session.undo, ["by", "since", "done"]),
    holds: [...session.holds].sort(),
  };
  return Object.fromEntries(Object.keys(known).filter((name) => name !== "texts").map((name) =>
    [name, name in own ? own[name] : (session as unknown as Record<string, unknown>)[name]]));
}

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
  });

  test(`${journal.name}, told twice, is told once`, () => {
    const once = new Run(journal.session);
    const twice = new Run(journal.session);
    journal.events.forEach((record) => once.apply(record));
    [...journal.events, ...journal.events].forEach((record) => twice.apply(record));
    assert.deepEqual(twice.entries, once.entries);
  });
}
