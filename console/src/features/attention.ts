/** Open asks, where they are seen without looking: tab title, favicon, and notifications for those who want them. */

import { effect, signal } from "@preact/signals";
import type { Client } from "../api/client";
import type { Head, InboxAsk } from "../api/types";
import { ENDED } from "../model/status";
import { notifies } from "../ui/settings";

/** What is asked of people. */
export const waiting = signal<readonly InboxAsk[]>([]);
/** Who looks at the page. */
export const self = signal("");
/** What the page is about. */
export const title = signal("Midcourse");

/** One stream per page is enough: browsers allow six to a server. So this asks now and then. */
const OFTEN = 5_000;
const SELDOM = 20_000;

export function needsSomebody(head: Head): boolean { return head.status === "waiting" || (head.asks > 0 && !ENDED.has(head.status)); }

export function watchAsks(client: Client): void {
  const known = new Set<string>();
  let isFirst = true;
  const look = async (): Promise<void> => {
    try {
      waiting.value = await client.all<InboxAsk>("/inbox", "asks");
      for (const { session, ask, agent, goal } of waiting.value) {
        const name = `${session} ${ask}`;
        if (!known.has(name) && !isFirst) tell(session, agent, goal);
        known.add(name);
      }
      isFirst = false;
    } catch {
      // The page itself says that there is no connection.
    }
    setTimeout(() => void look(), document.hidden ? SELDOM : OFTEN);
  };
  void look();
}

function tell(id: string, agent: string, goal: string): void {
  if (notifies.value !== "on" || !document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  const note = new Notification(`${agent} waits for you`, { body: goal || id, tag: `midcourse-${id}` });
  note.onclick = () => { window.focus(); location.search = `?run=${encodeURIComponent(id)}`; };
}

effect(() => {
  const asks = waiting.value.length;
  document.title = `${asks ? `(${asks}) ` : ""}${title.value} · Midcourse`.replace("Midcourse · Midcourse", "Midcourse");
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  const wanted = asks ? "./favicon-asks.svg" : "./favicon.svg";
  if (icon && icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
});
