/** A session as it happens: its journal folded as it grows, what may be done with it now, and what was pressed. */

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Delta, Level, Recorded, Verdict } from "../model/events";
import { Run } from "../model/run";
import type { Session } from "../model/session";
import { COUNTS } from "../model/status";
import type { Client } from "./client";
import { Outbox } from "./outbox";
import { type Connection, type Frame, listen } from "./stream";
import type { Preview, Receipt, Reply, SessionPage, SessionView, UndoChoice } from "./types";

/** Seconds without a word from a run at work, after which it is asked whether anybody drives it; and how often that is looked at. */
const SILENT = 8;
const LOOK = 4_000;

export class Live {
  readonly run: Run;
  readonly records: Recorded[] = [];
  /** Grows with every batch of events: read it to be drawn again. */
  readonly rev: Signal<number> = signal(0);
  readonly connection: Signal<Connection> = signal({ state: "connecting", since: Date.now(), problem: null });
  readonly allowed: Signal<{ position: number; verbs: readonly string[] } | null> = signal(null);
  /** Everything that was there when we came has been read. */
  readonly isCaughtUp: Signal<boolean> = signal(false);
  readonly durability: Signal<Reply["durability"] | null> = signal(null);
  readonly receipt: Signal<Receipt | null> = signal(null);
  /** It is at work as far as its journal knows, and nobody drives it: its process is gone. */
  readonly isUnattended: Signal<boolean> = signal(false);
  readonly session: ReadonlySignal<{ now: Session | null; rev: number }>;
  readonly outbox: Outbox;
  private stopListening: () => void = () => {};
  private refreshing = 0;
  private attending = 0;
  private mark = "";
  private frame = 0;
  private queue: Frame[] = [];

  constructor(readonly client: Client, readonly id: string) {
    this.run = new Run(id);
    this.outbox = new Outbox(client);
    this.session = computed(() => ({ now: this.run.session, rev: this.rev.value }));
  }

  get path(): string { return `/sessions/${encodeURIComponent(this.id)}`; }
  now(): number { return this.client.now(); }

  start(): this {
    this.stopListening = listen(this.client, {
      path: () => `${this.path}/events?deltas=true`,
      last: () => (this.run.position ? String(this.run.position) : ""),
      hear: (frames) => this.hear(frames),
      connection: (now) => {
        this.connection.value = now;
        if (now.state === "live") { this.outbox.hurry(); this.refresh(); }
      },
    });
    this.refresh();
    this.attending = window.setInterval(() => void this.attend(), LOOK);
    return this;
  }

  stop(): void {
    this.stopListening();
    clearTimeout(this.refreshing);
    clearInterval(this.attending);
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
    this.queue = [];
    for (const frame of frames) {
      if (frame.event === "delta") {
        this.run.preview(JSON.parse(frame.data) as Delta);
        continue;
      }
      if (frame.event === "reset") { // the journal is not the one that was read: its store was restored, say
        this.run.forget();
        this.records.length = 0;
        this.isCaughtUp.value = false;
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
      if (mark !== this.mark) { this.mark = mark; this.refresh(); }
    });
  }

  /** Ask the server what may be done now, soon. */
  private refresh(): void {
    clearTimeout(this.refreshing);
    this.refreshing = window.setTimeout(() => void this.look(), 20);
  }

  private async look(): Promise<void> {
    try {
      const view = await this.client.get<SessionView>(this.path);
      batch(() => {
        this.allowed.value = { position: view.position, verbs: view.allowed };
        this.isCaughtUp.value = this.isCaughtUp.value || this.run.position >= view.position;
      });
      const wantsReceipt = ["cancelling", "cancelled", "completed", "failed"].includes(view.status);
      this.receipt.value = wantsReceipt ? await this.client.get<Receipt>(`${this.path}/receipt`) : null;
      if (!this.isCaughtUp.value) this.refresh();
    } catch {
      // The stream says that there is no connection, or that there is no such session.
    }
  }

  /** A journal does not tell that nobody writes it any more: of a silent run the list is asked. */
  private async attend(): Promise<void> {
    const session = this.run.session;
    if (!session || !COUNTS.has(session.status) || this.now() - session.at < SILENT) { this.isUnattended.value = false; return; }
    if (document.hidden || this.connection.value.state !== "live") return;
    const page = await this.client.get<SessionPage>(`/sessions?status=${session.status}&search=${encodeURIComponent(this.id)}&limit=50`).catch(() => null);
    this.isUnattended.value = page?.sessions.find((head) => head.id === this.id)?.unattended ?? false;
  }

  private async control(verb: string, body: object, method = "POST", path = `${this.path}/${verb}`): Promise<Reply> {
    const reply = await this.outbox.send<Reply>(verb, method, path, method === "DELETE" ? undefined : body, (told) => this.until(told));
    this.durability.value = reply.durability;
    return reply;
  }

  /** Until the journal has been read as far as an answer knows it, or two seconds. */
  private until(reply: Reply): Promise<void> {
    if (reply.session !== this.id) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => finish(), 2_000);
      const stop = this.rev.subscribe(() => { if (this.run.position >= reply.position) queueMicrotask(() => finish()); });
      const finish = (): void => { clearTimeout(timer); stop(); resolve(); };
    });
  }

  pause(wish: { reason?: string; grace?: number; lapses?: number } = {}): Promise<Reply> { return this.control("pause", wish); }
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
  label(about: string, verdict: Verdict): Promise<Reply> { return this.client.post<Reply>(`${this.path}/label`, { about, verdict }); }
  rate(score: number): Promise<Reply> { return this.client.post<Reply>(`${this.path}/rate`, { score }); }
  preview(): Promise<Preview> { return this.client.get<Preview>(`${this.path}/cancel/preview`); }
  blob(digest: string): Promise<unknown> { return this.client.get(`${this.path}/blobs/${digest}`); }
  fork(at: number | null, paused: boolean): Promise<SessionView> {
    return this.outbox.send<SessionView>("fork", "POST", `${this.path}/fork`, at === null ? { paused } : { at, paused });
  }
}
