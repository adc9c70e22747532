/** What waits for people, as it changes: told by the server, or asked for where it does not stream. */

import { type Signal, signal } from "@preact/signals";
import { type Client, Refusal } from "../../api/client";
import { type Connection, type Frame, listen, NOT_A_STREAM } from "../../api/stream";
import type { Alarm, Batch, Inbox, InboxAsk } from "../../api/types";
import { waiting } from "../attention";

const POLL = 2_000;

/** As owners are named: with the tenant, where there is one. */
export const myName = (me: { name: string; tenant?: string | null }): string => (me.tenant ? `${me.tenant}~${me.name}` : me.name);

export const keyOf = (ask: { session: string; ask: string }): string => `${ask.session}/${ask.ask}`;

export class Inboxed {
  readonly now: Signal<Inbox | null> = signal(null);
  readonly connection: Signal<Connection> = signal({ state: "connecting", since: Date.now(), problem: null });
  private stopListening: () => void = () => {};
  private polling = 0;
  private isFirst = true;

  constructor(readonly client: Client) {}

  start(): this {
    this.stopListening = listen(this.client, {
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
    return this;
  }

  stop(): void {
    this.stopListening();
    clearTimeout(this.polling);
  }

  /** What one has just done is seen at once. */
  async look(): Promise<void> {
    try { this.take(await this.client.get<Inbox>("/inbox")); } catch { /* The stream tells of it. */ }
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
      this.take(await this.client.get<Inbox>("/inbox"));
      if (this.connection.value.state !== "live") this.connection.value = { state: "live", since: Date.now(), problem: null };
    } catch (error) {
      const problem = error instanceof Refusal ? error.problem : null;
      const state = problem ? "refused" : "lost";
      if (this.connection.value.state !== state) this.connection.value = { state, since: Date.now(), problem };
      if (problem) return;
    }
    this.polling = window.setTimeout(() => void this.poll(), POLL);
  }
}

function merged(known: readonly InboxAsk[], told: readonly InboxAsk[], gone: readonly string[]): InboxAsk[] {
  const all = new Map(known.map((ask) => [keyOf(ask), ask]));
  for (const key of gone) all.delete(key);
  for (const ask of told) all.set(keyOf(ask), ask);
  return [...all.values()].sort((one, other) => dueAt(one) - dueAt(other) || one.opened_at - other.opened_at || (keyOf(one) < keyOf(other) ? -1 : 1));
}

/** By when somebody must have answered: the deadline, or what the policy wants. */
export function dueAt(ask: InboxAsk): number { return ask.deadline === null ? ask.respond_by : Math.min(ask.deadline, ask.respond_by); }

/** Alarms of one cause. */
export interface Group { cause: string; level: string; alarms: Alarm[]; sessions: number; at: number }

/** What can wait, grouped by its cause, newest first. What is asked above is not told a second time. */
export function grouped(batches: readonly Batch[], asks: readonly InboxAsk[]): Group[] {
  const asked = new Set(asks.map(keyOf));
  const groups = new Map<string, Alarm[]>();
  for (const alarm of batches.flatMap((batch) => batch.alarms)) {
    if (alarm.ask && asked.has(keyOf({ session: alarm.session, ask: alarm.ask }))) continue;
    const cause = alarm.signals?.[0] ?? "";
    groups.set(cause, [...(groups.get(cause) ?? []), alarm]);
  }
  return [...groups].map(([cause, alarms]) => {
    const sorted = alarms.sort((one, other) => other.at - one.at);
    return { cause, level: sorted.some((one) => (one.level ?? "notify") !== "notify") ? "interrupted" : "notify", alarms: sorted, sessions: new Set(sorted.map((one) => one.session)).size, at: sorted[0]!.at };
  }).sort((one, other) => other.at - one.at);
}

/** researcher ×3, churn-memo. */
export function agentsOf(alarms: readonly Alarm[]): string {
  const counts = new Map<string, number>();
  for (const alarm of alarms) counts.set(alarm.agent ?? "", (counts.get(alarm.agent ?? "") ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]).map(([name, number]) => (number > 1 ? `${name} ×${number}` : name)).join(", ");
}
