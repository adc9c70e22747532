/** The inbox put in order: asks by when they are due, alarms by their cause. Pure. */

import type { Alarm, Batch, InboxAsk } from "../../api/types";

/** As owners are named: with the tenant, where there is one. */
export const myName = (me: { name: string; tenant?: string | null }): string => (me.tenant ? `${me.tenant}~${me.name}` : me.name);

export const keyOf = (ask: { session: string; ask: string }): string => `${ask.session}/${ask.ask}`;

/** What is known, with what has changed of it. */
export function merged(known: readonly InboxAsk[], told: readonly InboxAsk[], gone: readonly string[]): InboxAsk[] {
  const all = new Map(known.map((ask) => [keyOf(ask), ask]));
  for (const key of gone) all.delete(key);
  for (const ask of told) all.set(keyOf(ask), ask);
  return [...all.values()].sort((one, other) => dueAt(one) - dueAt(other) || one.opened_at - other.opened_at || (keyOf(one) < keyOf(other) ? -1 : 1));
}

/** The next thing that happens if nobody answers: it is escalated, or can no longer be answered. As InboxAsk.due_at in core/inbox.py. */
export function dueAt(ask: InboxAsk): number { return ask.deadline === null ? ask.respond_by : Math.min(ask.deadline, ask.respond_by); }

/** The same in words, before and after the time. Every place that shows a clock beside an ask takes its words from here. */
export function dueWords(ask: InboxAsk): { left: string; over: string; title: string } {
  return ask.deadline === dueAt(ask)
    ? { left: "answer within ", over: "overdue since ", title: "can be answered until " }
    : { left: "escalated in ", over: "answer late by ", title: "escalated at " };
}

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
