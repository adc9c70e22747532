/** Presses: each is sent once, kept while nothing is decided about it, and sent again with the same key, in its order. */

import { computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { droppedWords, type Press, tried } from "../model/contact";
import { type Client, freshKey, Refusal, TurnedAway, Unreachable } from "./client";

/** What became of a press that was not carried out. */
export interface Told { words: string; isCalm: boolean }
/** What to say of it; whether it was done elsewhere may be known by more than its code. */
export function toldOf(error: Error, isDone = false): Told {
  const isElsewhere = isDone || (error instanceof Refusal && ["already_resumed", "already_answered"].includes(error.code));
  return { words: isElsewhere ? `Already done elsewhere: ${error.message}` : error.message, isCalm: isElsewhere || error instanceof Dropped };
}
/** It was taken back before anything was decided about it. */
export class Dropped extends Error {
  constructor(press: Press) { super(droppedWords(press)); }
}

interface Saved { by: string; kept: Kept[] }
interface Kept { press: Press; method: string; path: string; body: unknown }

/** Milliseconds after which an answer is not waited for any more. A control answers within ten seconds. */
const PATIENCE = 30_000;
/** The outbox of presses to many sessions. */
export const BULK = "bulk";
const all = new Map<string, Outbox>();
const known: Signal<readonly Outbox[]> = signal([]);
/** Every outbox of this page that has something to say. */
export const speaking: ReadonlySignal<readonly Outbox[]> = computed(() => known.value.filter((one) => one.kept.value.length > 0 || one.told.value?.isCalm === false));

export class Outbox {
  /** What was pressed and is not answered. */
  readonly pending: Signal<readonly Press[]> = signal([]);
  /** Those that were tried in vain. */
  readonly kept: ReadonlySignal<readonly Press[]> = computed(() => this.pending.value.filter((press) => press.state !== "sending"));
  /** Why the last press was not carried out, until somebody closes it or presses again. */
  readonly told: Signal<Told | null> = signal(null);
  private last: Promise<unknown> = Promise.resolve();
  private wake: () => void = () => {};
  private isRevived = false;
  private readonly bodies = new Map<string, Kept>();

  private constructor(private readonly client: Client, readonly name: string, private readonly place: string) {}

  /** The outbox of a session, or of something else with a name: one for each as long as the page lives, so that nothing is lost on the way to another of its views. */
  static of(client: Client, name: string): Outbox {
    const place = `midcourse.presses ${client.base} ${name}`;
    const found = all.get(place) ?? new Outbox(client, name, place);
    if (!all.has(place)) {
      all.set(place, found);
      known.value = [...known.value, found];
    }
    found.revive();
    return found;
  }

  /** Send, as often as it takes. Rejects only with what the server said, or if it was dropped. */
  send<T>(verb: string, method: string, path: string, body?: unknown, seen: (answer: T) => Promise<unknown> = async () => {}): Promise<T> {
    const press: Press = { key: freshKey(), verb, since: Date.now(), state: "sending", problem: null, mayHaveArrived: false };
    return this.enter({ press, method, path, body }, seen);
  }

  /** The connection is back: try at once. */
  hurry(): void { this.wake(); }

  /** Send it no more. */
  drop(key: string): void {
    const press = this.pending.value.find((one) => one.key === key);
    if (!press) return;
    this.forget(key);
    this.told.value = { words: droppedWords(press), isCalm: true };
    this.wake();
  }

  private enter<T>(kept: Kept, seen: (answer: T) => Promise<unknown>): Promise<T> {
    const { key } = kept.press;
    this.bodies.set(key, kept);
    this.pending.value = [...this.pending.value, kept.press];
    this.save();
    const sent = this.last.then(() => this.until<T>(key, kept));
    // It counts as asked until the journal or the server's word on its worker shows what was answered: the bar never falls back to what was before.
    const shown = sent.then((answer) => { this.bodies.delete(key); this.save(); return seen(answer); });
    this.last = sent.catch(() => undefined);
    shown.then(() => this.forget(key), () => this.forget(key));
    return sent;
  }

  private forget(key: string): void {
    this.bodies.delete(key);
    this.pending.value = this.pending.value.filter((one) => one.key !== key);
    this.save();
  }

  private async until<T>(key: string, { press, method, path, body }: Kept): Promise<T> {
    let known = press;
    for (let wait = 300; ; wait = Math.min(5_000, wait * 2)) {
      if (!this.bodies.has(key)) throw new Dropped(known);
      const isOnline = navigator.onLine;
      try {
        return await this.client.send<T>(method, path, body, { key, signal: AbortSignal.timeout(PATIENCE) });
      } catch (error) {
        if (error instanceof Refusal && this.client.ended.value) this.client.unsent.value = [...this.client.unsent.value, known];
        if (!(error instanceof Unreachable)) throw error;
        const failure = error instanceof TurnedAway ? { what: "turned away", problem: error.problem } as const : { what: "unanswered", isOnline: isOnline && navigator.onLine } as const;
        known = tried(known, failure);
        this.pending.value = this.pending.value.map((one) => (one.key === key ? known : one));
        this.save();
        if (!this.bodies.has(key)) continue;
        await new Promise<void>((resolve) => { this.wake = resolve; setTimeout(resolve, wait); });
      }
    }
  }

  /** What is undecided outlives a reload of the page in this tab. Nothing else is written there. */
  private save(): void {
    const kept = [...this.bodies.values()].map((one) => ({ ...one, press: this.pending.value.find((press) => press.key === one.press.key) ?? one.press }));
    try {
      if (kept.length) sessionStorage.setItem(this.place, JSON.stringify({ by: this.client.identity, kept } satisfies Saved));
      else sessionStorage.removeItem(this.place);
    } catch { /* Without storage it lives as long as the page; leaving it asks first. */ }
    warn();
  }

  /** What a page before this one had kept goes on being sent, with its key: once it is known that the same person presses. */
  revive(): void {
    if (this.isRevived || this.client.identity === "") return;
    this.isRevived = true;
    let saved: Saved | null = null;
    try { saved = JSON.parse(sessionStorage.getItem(this.place) ?? "null") as Saved | null; } catch { /* none */ }
    if (!saved) return;
    if (saved.by !== this.client.identity) {
      this.told.value = { words: `${saved.kept.map((one) => droppedWords(one.press)).join(" ")} It was pressed by ${saved.by || "another user"}.`, isCalm: false };
      this.save();
      return;
    }
    for (const kept of saved.kept) {
      const press = { ...kept.press, mayHaveArrived: true };
      this.enter<unknown>({ ...kept, press }, async () => {}).catch((error: Error) => { this.told.value = toldOf(error); });
    }
  }
}

/** The outboxes that a page before this one has left in this tab go on sending, whichever page is open. */
export function reviveAll(client: Client): void {
  const begins = `midcourse.presses ${client.base} `;
  try {
    for (const place of Object.keys(sessionStorage)) if (place.startsWith(begins)) Outbox.of(client, place.slice(begins.length));
  } catch { /* none */ }
}

let isWarning = false;
const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
/** Closing the tab would lose what is not sent: the browser asks first. */
function warn(): void {
  const isUnsent = known.peek().some((one) => one.kept.peek().length > 0);
  if (isUnsent === isWarning) return;
  isWarning = isUnsent;
  if (isUnsent) addEventListener("beforeunload", ask); else removeEventListener("beforeunload", ask);
}
