/** How a press is taken: the guard of a slot whose meaning has just changed, and the single keys. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Actions } from "./actions";
import type { Slot } from "./slots";

/** --mc-guard: a slot whose meaning has just changed ignores presses for this long. */
export const GUARD = 500;

export interface Guard { watch: (index: number, meaning: string) => void; passes: (index: number, meaning: string) => boolean }

export function useGuard(): Guard {
  const known = useRef<{ meaning: string; since: number }[]>([]);
  const watch = (index: number, meaning: string): void => {
    const was = known.current[index];
    if (was?.meaning === meaning) return;
    // What is there from the beginning may be pressed at once, also in a page that is younger than the guard.
    known.current[index] = { meaning, since: was ? performance.now() : -Infinity };
  };
  return {
    watch,
    passes: (index, meaning) => {
      watch(index, meaning);
      return performance.now() - (known.current[index]?.since ?? 0) >= GUARD;
    },
  };
}

/** Single keys can be switched off; they are off while typing and with a modifier. */
export const KEYS_OFF = "midcourse.keys";
const TYPES = new Set(["text", "search", "number", "email", "password", "url", ""]);

export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return TYPES.has(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

export function areKeysOff(): boolean {
  try { return localStorage.getItem(KEYS_OFF) === "off"; } catch { return false; }
}

export function useKeys(on: EventTarget, root: RefObject<HTMLElement | null>, slots: () => readonly Slot[] | null, act: (slot: Slot, index: number) => void, actions: Actions): void {
  const latest = useRef({ slots, act });
  latest.current = { slots, act };
  // A layout effect: what can be seen hears keys.
  useLayoutEffect(() => {
    const listen = (event: Event): void => {
      if (event instanceof KeyboardEvent) press(event, root.current, latest.current.slots(), latest.current.act, actions);
    };
    on.addEventListener("keydown", listen);
    return () => on.removeEventListener("keydown", listen);
  }, [on, actions]);
}

function press(event: KeyboardEvent, root: HTMLElement | null, slots: readonly Slot[] | null, act: (slot: Slot, index: number) => void, actions: Actions): void {
  if (!slots || event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.isComposing || event.repeat) return;
  if (event.key === "Escape") {
    if (actions.tray.value === "" && actions.refusal.value === null) return;
    const index = ["preview", "undo", "force"].includes(actions.tray.value) ? 2 : 1;
    actions.close();
    root?.querySelectorAll<HTMLElement>(".slot")[index]?.focus();
    event.preventDefault();
    return;
  }
  if (isTyping(event)) return;
  if (event.key === "Enter") {
    // Confirms only with the focus in the tray, on something that Enter does not press by itself.
    const index = slots.findIndex((slot) => slot.key === "Enter");
    const target = event.composedPath()[0];
    const isInTray = target instanceof HTMLElement && target.closest(".tray") !== null && target.closest("button, a") === null;
    if (index >= 0 && isInTray) { act(slots[index]!, index); event.preventDefault(); }
    return;
  }
  if (areKeysOff() || event.shiftKey) return;
  const key = event.key.toLowerCase();
  const index = slots.findIndex((slot) => slot.key === key);
  if (index >= 0) {
    act(slots[index]!, index);
    event.preventDefault();
    return;
  }
  const asks = root?.querySelectorAll("[data-ask]").length ?? 0;
  if (asks === 1 && "axe".includes(key)) {
    const found = root?.querySelector<HTMLElement>(`[data-key="${key}"]`);
    if (found instanceof HTMLInputElement) found.focus(); else found?.click();
    if (found) event.preventDefault();
  }
}
