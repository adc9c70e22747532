/** The page key of a browser session, kept by this origin: a host's cookies go to each of its ports, and this does not. */

import { signal } from "@preact/signals";

/** What a browser that keeps nothing has until the page is loaded again. */
const held = signal<Record<string, string>>({});

export function nameOf(base: string): string { return `midcourse.page:${new URL(base).pathname}`; }

export function pageKey(base: string): string {
  try { return localStorage.getItem(nameOf(base)) ?? ""; } catch { return held.peek()[base] ?? ""; }
}

export function keepPageKey(base: string, key: string): void {
  held.value = { ...held.peek(), [base]: key };
  keep(nameOf(base), key);
}

function keep(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch { /* a browser that keeps nothing */ }
}
