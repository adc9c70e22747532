/** What the address lets through, and in which order. Pure. */

import { STATUSES, type Status } from "../../model/status";

export const ORDERS = ["needs", "newest", "elapsed", "cost", "risk"] as const;
export type Order = (typeof ORDERS)[number];

export interface Filter { status: Status[]; agent: string; class: string; tag: string; search: string; order: Order }

/** The filter is in the address; `agent:`, `class:` and `tag:` may also stand among the words. */
export function filterOf(address: URLSearchParams): Filter {
  const given = { agent: address.get("agent") ?? "", class: address.get("class") ?? "", tag: address.get("tag") ?? "" };
  const words: string[] = [];
  for (const word of (address.get("q") ?? "").trim().split(/\s+/)) {
    const [, name, value] = /^(agent|class|tag):(.+)$/.exec(word) ?? [];
    if (name && value) given[name as keyof typeof given] = value;
    else words.push(word);
  }
  const order = ORDERS.find((one) => one === address.get("sort")) ?? "needs";
  const status = address.getAll("status").filter((one): one is Status => (STATUSES as readonly string[]).includes(one));
  return { ...given, class: given.class.replaceAll(/[ -]/g, "_"), status, search: words.join(" "), order };
}

export function isFiltered(filter: Filter): boolean {
  return filter.status.length > 0 || [filter.agent, filter.class, filter.tag, filter.search].some((one) => one !== "");
}

/** The filter as somebody would say it. */
export function wordsOf(filter: Filter): string {
  const named = (["agent", "class", "tag"] as const).map((name) => filter[name] && `${name}:${filter[name]}`);
  return [filter.search, ...named, ...filter.status].filter(Boolean).join(" ");
}
