/** A run as the page shows it: the session's state, its story and its marks, folded record by record. Pure. */

import { childId } from "./blake2b";
import type { Delta, Recorded, RecordOf, Value } from "./events";
import { created, elapsed, evolve, type Session } from "./session";
import type { AskEntry, Begin, Entry, SaidEntry, StepEntry, StepInEntry, StopEntry } from "./story";
import { Text } from "./text";

export interface Mark { position: number; clock: number; what: "effect" | "read" | "redirect" | "pause" | "cancel" | "halt" | "ask" | "fail" | "plan"; by: string }

/** The reason of the pause that holds a run while somebody looks at what a cancel would do. */
export const CANCEL_PREVIEW = "cancel preview";

export class Run {
  session: Session | null = null;
  entries: Entry[] = [];
  marks: Mark[] = [];
  /** Steps that have begun, each counted once. */
  begun = 0;
  private steps = new Map<string, StepEntry>();
  private asks = new Map<string, AskEntry>();
  private said = new Map<string, SaidEntry>();
  private stepins = new Map<string, StepInEntry>();
  private stop: StopEntry | null = null;

  constructor(readonly id: string) {}

  /** Forget everything: it is told again from the start. */
  forget(): void { Object.assign(this, new Run(this.id)); }

  get position(): number { return this.session?.position ?? 0; }

  step(id: string): StepEntry | undefined { return this.steps.get(id); }

  /** The call an ask is about: the ask's own step is named after it. */
  asked(step: string): StepEntry | undefined {
    return this.steps.get(step.replace(/[?~]\d+$/, ""));
  }

  /** What opened an ask for review. */
  stepinFor(ask: string): StepInEntry | undefined {
    return [...this.stepins.values()].findLast((one) => one.asks === ask);
  }

  /** Fold a record in. One that is there already changes nothing. */
  apply(record: Recorded): void {
    if (record.position <= this.position) return;
    if (this.session === null) {
      if (record.type !== "session.created") return;
      this.session = created(this.id, record);
      this.said.set("msg_1", this.begin(record, said("msg_1", record.data.goal, "goal", record.data.by, 1, true)));
      return;
    }
    const seen = this.session.seen;
    evolve(this.session, record);
    this.tell(record, this.session);
    for (let place = seen; place < this.session.seen; place++) {
      const entry = this.said.get(`msg_${place + 1}`);
      if (entry && entry.seen_at === null) { entry.seen_at = record.at; entry.rev++; }
    }
  }

  /** Show a preview of streamed text. */
  preview(delta: Delta): void {
    const entry = this.steps.get(delta.step);
    if (entry?.state === "running" && entry.text.show(delta.attempt, delta.offset, delta.text)) entry.rev++;
  }

  /** An entry of the log; or a part of what a policy did, `within` which it is told. */
  private begin<T extends Begin>(record: { position: number; at: number }, own: T, within?: StepInEntry): Extract<Entry, { kind: T["kind"] }> {
    const session = this.session!;
    const item = session.plan.find((one) => one.status === "running")?.title ?? "";
    const place = { position: record.position, at: record.at, clock: elapsed(session, record.at), item, rev: 0 };
    const entry = { ...own, ...place } as unknown as Extract<Entry, { kind: T["kind"] }>;
    if (within) Object.assign(within, { [own.kind]: entry });
    else this.entries.push(entry);
    return entry;
  }

  private mark(record: { position: number; at: number }, what: Mark["what"], by = ""): void {
    this.marks.push({ position: record.position, clock: elapsed(this.session!, record.at), what, by });
  }

  private note(record: Recorded, words: string, detail = "", amber = false): void {
    this.begin(record, { kind: "note", words, detail, amber, changes: record.type === "world.changed" ? record.data.changes : [] });
  }

  private tell(record: Recorded, session: Session): void {
    switch (record.type) {
      case "step.begun": this.beginStep(record); break;
      case "step.not_begun": this.revise(record.data.step, (one) => { one.state = "not begun"; one.ended_at = record.at; }); break;
      case "segment.written": {
        const { step, attempt, offset, text } = record.data;
        this.revise(step, (one) => one.text.write(attempt, offset, text));
        break;
      }
      case "step.finished":
        this.ended(record, "finished", record.data.value, "");
        this.revise(record.data.step, (one) => { one.told_by = record.data.told_by; });
        break;
      case "step.failed": this.ended(record, "failed", null, [record.data.kind, record.data.detail].filter(Boolean).join(": ")); break;
      case "step.retrying": {
        const { kind, detail, again_at, attempts } = record.data;
        this.ended(record, "retrying", null, [kind, detail].filter(Boolean).join(": "));
        this.revise(record.data.step, (one) => { one.again_at = again_at; one.attempts = attempts; });
        break;
      }
      case "step.cut":
        this.ended(record, "aborted", null, "");
        this.revise(record.data.step, (one) => one.text.cutAt(record.data.attempt, { at: record.at, ...this.cutBy(), tokens: record.data.tokens }));
        break;
      case "step.aborted":
        this.revise(record.data.step, (one) => { one.state = record.data.asked ? "asking" : "aborted"; one.ended_at = record.at; });
        break;
      case "step.closed":
        this.revise(record.data.step, (one) => { one.state = "closed"; one.ended_at ??= record.at; one.detail = record.data.truth; });
        break;
      case "step.settled":
        this.revise(record.data.step, (one) => {
          one.detail = `${record.data.by} ${record.data.happened === false ? "said that it did not happen" : "could not say whether it happened"}`;
        });
        break;
      case "undo.begun": this.undoing(record.data.step, record.data.key, "running", ""); break;
      case "undo.ended":
        this.undoing(record.data.step, record.data.key, record.data.lost ? "lost" : record.data.error ? "failed" : "done", record.data.error);
        break;
      case "session.taken":
        for (const step of record.data.lost) this.revise(step, (one) => { one.state = "lost"; one.ended_at = record.at; });
        if (record.data.lost.length) this.note(record, "Another worker took over", `in flight then, and lost: ${record.data.lost.map((step) => this.steps.get(step)?.name ?? step).join(", ")}`, true);
        break;
      case "session.redirected": {
        const id = `msg_${session.messages.length}`;
        // What a policy says to the agent is told with its decision.
        const asking = this.stepinOf((one) => one.by === record.data.by && one.said === null);
        this.said.set(id, this.begin(record, said(id, record.data.text, record.data.level, record.data.by, session.turn, false), asking));
        this.mark(record, asking ? "plan" : "redirect", record.data.by);
        break;
      }
      case "session.turn_opened": {
        const id = `msg_${session.messages.length}`;
        this.said.set(id, this.begin(record, { ...said(id, record.data.text, record.data.level, record.data.by, session.turn, true), seen_at: record.at }));
        this.mark(record, "redirect", record.data.by);
        break;
      }
      case "message.queued":
        this.said.set(record.data.message, this.begin(record, { ...said(record.data.message, record.data.text, "goal", record.data.by, session.turn, false), queued: true }));
        break;
      case "message.edited":
        this.amend(record.data.message, (one) => { one.edited ||= one.text; one.text = record.data.text; });
        break;
      case "message.withdrawn": this.amend(record.data.message, (one) => { one.withdrawn = true; }); break;
      case "ask.opened": {
        const { ask, step, reason, prompt } = record.data;
        const reviewing = this.stepinOf((one) => one.asks === ask);
        this.asks.set(ask, this.begin(record, { kind: "ask", ask, step, reason, prompt, end: "", by: "", value: null, ended_at: null }, reviewing));
        if (!reviewing) this.mark(record, "ask");
        break;
      }
      case "ask.answered": this.answered(record.data.ask, "answered", record.data.by, record.data.value, record.at); break;
      case "ask.closed": this.answered(record.data.ask, record.data.end, "", null, record.at); break;
      case "child.asked": this.note(record, `A child asks: ${record.data.prompt}`, record.data.child, true); break;
      default: this.tellOfStops(record, session);
    }
  }

  private tellOfStops(record: Recorded, session: Session): void {
    switch (record.type) {
      case "session.pause_requested": {
        const { by, reason, lapses } = record.data;
        if (this.stop?.what === "pause") {
          this.halting((one) => { one.reason = reason || one.reason; one.lapses = lapses ?? null; });
          break;
        }
        const policy = this.stepinOf((one) => one.pause === record.data.pause);
        this.stop = this.begin(record, { ...stopped("pause", by, reason), lapses: lapses ?? null }, policy);
        this.mark(record, policy?.decision.level === "ask" ? "ask" : "pause", by);
        break;
      }
      case "session.pause_lifted": this.note(record, "One of two pauses was lifted", `by ${record.data.by}; the other remains`); break;
      case "session.paused":
        this.halting((one) => { one.stopped_at = record.at; one.unknown = record.data.unknown; one.unreached = record.data.unreached; });
        break;
      case "session.resumed":
        if (this.stop) this.halting((one) => { one.lifted_at = record.at; one.lifted_by = record.data.by; });
        else this.note(record, "Tried again", `by ${record.data.by}`);
        this.stop = null;
        break;
      case "stop.deferred": {
        const { stop, by, reason } = record.data;
        this.note(record, `${stop === "pause" ? "Pausing" : "Cancelling"}, finishes first`, `${by} wants to ${stop} it${reason ? `: ${reason}` : ""}; it is protected`);
        break;
      }
      case "stop.taken_back": this.note(record, "The stop was withdrawn", `by ${record.data.by}`); break;
      case "session.cancel_requested":
        if (this.stop?.what === "cancel") { this.halting((one) => { one.undo = record.data.undo; }); break; }
        this.stop = this.begin(record, { ...stopped("cancel", record.data.by, record.data.reason), undo: record.data.undo });
        this.mark(record, "cancel", record.data.by);
        break;
      case "session.halted":
        this.stop = this.begin(record, stopped("halt", record.data.by, record.data.reason));
        this.mark(record, "halt", record.data.by);
        break;
      case "session.halt_lifted":
        this.halting((one) => { one.lifted_at = record.at; one.lifted_by = record.data.by; });
        this.stop = null;
        break;
      case "undo.requested": this.stop = this.begin(record, stopped("undo", record.data.by, record.data.reason)); break;
      case "session.cancelled": case "undo.finished":
        this.halting((one) => { one.stopped_at = record.at; });
        this.stop = null;
        this.begin(record, ended(record.type === "session.cancelled" ? "cancelled" : "undone", null, "", "", record.data.receipt));
        break;
      case "session.completed": this.begin(record, ended("completed", record.data.result)); break;
      case "session.failed":
        this.begin(record, ended("failed", null, record.data.code, record.data.message));
        this.mark(record, "fail");
        this.stop = null;
        break;
      default: this.tellTheRest(record, session);
    }
  }

  private tellTheRest(record: Recorded, session: Session): void {
    switch (record.type) {
      case "intervention.made": {
        const { intervention: id, by, decision, pause, ask: asks } = record.data;
        this.stepins.set(id, this.begin(record, { kind: "stepin", id, by, decision, pause, asks, verdict: "", judged_by: "", said: null, ask: null, stop: null }));
        break;
      }
      case "intervention.labelled": {
        const { about, verdict, by } = record.data;
        const entry = this.stepins.get(about);
        if (entry) Object.assign(entry, { verdict, judged_by: by, rev: entry.rev + 1 });
        else this.note(record, `Labelled ${about} ${verdict}`, `by ${by}`);
        break;
      }
      case "session.forked": this.note(record, "A separate session from here on", `forked from ${session.forked_from}`); break;
      case "world.changed": this.note(record, "Something it uses has changed", "", true); break;
      case "budget.raised": this.note(record, `Cap raised to $${record.data.budget}`, `by ${record.data.by}`); break;
      case "agent.changed": this.note(record, "Continues with another version of its agent", `${record.data.before} → ${record.data.now}`); break;
      case "agent.silent": this.note(record, `The agent's code has reported nothing for ${Math.round(record.data.seconds)} s`, record.data.advice, true); break;
      case "agent.blocked": this.note(record, `The agent's code blocked its event loop for ${record.data.seconds.toFixed(1)} s`, `${record.data.where} · ${record.data.advice}`, true); break;
      case "tools.needed": this.note(record, `Its undo waits for ${record.data.tools.join(", ")}`, "The process that runs it does not have this tool. It continues when a process that has it takes over.", true); break;
      case "report.made": {
        const { message, hypothesis, artifact, documentation } = record.data;
        if (hypothesis) this.note(record, "Hypothesis", hypothesis);
        if (artifact) this.note(record, "Made", documentation ? `${artifact}: ${documentation}` : artifact);
        if (message) this.note(record, "Reports", message);
        break;
      }
      case "hold.taken": this.note(record, `Holds ${record.data.name}`, "until it ends or releases it"); break;
      case "hold.released": this.note(record, record.data.error ? `Could not release ${record.data.name}` : `Released ${record.data.name}`, record.data.error, record.data.error !== ""); break;
      default: break;
    }
  }

  private beginStep(record: RecordOf<"step.begun">): void {
    const { data, at } = record;
    const again = this.steps.get(data.step);
    if (again) {
      const changes = { attempt: data.attempt, state: "running", begun_at: at, ended_at: null, detail: "", undo: "", key: data.key } as const;
      if (again.of !== "model" || again.text.length === 0 || this.entries[this.entries.length - 1] === again) {
        Object.assign(again, changes);
        again.rev++;
        return;
      }
      again.until = data.attempt - 1;
      again.rev++;
      const { position: _, at: __, clock: ___, item: ____, rev: _____, ...own } = again;
      this.steps.set(data.step, this.begin(record, { ...own, ...changes, from: data.attempt, until: null, earlier: again }));
      return;
    }
    this.begun += 1;
    const entry = this.begin(record, {
      kind: "step", step: data.step, name: data.name, of: data.kind, number: this.begun, arguments: data.arguments, effect: data.effect,
      attempt: data.attempt, state: "running", begun_at: at, ended_at: null, value: null, detail: "", told_by: "",
      child: data.kind === "child" ? childId(this.id, data.step) : "", text: new Text(), tokens: 0, cost: 0, undo: "", can_undo: data.can_undo, key: data.key,
      from: data.attempt, until: null, earlier: null, again_at: 0, attempts: 0,
    });
    this.steps.set(data.step, entry);
    if (data.kind !== "model") this.mark(record, data.effect === "read" ? "read" : "effect");
  }

  private ended(record: RecordOf<"step.finished"> | RecordOf<"step.failed"> | RecordOf<"step.retrying"> | RecordOf<"step.cut">, state: StepEntry["state"], value: Value | null, detail: string): void {
    this.revise(record.data.step, (one) => {
      one.state = state;
      one.ended_at = record.at;
      one.value = value;
      one.detail = detail;
      one.tokens += record.data.tokens;
      one.cost += record.data.cost;
      one.text.preview = [];
    });
  }

  private cutBy(): { by: string; what: string } {
    if (this.stop) return { by: this.stop.by, what: this.stop.reason === CANCEL_PREVIEW ? CANCEL_PREVIEW : this.stop.what };
    return { by: this.session?.messages.at(-1)?.by ?? "", what: "redirect" };
  }

  /** The last time that somebody stepped in, if it is that one. */
  private stepinOf(isIt: (entry: StepInEntry) => boolean): StepInEntry | undefined {
    const last = this.session && this.stepins.get(`int_${this.session.interventions}`);
    return last && isIt(last) ? last : undefined;
  }

  private revise(step: string, by: (entry: StepEntry) => void): void {
    const entry = this.steps.get(step);
    if (!entry) return;
    by(entry);
    // What was told before shares its text, and may have been superseded.
    for (let one: StepEntry | null = entry; one; one = one.earlier) one.rev++;
  }

  private undoing(step: string, key: string, undo: StepEntry["undo"], error: string): void {
    this.revise(step, (one) => {
      if (one.key !== key) return;
      one.undo = undo;
      if (error) one.detail = error;
    });
  }

  private answered(ask: string, end: string, by: string, value: Value | null, at: number): void {
    const entry = this.asks.get(ask);
    if (entry) Object.assign(entry, { end, by, value, ended_at: at, rev: entry.rev + 1 });
  }

  private amend(id: string, by: (entry: SaidEntry) => void): void {
    const entry = this.said.get(id);
    if (!entry) return;
    by(entry);
    entry.rev++;
  }

  private halting(by: (entry: StopEntry) => void): void {
    if (!this.stop) return;
    by(this.stop);
    this.stop.rev++;
  }
}

function said(id: string, text: string, level: SaidEntry["level"], by: string, turn: number, opens: boolean): Begin & { kind: "said" } {
  return { kind: "said", id, text, level, by, turn, opens, queued: false, withdrawn: false, edited: "", seen_at: null };
}

function stopped(what: StopEntry["what"], by: string, reason: string): Begin & { kind: "stop" } {
  return { kind: "stop", what, by, reason, stopped_at: null, lifted_at: null, lifted_by: "", lapses: null, undo: null, unknown: [], unreached: [] };
}

function ended(how: "completed" | "failed" | "cancelled" | "undone", value: Value | null = null, code = "", message = "", receipt: import("./events").ReceiptLine[] = []): Begin & { kind: "end" } {
  return { kind: "end", how, value, code, message, receipt };
}

/** The run as it was at a position. */
export function runAt(id: string, records: readonly Recorded[], position: number): Run {
  const run = new Run(id);
  for (const record of records) {
    if (record.position > position) break;
    run.apply(record);
  }
  return run;
}
