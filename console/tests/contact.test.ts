/** What is known of the server, of the worker and of each press, and the words for it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { after, ANSWERS, type Connection, CONNECTING, connectionWord, connectionWords, type Contact, droppedWords, failureWords, type Heard, holdWords, isStored, type Press, pressSlot, pressWords, type Problem, storedName, tried, withTrouble } from "../src/model/contact";

const BUSY: Problem = { status: 503, code: "store_unavailable", title: "", detail: "Another program has held the store for 10 s" };
const REFUSED: Problem = { ...BUSY, detail: "Cannot redirect session 'sess_1': the store has not taken it within 10 s, and may still do so. Send it again with the same id ('local:k') to see what became of it." };
const PRESS: Press = { key: "k", verb: "pause", since: 1_000, state: "sending", problem: null, mayHaveArrived: false };
const LIVE: Connection = { state: "live", why: "", since: 0, problem: null };
const heard = (...all: Heard[]): Connection => all.reduce((now, one, index) => after(now, one, (index + 1) * 1_000), CONNECTING);

test("a connection is live only while a stream is open, and lost since it was lost, whatever is found out later", () => {
  assert.equal(connectionWord(heard({ what: "opened" })), "Live");
  const lost = heard({ what: "opened" }, { what: "ended" }, { what: "failed", isOnline: true }, { what: "failed", isOnline: true });
  assert.deepEqual([lost.state, lost.why, lost.since], ["lost", "gone", 2_000]);
  assert.equal(heard({ what: "opened" }, { what: "ended" }, { what: "opened" }).since, 3_000);
});

test("reconnecting, offline, gone, a store that cannot be used and a proxy's answer are told apart, each with what is known", () => {
  const rows: [Heard, string, RegExp][] = [
    [{ what: "ended" }, "Reconnecting", /Reconnecting/],
    [{ what: "failed", isOnline: false }, "Offline", /This device has been offline since 14:03/],
    [{ what: "failed", isOnline: true }, "Server does not answer", /has not answered since 14:03/],
    [{ what: "unavailable", problem: BUSY }, "Store not available", /The server answers.*14:03: Another program has held the store for 10 s\./],
    [{ what: "unavailable", problem: { ...BUSY, code: "", detail: "It answered 502 without a reason." } }, "Server not available", /answered 502/],
    [{ what: "unavailable", problem: { ...BUSY, code: "draining" } }, "Server restarts", /The server answers/],
  ];
  for (const [what, word, words] of rows) {
    const lost = heard({ what: "opened" }, what);
    assert.equal(connectionWord(lost), word);
    assert.match(connectionWords(lost, "14:03"), words);
  }
});

test("a live connection to a server that turns presses away is not called live", () => {
  const turned = tried(PRESS, { what: "turned away", problem: BUSY });
  assert.equal(connectionWord(withTrouble(LIVE, [PRESS, turned])), "Store not available");
  assert.equal(connectionWord(withTrouble(LIVE, [PRESS])), "Live");
  assert.equal(withTrouble({ ...LIVE, state: "lost", why: "offline" }, [turned]).problem, null);
});

test("of each press it is said whether it was sent, stored or refused, and that it is sent again", () => {
  const offline = tried(PRESS, { what: "unanswered", isOnline: false });
  assert.equal(pressWords(PRESS, LIVE), "Pause sent. The server has not answered yet.");
  assert.equal(pressWords(offline, { ...LIVE, state: "lost", why: "offline" }), "Pause not sent yet: this device is offline. It is kept, and sent when the device is online again.");
  assert.match(pressWords(tried(offline, { what: "unanswered", isOnline: true }), LIVE), /whether it arrived is not known\. It is retried, and counts once/);
  assert.equal(pressWords(tried(PRESS, { what: "turned away", problem: BUSY }), LIVE), "Pause not stored yet: Another program has held the store for 10 s. It is retried, and counts once.");
  assert.equal(pressWords(tried(PRESS, { what: "turned away", problem: REFUSED }), LIVE), "Pause not stored yet: the store has not taken it within 10 s, and may still do so. It is retried, and counts once.");
  assert.deepEqual(pressSlot(offline), ["kept; sent when connected", "kept"]);
});

test("a press that may have arrived is never called not sent", () => {
  const unknown = tried(PRESS, { what: "unanswered", isOnline: true });
  for (const later of [unknown, tried(unknown, { what: "unanswered", isOnline: false }), tried(PRESS, { what: "turned away", problem: BUSY })]) {
    assert.match(droppedWords(later), /It may have arrived/);
    assert.doesNotMatch(pressWords(later, LIVE), /not sent/);
  }
  assert.equal(droppedWords(tried(PRESS, { what: "unanswered", isOnline: false })), "Pause was not sent.");
});

test("a preview calls the gate shut only if the journal does, and else says what became of the hold", () => {
  const silent: Contact = { ...ANSWERS, pending: [{ command: "pause", by: "ana", at: 5 }], unreachable_since: 5 };
  const said = (contact: Contact, press?: Press): string => holdWords("asked", press, LIVE, contact, (at) => `14:03:0${at}`);
  assert.equal(holdWords("shut", undefined, LIVE, silent, String), "The gate is shut. Nothing new starts.");
  assert.equal(said(silent), "Not known to be held: the command is stored. Its worker has not answered since 14:03:05.");
  assert.match(said(ANSWERS, tried(PRESS, { what: "turned away", problem: BUSY })), /^Not held yet\. Pause not stored yet/);
  assert.match(said({ ...ANSWERS, unwritten: true }), /nothing new starts, but that could not be stored/);
});

test("several commands that are stored are named once each", () => {
  assert.equal(storedName([{ command: "pause" }, { command: "pause" }, { command: "budget" }, { command: "cancel" }]), "Pause, raised cap and cancel stored");
});

test("a request that failed says why in the server's words if it gave any, and never of a change without a reply that it was not sent", () => {
  const said = (problem: Problem | null, isOnline: boolean): string[] => [true, false].map((isChange) => failureWords(problem, isChange, isOnline));
  assert.deepEqual(said(BUSY, true), ["Not done: Another program has held the store for 10 s.", "Another program has held the store for 10 s."]);
  assert.deepEqual(said(null, true), ["No reply came: whether it arrived is not known.", "The server does not answer."]);
  assert.deepEqual(said(null, false), ["Not sent: this device is offline.", "This device is offline."]);
});

test("of stored commands that oppose each other the later one counts, and all are named in their order", () => {
  const stored = ["pause", "resume", "pause"].map((command) => ({ command }));
  assert.equal(storedName(stored), "Pause, resume and pause stored");
  assert.deepEqual([isStored(stored, "pause"), isStored(stored, "resume"), isStored(stored, "cancel")], [true, false, false]);
});
