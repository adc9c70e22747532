/** Which failures this browser's reader has seen: those that were opened, and those that a look at the failed ones showed. */

import { effect, signal } from "@preact/signals";
import type { Head } from "../../api/types";
import { address } from "../../ui/router";

const NAME = "midcourse.seen";
const MOST = 500;

interface Seen { /** Failures until then were looked at together. */ until: number; /** When others were last open. */ opened: Record<string, number> }

function kept(): Seen {
  try {
    const found = JSON.parse(localStorage.getItem(NAME) ?? "null") as Partial<Seen> | null;
    return { until: Number(found?.until) || 0, opened: typeof found?.opened === "object" && found.opened ? found.opened : {} };
  } catch { return { until: 0, opened: {} }; }
}

export const seen = signal<Seen>(kept());

function keep(next: Seen): void {
  seen.value = next;
  try { localStorage.setItem(NAME, JSON.stringify(next)); } catch { /* a browser that keeps nothing */ }
}

export function isUnseen(head: Head): boolean {
  return head.status === "failed" && head.updated_at > Math.max(seen.value.until, seen.value.opened[head.id] ?? 0);
}

export function seeAll(now: number): void { keep({ until: now, opened: {} }); }

function see(id: string): void {
  const others = Object.entries(seen.peek().opened).filter(([one]) => one !== id);
  keep({ until: seen.peek().until, opened: Object.fromEntries([...others, [id, Date.now() / 1000]].slice(-MOST)) });
}

let open: string | null = null;
// When it is opened, and when it is left: it may have failed in between, before the reader's eyes.
effect(() => {
  const run = address.value.get("run");
  for (const one of new Set([open, run])) if (one) see(one);
  open = run;
});
