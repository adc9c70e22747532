/** What a reader has chosen, kept in this browser. */

import { effect, signal } from "@preact/signals";

function kept<T extends string>(name: string, otherwise: T): ReturnType<typeof signal<T>> {
  let value = otherwise;
  try { value = (localStorage.getItem(`midcourse.${name}`) as T | null) ?? otherwise; } catch { /* a browser that keeps nothing */ }
  const chosen = signal<T>(value);
  effect(() => { try { localStorage.setItem(`midcourse.${name}`, chosen.value); } catch { /* the same */ } });
  return chosen;
}

export const theme = kept<"system" | "light" | "dark">("theme", "system");
export const singleKeys = kept<"on" | "off">("keys", "on");
export const readAloud = kept<"on" | "off">("aloud", "off");
export const notifies = kept<"on" | "off">("notify", "off");

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(dark.matches);
dark.addEventListener("change", () => { systemIsDark.value = dark.matches; });

export const isDark = (): boolean => (theme.value === "system" ? systemIsDark.value : theme.value === "dark");
effect(() => { document.documentElement.dataset.theme = isDark() ? "dark" : "light"; });
