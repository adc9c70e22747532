/** A session as it happens: its journal folded as it grows, what may be done with it now, and what was pressed. */

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { ANSWERS, type Connection, CONNECTING, type Contact, withTrouble } from "../model/contact";
import type { Delta, Level, Recorded, Verdict } from "../model/events";
import { Run } from "../model/run";
import type { Session } from "../model/session";
import { ENDED } from "../model/status";
import { type Client, TurnedAway, Unreachable } from "./client";
import type { Bodies } from "./commands";
import { Outbox } from "./outbox";
import { type Frame, listen, type Listener } from "./stream";
import type { Preview, Receipt, Reply, SessionView, UndoChoice } from "./types";

/** Seconds without a word from a run, after which the server is asked whether its worker answers; and how often that is looked at. */
const SILENT = 4;
const LOOK = 1_000;
/** Milliseconds after a change in which others of it come. */
const SOON = 20;
/** Of so many looks one asks, while nothing is known to be wrong. */
const CALM = 4;
/** Milliseconds in which the server answers that, or it is doubted that it is there. */
const PROMPT = 8_000;

export class Live {
  readonly run: Run;
  readonly records: Recorded[] = [];
  /** Grows with every batch of events: read it to be drawn again. */
  readonly rev: Signal<number> = signal(0);
  readonly stream: Signal<Connection> = signal({ ...CONNECTING, since: Date.now() });
  /** What is known of the server: by the stream, and by presses that it turned away. */
  readonly connection: ReadonlySignal<Connection>;
  /** Everything that was there when we came has been read. */
  readonly isCaughtUp: Signal<boolean> = signal(false);
  readonly durability: Signal<Reply["durability"] | null> = signal(null);
  readonly receipt: Signal<Receipt | null> = signal(null);
  /** What the server knows of its worker, and the journal cannot tell. */
  readonly contact: Signal<Contact> = signal(ANSWERS);
  readonly session: ReadonlySignal<{ now: Session | null; rev: number }>;
  readonly outbox: Outbox;
  private listening: Listener | null = null;
  private refreshing = 0;
  private looking = 0;
  private looks = 0;
  private asking: Promise<void> | null = null;
  private mark = "";
  /** When text last came that is not in the journal yet. */
  private spokenAt = 0;
  private frame = 0;
  private queue: Frame[] = [];

  constructor(readonly client: Client, readonly id: string) {
    this.run = new Run(id);
    this.outbox = Outbox.of(client, id);
    this.connection = computed(() => withTrouble(this.stream.value, this.outbox.pending.value));
    this.session = computed(() => ({ now: this.run.session, rev: this.rev.value }));
  }

  get path(): string { return `/sessions/${encodeURIComponent(this.id)}`; }
  now(): number { return this.client.now(); }
  /** The time up to which the run is known to work: now, or the last sign of life of a worker that is gone or silent. */
  seenAt(): number {
    if (!this.isSilent) return this.now();
    const { state, since } = this.stream.value;
    const isLost = state === "lost" || state === "refused";
    return Math.max(this.run.session?.at ?? 0, this.contact.value.silent_since ?? 0, this.spokenAt, isLost && this.contact.value === ANSWERS ? since / 1000 + this.client.ahead : 0);
  }
  /** Whether it is not known that the run works: its worker is gone or silent, or there is no connection. */
  get isSilent(): boolean {
    const { unattended, unreachable_since, silent_since } = this.contact.value;
    return unattended || unreachable_since !== null || silent_since !== null || ["lost", "refused"].includes(this.stream.value.state);
  }

  start(): this {
    this.listening = listen(this.client, {
      path: () => `${this.path}/events?deltas=true`,
      last: () => (this.run.position ? String(this.run.position) : ""),
      hear: (frames) => this.hear(frames),
      connection: (now) => {
        this.stream.value = now;
        if (now.state === "live") { this.outbox.hurry(); this.refresh(); void this.askContact(); }
      },
    });
    this.refresh();
    void this.askContact();
    this.looking = window.setInterval(() => this.attend(), LOOK);
    return this;
  }

  stop(): void {
    this.listening?.stop();
    this.listening = null;
    clearTimeout(this.refreshing);
    clearInterval(this.looking);
    if (this.frame) cancelAnimationFrame(this.frame);
  }

  /** Fold what has come once per frame; a hidden page gets no frames, and folds at once. */
  private hear(frames: Frame[]): void {
    this.queue.push(...frames);
    if (document.hidden || this.run.position === 0) {
      cancelAnimationFrame(this.frame);
      this.fold();
    } else if (!this.frame) {
      this.frame = requestAnimationFrame(() => this.fold());
    }
  }

  private fold(): void {
    this.frame = 0;
    const frames = this.queue;
    let isCaughtUp = this.isCaughtUp.peek();
    this.queue = [];
    for (const frame of frames) {
      if (frame.event === "delta") {
        this.run.preview(JSON.parse(frame.data) as Delta);
        this.spokenAt = this.now();
        continue;
      }
      if (frame.event === "reset") { // the journal is not the one that was read: its store was restored, say
        this.run.forget();
        this.records.length = 0;
        isCaughtUp = false;
        continue;
      }
      if (frame.event === "caught_up") {
        isCaughtUp = true;
        continue;
      }
      const record = JSON.parse(frame.data) as Recorded;
      if (record.position <= this.run.position) continue;
      this.records.push(record);
      this.run.apply(record);
    }
    const session = this.run.session;
    const mark = session ? `${session.status} ${session.turn} ${session.asks.length} ${session.messages.length} ${session.seen} ${session.queue.length} ${session.undo?.done ?? ""} ${session.calls.size && session.status === "cancelling" ? session.position : ""}` : "";
    batch(() => {
      this.rev.value += 1;
      this.isCaughtUp.value = isCaughtUp;
      if (mark !== this.mark) { this.mark = mark; this.refresh(); }
      // It has decided something: what was stored may be done.
      if (this.contact.peek() !== ANSWERS) void this.askContact();
    });
  }

  /** Read the receipt of what has ended, or is about to, soon. */
  private refresh(wait = SOON): void {
    clearTimeout(this.refreshing);
    const status = this.run.session?.status;
    const wantsReceipt = status === "cancelling" || (status && ENDED.has(status));
    if (wantsReceipt) this.refreshing = window.setTimeout(() => void this.look(), wait);
    else this.receipt.value = null;
  }

  private async look(): Promise<void> {
    try {
      this.receipt.value = await this.client.get<Receipt>(`${this.path}/receipt`);
    } catch (error) {
      // The stream says that there is no connection, or that there is no such session.
      if (error instanceof Unreachable && this.listening) this.refresh(LOOK);
    }
  }

  /** A journal does not tell that nobody writes it, nor what was not decided: the server is asked, of a silent run and of one with a press on its way. */
  private attend(): void {
    const session = this.run.session;
    if (document.hidden || this.stream.value.state !== "live" || !session) return;
    const isCalm = this.contact.peek() === ANSWERS;
    if (isCalm && (ENDED.has(session.status) || this.now() - session.at < SILENT || ++this.looks % CALM)) return;
    void this.askContact();
  }

  /** Ask what is known of its worker. One question at a time; who asks while one is open waits for a fresh answer. */
  private askContact(): Promise<void> {
    const before = this.asking ?? Promise.resolve();
    const asking = before.then(async () => {
      try {
        const found = await this.client.get<Contact>(`${this.path}/contact`, { signal: AbortSignal.timeout(PROMPT) });
        const isCalm = !found.pending.length && !found.unattended && !found.unwritten && found.silent_since === null;
        this.contact.value = isCalm ? ANSWERS : found;
      } catch (error) {
        if (error instanceof Unreachable && !(error instanceof TurnedAway) && this.stream.value.state === "live") this.listening?.doubt();
      }
    }).finally(() => { if (this.asking === asking) this.asking = null; });
    this.asking = asking;
    return asking;
  }

  private async control<V extends keyof Bodies>(verb: V, body: Bodies[V], method = "POST", path = `${this.path}/${verb}`): Promise<Reply> {
    const reply = await this.outbox.send<Reply>(verb, method, path, method === "DELETE" ? undefined : body, (told) => this.until(told));
    this.durability.value = reply.durability;
    return reply;
  }

  /** Until the journal has been read as far as an answer knows it, or two seconds; what the journal cannot tell is asked for. */
  private async until(reply: Reply): Promise<void> {
    if (reply.session !== this.id) return;
    if (reply.level === "accepted" || !reply.durable) { await this.askContact(); return; }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => finish(), 2_000);
      const stop = this.rev.subscribe(() => { if (this.run.position >= reply.position) queueMicrotask(() => finish()); });
      const finish = (): void => { clearTimeout(timer); stop(); resolve(); };
    });
  }

  pause(wish: Bodies["pause"] = {}): Promise<Reply> { return this.control("pause", wish); }
  resume(pause?: string | null): Promise<Reply> { return this.control("resume", pause ? { pause } : {}); }
  redirect(text: string, level: Level, resume = false): Promise<Reply> { return this.control("redirect", { text, level, resume }); }
  cancel(undo: UndoChoice, grace?: number): Promise<Reply> { return this.control("cancel", grace === undefined ? { undo } : { undo, grace }); }
  force(): Promise<Reply> { return this.control("cancel", { grace: 0 }); }
  discard(undo: UndoChoice): Promise<Reply> { return this.control("cancel", { undo, grace: 0, force: true }); }
  undo(): Promise<Reply> { return this.control("undo", { wait: 0 }); }
  answer(value: unknown, ask: string): Promise<Reply> { return this.control("answer", { value, ask }); }
  message(text: string): Promise<Reply> { return this.control("message", { text }); }
  raise(budget: number): Promise<Reply> { return this.control("budget", { budget, resume: true }); }
  edit(message: string, text: string): Promise<Reply> { return this.control("edit", { text }, "PATCH", `${this.path}/messages/${message}`); }
  withdraw(message: string): Promise<Reply> { return this.control("withdraw", {}, "DELETE", `${this.path}/messages/${message}`); }
  // Not kept when there is no connection: no control waits behind them.
  label(about: string, verdict: Verdict): Promise<Reply> { return this.client.post<Reply>(`${this.path}/label`, { about, verdict } satisfies Bodies["label"]); }
  rate(score: number): Promise<Reply> { return this.client.post<Reply>(`${this.path}/rate`, { score } satisfies Bodies["rate"]); }
  preview(): Promise<Preview> { return this.client.get<Preview>(`${this.path}/cancel/preview`); }
  blob(digest: string): Promise<unknown> { return this.client.get(`${this.path}/blobs/${digest}`); }
  fork(at: number | null, paused: boolean): Promise<SessionView> {
    return this.outbox.send<SessionView>("fork", "POST", `${this.path}/fork`, at === null ? { paused } : { at, paused });
  }
}
