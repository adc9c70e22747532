/** The address: everything is in its query, so that one file serves every page, wherever the server is mounted. */

import { signal } from "@preact/signals";

export const address = signal(new URLSearchParams(location.search));
addEventListener("popstate", () => { address.value = new URLSearchParams(location.search); });

export function href(parts: Record<string, string | readonly string[] | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parts)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(name, one as string);
  }
  const text = query.toString().replaceAll("=&", "&").replace(/=$/, "");
  return text ? `?${text}` : location.pathname;
}

export function go(to: string, replace = false): void {
  const before = new URLSearchParams(location.search).get("run");
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  address.value = new URLSearchParams(location.search);
  if (!replace && before !== address.value.get("run")) scrollTo(0, 0);
}

/** Links within the console do not load the page again. */
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const to = link?.getAttribute("href") ?? "";
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || link.hasAttribute("download")) return;
  if (!to.startsWith("?") && to !== location.pathname) return;
  event.preventDefault();
  go(to);
});
