/** The list of sessions as it changes: the newest of a filter, and older ones page by page. */

import { type Signal, signal } from "@preact/signals";
import type { Client } from "../../api/client";
import { type Connection, type Frame, listen, NOT_A_STREAM } from "../../api/stream";
import type { Head, SessionPage } from "../../api/types";
import { STATUSES, type Status } from "../../model/status";

const PAGE = 50;
const POLL = 2_000;

export interface Filter { status: Status[]; agent: string; search: string }

export function filterOf(address: URLSearchParams): Filter {
  const status = address.getAll("status").filter((one): one is Status => (STATUSES as readonly string[]).includes(one));
  return { status, agent: address.get("agent") ?? "", search: address.get("search") ?? "" };
}

export function isFiltered(filter: Filter): boolean { return filter.status.length > 0 || filter.agent !== "" || filter.search !== ""; }

export class Fleet {
  readonly heads: Signal<Head[] | null> = signal(null);
  readonly connection: Signal<Connection> = signal({ state: "connecting", since: Date.now(), problem: null });
  /** Where older ones begin; null: there are none. */
  readonly next: Signal<string | null> = signal(null);
  private stopListening: () => void = () => {};
  private polling = 0;
  private isFirst = true;
  /** The ids of the newest page, which alone is told of. */
  private page = new Set<string>();

  constructor(private readonly client: Client, readonly filter: Filter) {}

  private get path(): string {
    const query = new URLSearchParams({ limit: String(PAGE) });
    this.filter.status.forEach((one) => query.append("status", one));
    if (this.filter.agent) query.set("agent", this.filter.agent);
    if (this.filter.search) query.set("search", this.filter.search);
    return `/sessions?${query}`;
  }

  start(): this {
    this.stopListening = listen(this.client, {
      path: () => this.path,
      last: () => "",
      hear: (frames) => frames.forEach((frame) => this.hear(frame)),
      connection: (now) => {
        if (now.problem?.code === NOT_A_STREAM) { void this.poll(); return; }
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

  async more(): Promise<void> {
    const cursor = this.next.value;
    if (cursor === null) return;
    const page = await this.client.get<SessionPage>(`${this.path}&cursor=${encodeURIComponent(cursor)}`);
    this.heads.value = merged(this.heads.value ?? [], page.sessions, []);
    this.next.value = page.next;
  }

  private hear(frame: Frame): void {
    if (frame.event !== "sessions") return;
    const told = JSON.parse(frame.data) as { sessions: Head[]; gone: string[]; next?: string | null };
    if (this.isFirst) {
      this.isFirst = false;
      this.takeFirst(told.sessions, told.next === undefined ? (told.sessions.length >= PAGE ? told.sessions.at(-1)!.id : null) : told.next);
      this.page = new Set(told.sessions.map((head) => head.id));
      return;
    }
    for (const head of told.sessions) this.page.add(head.id);
    for (const id of told.gone) this.page.delete(id);
    this.heads.value = merged(this.heads.value ?? [], told.sessions, this.left(told.gone));
  }

  /** Of those that are on the newest page no more, those that left the list: others were only moved off it by newer ones. */
  private left(gone: string[]): string[] {
    if (this.page.size < PAGE) return gone;
    const known = new Map((this.heads.value ?? []).map((head) => [head.id, head.created_at]));
    const oldest = Math.min(...[...this.page].map((id) => known.get(id) ?? Infinity));
    return gone.filter((id) => (known.get(id) ?? 0) > oldest);
  }

  /** The first page again: what had been read of older ones stays. */
  private takeFirst(first: Head[], next: string | null): void {
    const oldest = first.at(-1)?.created_at ?? Infinity;
    const known = new Set((this.heads.value ?? []).map((head) => head.id));
    // Without one that was known before, there may be others between this page and the older ones.
    const isJoined = first.some((head) => known.has(head.id));
    const older = next === null || !isJoined ? [] : (this.heads.value ?? []).filter((head) => head.created_at < oldest);
    this.heads.value = merged(older, first, []);
    if (!older.length) this.next.value = next;
  }

  private async poll(): Promise<void> {
    try {
      const page = await this.client.get<SessionPage>(this.path);
      this.takeFirst(page.sessions, page.next);
      if (this.connection.value.state !== "live") this.connection.value = { state: "live", since: Date.now(), problem: null };
    } catch (error) {
      const problem = error instanceof Error && "problem" in error ? (error.problem as Connection["problem"]) : null;
      const state = problem ? "refused" : "lost";
      if (this.connection.value.state !== state) this.connection.value = { state, since: Date.now(), problem };
      if (problem) return;
    }
    this.polling = window.setTimeout(() => void this.poll(), POLL);
  }
}

function merged(known: Head[], told: Head[], gone: string[]): Head[] {
  const all = new Map(known.map((head) => [head.id, head]));
  for (const head of told) all.set(head.id, head);
  for (const id of gone) all.delete(id);
  return [...all.values()].sort((one, other) => other.created_at - one.created_at);
}
