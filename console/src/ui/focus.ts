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

/** What had the focus in here has gone: the focus goes to a button of what is left in here, or to the one beside it. */
export function useStaying<E extends HTMLElement>(beside: RefObject<HTMLElement | null>): RefObject<E | null> {
  const home = useRef<E>(null);
  const isIn = useRef(false);
  useLayoutEffect(() => {
    const root = home.current;
    if (!root) return;
    const come = (): void => { isIn.current = true; };
    // Gone elsewhere by themselves: what they left is still there.
    const leave = (event: FocusEvent): void => { setTimeout(() => { if (event.target instanceof Node && event.target.isConnected && !root.contains(document.activeElement)) isIn.current = false; }); };
    root.addEventListener("focusin", come);
    root.addEventListener("focusout", leave);
    return () => { root.removeEventListener("focusin", come); root.removeEventListener("focusout", leave); };
  }, []);
  useLayoutEffect(() => {
    if (!isIn.current || document.activeElement !== document.body) return;
    const next = home.current?.querySelector<HTMLElement>(".btn");
    if (!next) isIn.current = false;
    (next ?? beside.current)?.focus();
  });
  return home;
}
