/** A session as its journal tells it: folds the same events as core/evolution.py to the same state. In place, not copied. */

import { childId } from "./blake2b";
import * as calls from "./calls";
import type { OpenCall } from "./calls";
import type { Change, EventType, MessageLevel, PlanItem, ReceiptLine, Recorded, RecordOf, Terms, UndoChoice, Value, Verdict } from "./events";
import { COUNTS, TRANSITIONS, type Status } from "./status";

const DID_IT_HAPPEN = "did_it_happen";

export interface Message { text: string; level: MessageLevel; turn: number; by: string; at: number; withdrawn: boolean }
export interface QueuedMessage { id: string; text: string; by: string; at: number }
export interface OpenAsk {
  id: string; step: string; reason: string; prompt: string; since: number; options: string[]; expires_at: number | null;
  default: Value | null; on_expiry: "fail" | "cancel";
}
export interface ChildAsk { child: string; ask: string; reason: string; prompt: string; since: number }
export interface StandingPause {
  id: string; by: string; since: number; origin: Status; reason: string; grace: number | null; lapses_at: number | null;
  /** The parent's pause of a child that people have paused, too. */
  beneath?: StandingPause | null;
  /** Who else has paused it since. */
  joined?: string[];
  /** What the cap must be before it can be lifted. */
  budget: number | null;
}
export interface StandingCancel { by: string; since: number; grace: number; reason: string; undo: UndoChoice; force: boolean }
/** A stop that waits for the end of the turn, because the session is protected. */
export interface DeferredStop { stop: "pause" | "cancel"; by: string; since: number; reason: string; undo: UndoChoice }
export interface StandingUndo { by: string; since: number; done: boolean }

export interface Session {
  id: string; agent: string; parent: string | null; forked_from: string; terms: Terms; created_at: number; created_by: string;
  status: Status; position: number; at: number; turn: number;
  messages: Message[]; seen: number; queue: QueuedMessage[];
  /** Answers that a stop has cut, and how a resume goes on with each; empty: it begins again. */
  cuts: Map<string, string>;
  calls: Map<string, OpenCall>; children: Map<string, string>; child_asks: ChildAsk[]; unreached: string[];
  asks: OpenAsk[]; pause: StandingPause | null; deferred: DeferredStop | null; cancel: StandingCancel | null; undo: StandingUndo | null;
  /** It was forced to end half-way; the session that begins the same anew. */
  discarded: boolean; restarted_as: string | null;
  holds: Set<string>; changes: Change[];
  halted_from: Status | null; halted_by: string; halted_why: string; halted_at: number; halted_switch: string;
  plan: PlanItem[]; progress: number | null; hypothesis: string;
  /** What was spent is at least `cost`: so many model calls have no known price. */
  finished_steps: number; cost: number; unpriced: number; tokens: number;
  result: Value | null; failure: { code: string; message: string; step: string | null } | null; receipt: ReceiptLine[];
  /** How often a policy, or the agent itself, stepped in; what people said of that, and of the run. */
  interventions: number; labels: Record<string, Verdict>; score: number | null; erased_at: number | null;
  /** When the agent's code began to run, and seconds it has run since; the clock stands while nothing counts. */
  started_at: number | null; worked: number; working_since: number | null; ended_at: number | null; checkpoint_at: number | null;
}

export function goalOf(session: Session): string {
  const stands = session.messages.filter((one) => one.level === "goal" && !one.withdrawn);
  return stands[stands.length - 1]?.text ?? "";
}

/** Whether a policy watches it: `none` is the name of the one that leaves a session alone. */
export function isWatched(session: Session): boolean { return session.terms.policy !== "" && session.terms.policy !== "none"; }

/** Seconds the session has run by `now`. */
export function elapsed(session: Session, now: number): number {
  return session.worked + (session.working_since === null ? 0 : Math.max(0, now - session.working_since));
}

/** Calls that have begun and have not ended, as far as the journal knows: longest first. */
export function running(session: Session): OpenCall[] {
  return [...session.calls.values()].filter((call) => !call.end || call.undo === "running");
}

/** What was spent so far, with the answers that are being written: their tokens and price are counted as they come. */
export function spentSoFar(session: Session): { cost: number; unpriced: number; estimated: boolean; tokens: number; written: number } {
  const writing = [...session.calls.values()].filter((call) => !call.end);
  const written = writing.reduce((sum, call) => sum + call.written, 0);
  return {
    cost: session.cost, estimated: writing.some((call) => call.spent > 0), tokens: session.tokens + written, written,
    unpriced: session.unpriced + writing.filter((call) => call.written > 0 && !call.spent && !call.free).length,
  };
}

export function created(id: string, record: RecordOf<"session.created">): Session {
  const { data, at, position } = record;
  return {
    id, agent: data.agent, parent: data.parent, forked_from: data.forked_from, terms: { ...data.terms }, created_at: at, created_by: data.by,
    status: "queued", position, at, turn: 1,
    messages: [{ text: data.goal, level: "goal", turn: 1, by: data.by, at, withdrawn: false }], seen: 1, queue: [],
    cuts: new Map(), calls: new Map(), children: new Map(), child_asks: [], unreached: [], asks: [], pause: null, deferred: null, cancel: null, undo: null,
    discarded: false, restarted_as: null,
    holds: new Set(), changes: [], halted_from: null, halted_by: "", halted_why: "", halted_at: 0, halted_switch: "",
    plan: [], progress: null, hypothesis: "", finished_steps: 0, cost: 0, unpriced: 0, tokens: 0, result: null, failure: null, receipt: [],
    interventions: 0, labels: {}, score: null, erased_at: null,
    started_at: null, worked: 0, working_since: null, ended_at: null, checkpoint_at: null,
  };
}

function statusAfter(session: Session, type: EventType): Status {
  const target = TRANSITIONS[type]?.[session.status];
  if (target === undefined) return session.status;
  if (target !== "back") return target;
  if (type === "session.halt_lifted") return session.halted_from ?? "running";
  return session.pause?.origin ?? "running";
}

/** Fold one more record in. */
export function evolve(session: Session, record: Recorded): void {
  const before = session.status;
  const after = statusAfter(session, record.type);
  work(session, record, after);
  change(session, record, before);
  session.status = after;
  session.position = record.position;
  session.at = record.at;
  if (after !== before) session.ended_at = after === "completed" || after === "failed" || after === "cancelled" ? record.at : null;
}

/** Its clock, where it begins or stops. Between the last word of an owner and the first of the next, nothing worked. */
function work(session: Session, record: Recorded, after: Status): void {
  const isOther = record.type === "session.taken" || record.type === "session.forked";
  if (COUNTS.has(after) !== (session.working_since === null) && !isOther) return;
  if (session.working_since !== null) session.worked += Math.max(0, (isOther ? session.at : record.at) - session.working_since);
  session.working_since = COUNTS.has(after) ? record.at : null;
}

function change(session: Session, record: Recorded, before: Status): void {
  const at = record.at;
  switch (record.type) {
    case "session.started": session.started_at ??= at; break;
    case "step.begun": {
      const { data } = record;
      session.calls.set(data.step, calls.begun(data, at, session.calls.get(data.step), session.messages.length));
      if (data.kind === "child") session.children.set(data.step, childId(session.id, data.step));
      session.cuts.delete(data.step);
      break;
    }
    case "step.not_begun": {
      const earlier = session.calls.get(record.data.step)?.before;
      if (earlier) session.calls.set(record.data.step, earlier);
      else session.calls.delete(record.data.step);
      break;
    }
    case "segment.written": {
      const { step, cost = 0, tokens = 0, free = false } = record.data;
      const call = session.calls.get(step);
      if (call && (cost || tokens)) {
        const spent = Math.max(call.spent, cost);
        session.cost += spent - call.spent;
        session.calls.set(step, { ...call, spent, written: tokens, free });
      }
      break;
    }
    case "step.finished":
      session.finished_steps += 1;
      end(session, record.data);
      childless(session, record.data.step);
      break;
    case "step.failed": end(session, record.data, true); childless(session, record.data.step); break;
    case "step.retrying": {
      const { data } = record;
      const call = session.calls.get(data.step);
      end(session, data, true);
      if (call) session.calls.set(data.step, calls.failed(call, data, at));
      break;
    }
    case "step.cut": end(session, record.data); session.cuts.set(record.data.step, record.data.continues ?? ""); break;
    case "step.closed":
      session.calls.delete(record.data.step);
      session.cuts.delete(record.data.step);
      childless(session, record.data.step);
      session.seen = Math.max(session.seen, Math.min(record.data.message + 1, session.messages.length));
      break;
    case "step.aborted": revise(session, record.data.step, (call) => calls.aborted(call, record.data.asked, at)); break;
    case "step.settled":
      revise(session, record.data.step, (call) => ({ ...call, told: record.data.happened === false ? "no" : call.told }));
      break;
    case "undo.begun": {
      const { data } = record;
      revise(session, data.step, (call) => (call.key === data.key ? { ...call, undo: "running", undos: data.number } : call));
      break;
    }
    case "undo.ended": {
      const { data } = record;
      revise(session, data.step, (call) => (call.key === data.key ? calls.undoing(call, data, at) : call));
      break;
    }
    case "undo.requested": session.undo = { by: record.data.by, since: at, done: false }; break;
    case "undo.finished": if (session.undo) session.undo = { ...session.undo, done: true }; break;
    case "hold.taken": session.holds.add(record.data.name); break;
    case "hold.released": if (!record.data.error) session.holds.delete(record.data.name); break;
    case "world.changed": session.changes = record.data.changes; break;
    case "child.asked": {
      const { child, ask, reason, prompt } = record.data;
      session.child_asks = [...session.child_asks, { child, ask, reason, prompt, since: at }];
      break;
    }
    case "child.ask_closed": {
      const { child, ask } = record.data;
      session.child_asks = session.child_asks.filter((one) => one.child !== child || one.ask !== ask);
      break;
    }
    case "session.paused": session.unreached = record.data.unreached; break;
    case "session.forked":
      forget(session);
      session.holds.clear();
      session.asks = session.asks.filter((ask) => ask.reason !== DID_IT_HAPPEN);
      break;
    case "session.taken":
      for (const step of record.data.lost) revise(session, step, (call) => calls.lost(call, at));
      break;
    case "ask.opened": {
      const { ask: id, step, reason, prompt, options, expires_at, on_expiry } = record.data;
      const ask = { id, step, reason, prompt, since: at, options, expires_at, default: record.data.default, on_expiry };
      session.asks = [...session.asks, ask];
      break;
    }
    case "ask.answered": case "ask.closed":
      session.asks = session.asks.filter((ask) => ask.id !== record.data.ask);
      // The path that waited for it goes on once the stop is lifted, whatever other paths still wait for.
      if (session.pause?.origin === "waiting") session.pause = { ...session.pause, origin: "running" };
      if (session.halted_from === "waiting") session.halted_from = "running";
      break;
    case "session.pause_requested": {
      const { pause: id, by, reason, grace, lapses, budget = null } = record.data;
      const lapses_at = lapses == null ? null : at + lapses;
      const standing = session.pause;
      if (standing && standing.id === id) {
        const joined = standing.joined ?? [];
        const isKnown = by === standing.by || joined.includes(by);
        session.pause = { ...standing, grace, reason: reason || standing.reason, lapses_at, budget: budget ?? standing.budget, joined: isKnown ? joined : [...joined, by] };
        break;
      }
      const pause = { id, by, since: at, origin: standing?.origin ?? before, reason, grace, lapses_at, budget, beneath: null };
      // The people's pause is on top: it is the one that people see, name and lift.
      if (!standing) session.pause = pause;
      else if (by.startsWith("parent ")) session.pause = { ...standing, grace, beneath: pause };
      else session.pause = { ...pause, beneath: standing };
      break;
    }
    case "session.pause_lifted":
      if (session.pause?.beneath) {
        const { beneath, ...top } = session.pause;
        session.pause = record.data.pause === top.id ? { ...beneath, origin: top.origin } : { ...top, beneath: null };
      }
      break;
    case "session.resumed": session.pause = null; session.failure = null; session.unreached = []; break;
    case "session.redirected": {
      const { text, level, by } = record.data;
      const place = session.messages.length;
      session.messages = [...session.messages, { text, level, turn: session.turn, by, at, withdrawn: false }];
      for (const [step, call] of session.calls) session.calls.set(step, { ...call, redirected: place });
      for (const step of session.cuts.keys()) session.cuts.set(step, "");
      break;
    }
    case "message.queued":
      session.queue = [...session.queue, { id: record.data.message, text: record.data.text, by: record.data.by, at }];
      break;
    case "message.edited": amend(session, record.data.message, record.data.text); break;
    case "message.withdrawn": amend(session, record.data.message, null); break;
    case "message.seen": session.seen = record.data.count; break;
    case "budget.raised": session.terms = { ...session.terms, budget: record.data.budget }; break;
    case "session.turn_opened": openTurn(session, record); break;
    case "checkpoint.taken":
      for (const [step, call] of session.calls) if (call.end) session.calls.delete(step);
      session.cuts.clear();
      session.checkpoint_at = record.position;
      break;
    case "stop.deferred": session.deferred = { ...record.data, since: at }; break;
    case "stop.taken_back": session.deferred = null; break;
    case "session.cancel_requested": cancel(session, record); break;
    case "session.cancelled":
      session.receipt = record.data.receipt;
      session.discarded = session.cancel?.force ?? false;
      session.restarted_as = record.data.restarted_as ?? null;
      forget(session);
      session.cuts.clear();
      session.unreached = record.data.unreached;
      break;
    case "session.halted":
      session.halted_from = before;
      session.halted_by = record.data.by;
      session.halted_why = record.data.reason;
      session.halted_at = at;
      session.halted_switch = record.data.switch ?? "";
      break;
    case "session.halt_lifted": session.halted_from = null; break;
    case "session.completed": session.result = record.data.result; session.calls.clear(); session.cuts.clear(); session.deferred = null; break;
    case "session.failed": session.failure = { ...record.data }; session.pause = session.deferred = null; break;
    case "intervention.made": session.interventions += 1; break;
    case "intervention.labelled": session.labels = { ...session.labels, [record.data.about]: record.data.verdict }; break;
    case "session.rated": session.score = record.data.score; break;
    case "session.erased":
      session.erased_at = at;
      session.children.clear();
      session.child_asks = [];
      session.queue = [];
      break;
    case "plan.changed": session.plan = record.data.items; break;
    case "report.made":
      session.progress = record.data.progress ?? session.progress;
      session.hypothesis = record.data.hypothesis || session.hypothesis;
      break;
    default: break;
  }
}

function forget(session: Session): void {
  session.calls.clear();
  session.children.clear();
  session.child_asks = [];
  session.unreached = [];
}

function end(session: Session, spent: { step: string; cost: number; tokens: number; free: boolean }, isFailed = false): void {
  // Nothing is no answer to what a model cost, here or in a child. What failed may be free.
  const counted = session.calls.get(spent.step)?.spent ?? 0;
  const isKnown = spent.cost > 0 || spent.free;
  if (!isKnown && !counted && (spent.tokens > 0 || (session.calls.get(spent.step)?.kind === "model" && !isFailed))) session.unpriced += 1;
  session.calls.delete(spent.step);
  if (isKnown) session.cost = Math.max(0, session.cost + spent.cost - counted);
  session.tokens += spent.tokens;
}

function revise(session: Session, step: string, by: (call: OpenCall) => OpenCall | null): void {
  const call = session.calls.get(step);
  if (!call) return;
  const after = by(call);
  if (after) session.calls.set(step, after);
  else session.calls.delete(step);
}

/** The child of `step`, if it had one, has ended: it has nothing to ask any more, nor have its own children. */
function childless(session: Session, step: string): void {
  const gone = session.children.get(step);
  if (gone === undefined) return;
  session.children.delete(step);
  session.child_asks = session.child_asks.filter((ask) => !`${ask.child}.`.startsWith(`${gone}.`));
}

/** A message that nobody has acted on yet is said otherwise, or (null) not at all. */
function amend(session: Session, id: string, text: string | null): void {
  if (session.queue.some((one) => one.id === id)) {
    session.queue = text === null
      ? session.queue.filter((one) => one.id !== id)
      : session.queue.map((one) => (one.id === id ? { ...one, text } : one));
    return;
  }
  const index = Number(id.replace("msg_", "")) - 1;
  session.messages = session.messages.map((one, place) =>
    place !== index ? one : text === null ? { ...one, withdrawn: true } : { ...one, text });
  if (text !== null) return;
  const isWithdrawn = (place: number): boolean => session.messages[place]?.withdrawn ?? false;
  for (const [step, call] of session.calls) session.calls.set(step, calls.unredirected(call, index, isWithdrawn));
}

function openTurn(session: Session, record: RecordOf<"session.turn_opened">): void {
  const { text, level, by, repeats, queued } = record.data;
  const first = session.messages.length - repeats;
  const said = repeats === 0 ? session.messages : [
    ...session.messages.slice(0, first),
    ...session.messages.slice(first, -1).map((one) => ({ ...one, withdrawn: true })),
  ];
  session.turn += 1;
  session.messages = [...said, { text, level, turn: session.turn, by, at: record.at, withdrawn: false }];
  session.seen = session.messages.length;
  if (queued !== null) session.queue = session.queue.slice(1);
  forget(session);
  session.cuts.clear();
  session.pause = session.cancel = session.undo = session.result = session.failure = null;
  session.changes = [];
  session.hypothesis = "";
  session.receipt = [];
}

function cancel(session: Session, record: RecordOf<"session.cancel_requested">): void {
  const { by, grace, reason, undo } = record.data;
  const standing = session.cancel;
  const force = (record.data.force ?? false) || (standing?.force ?? false);
  if (!standing) {
    session.cancel = { by, since: record.at, grace, reason, undo, force };
  } else {
    const isFirmer = grace !== standing.grace;
    const left = Math.min(grace, Math.max(0, standing.since + standing.grace - record.at));
    session.cancel = { by, since: isFirmer ? record.at : standing.since, grace: isFirmer ? left : standing.grace, reason, undo, force };
  }
  session.pause = session.deferred = null;
  session.halted_from = null;
}
