/** Presses: each is sent once, kept while nobody answers, and sent again with the same key, in its order. */

import { signal, type Signal } from "@preact/signals";
import { type Client, freshKey, Refusal, Unreachable } from "./client";

export interface Press { verb: string; since: number; /** Nobody has answered yet, and it was tried. */ isKept: boolean }

export class Outbox {
  /** What was pressed and is not answered. */
  readonly pending: Signal<readonly Press[]> = signal([]);
  private last: Promise<unknown> = Promise.resolve();
  private wake: () => void = () => {};

  constructor(private readonly client: Client) {}

  /** Send, as often as it takes. Rejects only with what the server said. */
  send<T>(verb: string, method: string, path: string, body?: unknown, seen: (answer: T) => Promise<unknown> = async () => {}): Promise<T> {
    const press: Press = { verb, since: Date.now(), isKept: false };
    const key = freshKey();
    this.pending.value = [...this.pending.value, press];
    const sent = this.last.then(() => this.until<T>(press, () => this.client.send<T>(method, path, body, { key })));
    // It counts as asked until the journal shows what was answered: the bar never falls back to what was before.
    const shown = sent.then((answer) => seen(answer));
    this.last = sent.catch(() => undefined);
    const forget = (): void => { this.pending.value = this.pending.value.filter((one) => one.since !== press.since || one.verb !== press.verb); };
    shown.then(forget, forget);
    return sent;
  }

  /** The connection is back: try at once. */
  hurry(): void { this.wake(); }

  private async until<T>(press: Press, attempt: () => Promise<T>): Promise<T> {
    for (let wait = 300; ; wait = Math.min(5_000, wait * 2)) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof Refusal && this.client.ended.value) this.client.unsent.value = [...this.client.unsent.value, press.verb];
        if (!(error instanceof Unreachable)) throw error;
        this.pending.value = this.pending.value.map((one) => (one.since === press.since && one.verb === press.verb ? { ...one, isKept: true } : one));
        await new Promise<void>((resolve) => { this.wake = resolve; setTimeout(resolve, wait); });
      }
    }
  }
}
