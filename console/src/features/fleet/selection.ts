/** Which rows are chosen, by id: a row that moves, or is not drawn, stays what it was. */

import { type Signal, signal } from "@preact/signals";
import type { Head } from "../../api/types";

export class Selection {
  readonly ids: Signal<ReadonlySet<string>> = signal(new Set());
  private anchor: string | null = null;

  constructor(private readonly rows: () => readonly Head[]) {}

  /** With `isRange`, everything from the last one that was chosen to this one. */
  toggle(id: string, isRange: boolean): void {
    const rows = this.rows();
    const [from, to] = [rows.findIndex((head) => head.id === this.anchor), rows.findIndex((head) => head.id === id)];
    const next = new Set(this.ids.value);
    if (isRange && from >= 0 && to >= 0) rows.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((head) => next.add(head.id));
    else if (!next.delete(id)) next.add(id);
    this.anchor = id;
    this.ids.value = next;
  }

  all(rows: readonly Head[]): void { this.ids.value = new Set(rows.map((head) => head.id)); }
  clear(): void { this.ids.value = new Set(); this.anchor = null; }
}
