/** Which rows of a long list are drawn: those in sight, and some around them. The page itself scrolls. */

import { type RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

const AROUND = 10;
/** The rows of the table, and the cards they become on a phone: tokens of page.css. */
const ROW = 44;
const CARD = 92;
const narrow = matchMedia("(max-width: 720px)");

export interface Sight { first: number; last: number; height: number }

/** `body` is where the rows begin. */
export function useSight(body: RefObject<HTMLElement | null>, total: number): Sight {
  const [sight, set] = useState<Sight>(() => seen(null, total));
  useEffect(() => {
    let frame = 0;
    const look = (): void => {
      frame = 0;
      const next = seen(body.current, total);
      set((was) => (was.first === next.first && was.last === next.last && was.height === next.height ? was : next));
    };
    const soon = (): void => { frame ||= requestAnimationFrame(look); };
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => { removeEventListener("scroll", soon); removeEventListener("resize", soon); cancelAnimationFrame(frame); };
  }, [total]);
  // What stands above the table may have come or gone with this very draw.
  useLayoutEffect(() => {
    const next = seen(body.current, total);
    if (next.first !== sight.first || next.last !== sight.last || next.height !== sight.height) set(next);
  });
  return { first: Math.min(sight.first, total), last: Math.min(sight.last, total), height: sight.height };
}

function seen(body: HTMLElement | null, total: number): Sight {
  const height = narrow.matches ? CARD : ROW;
  const top = body ? body.getBoundingClientRect().top : 0;
  const first = Math.min(Math.max(0, Math.floor(-top / height) - AROUND), Math.max(0, total - 1));
  // In steps of a few rows: scrolling by one draws nothing.
  const from = first - (first % 5);
  const last = Math.min(total, Math.ceil((innerHeight - top) / height) + AROUND);
  return { first: from, last: Math.max(last + ((5 - (last % 5)) % 5), Math.min(total, from + 1)), height };
}

/** Scroll so far that a row is in sight, above whatever stands at the bottom. */
export function bringInSight(body: HTMLElement, index: number, height: number): void {
  const top = body.getBoundingClientRect().top + index * height;
  const below = document.querySelector<HTMLElement>(".dock")?.offsetHeight ?? 0;
  if (top < 0) scrollBy(0, top - height);
  else if (top + height > innerHeight - below) scrollBy(0, top + 2 * height - (innerHeight - below));
}
