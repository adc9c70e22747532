/** The fleet as it changes: everything that the filter lets through, live; where each stands is told apart here. */

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Client } from "../../api/client";
import { type Frame, listen } from "../../api/stream";
import type { Head } from "../../api/types";
import { type Connection, CONNECTING } from "../../model/contact";
import type { Status } from "../../model/status";
import { needsSomebody } from "../attention";
import type { Filter, Order } from "./filter";
import { isUnseen, seen } from "./seen";

/** The newest that are followed. */
export const MOST = 10_000;
/** Milliseconds after the pointer moved over the rows in which none of them changes its place. */
const HELD = 1_500;

/** Seconds it has worked by now; null: it is older than the counting. */
export function workedOf(head: Head, now: number): number | null {
  if (head.worked === 0 && head.working_since === null && head.finished_steps > 0) return null;
  // Of a worker that is gone or does not answer it is not known that it works, whatever its journal says last.
  const seenAt = head.unattended || isSilent(head) ? Math.max(head.updated_at, head.silent_since ?? 0) : now;
  return head.worked + (head.working_since === null ? 0 : Math.max(0, seenAt - head.working_since));
}

/** Its worker lives, and does not answer. */
export function isSilent(head: Head): boolean { return head.unreachable_since !== null || head.silent_since !== null; }

/** What needs a person comes first: a question, a halt, a run that nobody drives, a failure nobody has seen, a stop that is not finished. */
export function urgency(head: Head): number {
  if (needsSomebody(head)) return 0;
  if (head.status === "halted" || head.unattended || isSilent(head)) return 1;
  if (isUnseen(head)) return 2;
  return head.status === "pausing" || head.status === "cancelling" ? 3 : 4;
}

export function sorted(heads: Iterable<Head>, order: Order, now: number): Head[] {
  const rank = (head: Head): number => {
    if (order === "needs") return urgency(head);
    if (order === "elapsed") return -(workedOf(head, now) ?? -1);
    if (order === "cost") return -head.cost;
    return order === "risk" ? -(head.risk ?? -1) : 0;
  };
  return [...heads].map((head) => ({ head, rank: rank(head) }))
    .sort((one, other) => one.rank - other.rank || other.head.created_at - one.head.created_at || (one.head.id < other.head.id ? 1 : -1))
    .map(({ head }) => head);
}

export class Fleet {
  /** Every session of the stream, by its id; null: nothing has come yet. */
  readonly heads: Signal<ReadonlyMap<string, Head> | null> = signal(null);
  readonly counts: Signal<Partial<Record<Status, number>>> = signal({});
  readonly connection: Signal<Connection> = signal({ ...CONNECTING, since: Date.now() });
  readonly filter: Signal<Filter>;
  /** Those that are shown, in their order. */
  readonly rows: ReadonlySignal<Head[] | null>;
  private readonly held = signal(false);
  private holding = 0;
  private last: string[] = [];
  private stopListening: () => void = () => {};

  constructor(private readonly client: Client, filter: Filter) {
    this.filter = signal(filter);
    this.rows = computed(() => this.arranged());
  }

  private get path(): string {
    const { agent, class: task_class, tag, search } = this.filter.peek();
    const query = new URLSearchParams({ limit: String(MOST) });
    for (const [name, value] of Object.entries({ agent, task_class, label: tag, search })) if (value) query.set(name, value);
    return `/sessions?${query}`;
  }

  start(): this {
    const listening = listen(this.client, {
      path: () => this.path,
      last: () => "",
      hear: (frames) => batch(() => frames.forEach((frame) => this.hear(frame))),
      connection: (now) => { this.connection.value = now; },
    });
    this.stopListening = listening.stop;
    return this;
  }

  stop(): void {
    this.stopListening();
    clearTimeout(this.holding);
  }

  /** Somebody is about to press a row: it does not move from under the pointer. */
  hold(): void {
    this.held.value = true;
    clearTimeout(this.holding);
    this.holding = window.setTimeout(() => this.release(), HELD);
  }

  release(): void {
    clearTimeout(this.holding);
    this.held.value = false;
  }

  private arranged(): Head[] | null {
    const heads = this.heads.value;
    if (heads === null) return null;
    const { status, order } = this.filter.value;
    void seen.value;
    const wanted = [...heads.values()].filter((head) => !status.length || status.includes(head.status));
    let rows = sorted(wanted, order, this.client.now());
    if (this.held.value) {
      // Those that are shown keep their places; whatever is new stands below them.
      const place = new Map(this.last.map((id, index) => [id, index]));
      rows = rows.map((head, index) => ({ head, at: place.get(head.id) ?? place.size + index })).sort((one, other) => one.at - other.at).map(({ head }) => head);
    }
    this.last = rows.map((head) => head.id);
    return rows;
  }

  private hear(frame: Frame): void {
    if (frame.event !== "sessions") return;
    const told = JSON.parse(frame.data) as { sessions: Head[]; gone: string[]; all?: boolean; counts?: Partial<Record<Status, number>> };
    const heads = new Map(told.all ? [] : this.heads.peek());
    for (const head of told.sessions) heads.set(head.id, head);
    for (const id of told.gone) heads.delete(id);
    this.heads.value = heads;
    if (told.counts) this.counts.value = told.counts;
  }
}
