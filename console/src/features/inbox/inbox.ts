/** What waits for people, as it changes: told by the server, or asked for where it does not stream. */

import { type Signal, signal } from "@preact/signals";
import { type Client, heardOf, Refusal } from "../../api/client";
import { type Frame, listen, NOT_A_STREAM } from "../../api/stream";
import type { Inbox, InboxAsk } from "../../api/types";
import { after, type Connection, CONNECTING } from "../../model/contact";
import { waiting } from "../attention";
import { merged } from "./grouping";

const POLL = 2_000;

export class Inboxed {
  readonly now: Signal<Inbox | null> = signal(null);
  readonly connection: Signal<Connection> = signal({ ...CONNECTING, since: Date.now() });
  private stopListening: () => void = () => {};
  private polling = 0;
  private isFirst = true;

  constructor(readonly client: Client) {}

  start(): this {
    const listening = listen(this.client, {
      path: () => "/inbox",
      last: () => "",
      hear: (frames) => frames.forEach((frame) => this.hear(frame)),
      connection: (now) => {
        if (now.problem?.code === NOT_A_STREAM) { void this.poll(); return; }
        // The first thing that is told on a new line is all of it.
        this.isFirst = now.state === "live" || this.isFirst;
        this.connection.value = now;
      },
    });
    this.stopListening = listening.stop;
    return this;
  }

  stop(): void {
    this.stopListening();
    clearTimeout(this.polling);
  }

  /** What one has just done is seen at once. */
  async look(): Promise<void> {
    try { this.take(await this.whole()); } catch { /* The stream tells of it. */ }
  }

  private async whole(): Promise<Inbox> {
    const asks = await this.client.all<InboxAsk>("/inbox", "asks");
    return { ...await this.client.get<Inbox>("/inbox?limit=1"), asks };
  }

  private take(inbox: Inbox): void {
    this.now.value = inbox;
    waiting.value = inbox.asks;
  }

  private hear(frame: Frame): void {
    if (frame.event !== "inbox") return;
    const told = JSON.parse(frame.data) as Inbox & { gone: string[] };
    const before = this.isFirst ? [] : this.now.value?.asks ?? [];
    this.isFirst = false;
    this.take({ ...told, asks: merged(before, told.asks, told.gone) });
  }

  private async poll(): Promise<void> {
    try {
      this.take(await this.whole());
      this.connection.value = after(this.connection.value, { what: "opened" }, Date.now());
    } catch (error) {
      this.connection.value = after(this.connection.value, heardOf(error as Error), Date.now());
      if (error instanceof Refusal) return;
    }
    this.polling = window.setTimeout(() => void this.poll(), POLL);
  }
}
