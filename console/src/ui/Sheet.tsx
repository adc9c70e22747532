/** A table with many columns. Where it has no room, each row is a list of what its heads name: nothing is cut. */

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Sheet({ name, kind = "", children }: { name: string; kind?: string; children: ComponentChildren }): JSX.Element {
  const room = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => { nameCells(room.current!); fit(room.current!); });
  useLayoutEffect(() => {
    const watching = new ResizeObserver(() => fit(room.current!));
    watching.observe(room.current!);
    return () => watching.disconnect();
  }, []);
  return <div class="scroller" ref={room}><table class={`grid ${kind}`} aria-label={name}>{children}</table></div>;
}

/** Whether it is drawn as a table, by the width that one would take. */
function fit(room: HTMLElement): void {
  room.removeAttribute("data-stacked");
  room.toggleAttribute("data-stacked", room.scrollWidth > room.clientWidth);
}

/** Each cell knows its head: desk.css writes it above the cell where the heads have no room. */
function nameCells(room: HTMLElement): void {
  const table = room.querySelector("table")!;
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent ?? "");
  for (const row of table.tBodies[0]?.rows ?? []) {
    for (const cell of row.cells) {
      if (cell.tagName !== "TD") continue;
      cell.dataset["head"] = heads[cell.cellIndex] ?? "";
      cell.toggleAttribute("data-empty", cell.textContent === "–");
    }
  }
}
