/** Where the focus goes when what had it is taken away. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** What a button has opened gives the focus back to it when it closes: never to the top of the page. */
export function useGivingBack<E extends HTMLElement>(isOpen: boolean, inside = ""): RefObject<E | null> {
  const home = useRef<E>(null);
  const was = useRef(isOpen);
  useLayoutEffect(() => {
    if (was.current && !isOpen && document.activeElement === document.body) (inside ? home.current?.querySelector<HTMLElement>(inside) : home.current)?.focus();
    was.current = isOpen;
  }, [isOpen]);
  return home;
}
