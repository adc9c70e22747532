/** The shapes of tokens.css, drawn inline: they take the colour of their text, and need no data: address. */

import type { JSX } from "preact";

type Drawn = { d: string; stroke?: number; evenodd?: boolean };
const SHAPES = {
  queued: [{ d: "M4 3v10l8.6-5z", stroke: 1.6 }],
  running: [{ d: "M3.4 2v12L14 8z" }],
  waiting: [{ d: "M8 .4L15.6 8 8 15.6.4 8z" }],
  pausing: [{ d: "M3.2 2.7h3v10.6h-3zM9.8 2.7h3v10.6h-3z", stroke: 1.4 }],
  paused: [{ d: "M2.5 2h4.4v12H2.5zM9.1 2h4.4v12H9.1z" }],
  cancelling: [{ d: "M2.8 2.8h10.4v10.4H2.8z", stroke: 1.6 }],
  cancelled: [{ d: "M2 2h12v12H2z" }],
  halted: [{ d: "M4.9.5h6.2l4.4 4.4v6.2l-4.4 4.4H4.9L.5 11.1V4.9zM3.5 6.8v2.4h9V6.8z", evenodd: true }],
  "halted-open": [{ d: "M5.2 1.3h5.6l3.9 3.9v5.6l-3.9 3.9H5.2l-3.9-3.9V5.2zM4.5 8h7", stroke: 1.6 }],
  // The check is cut out: a disc, and the outline of the stroke in it.
  completed: [{ d: "M8 .8a7.2 7.2 0 1 0 0 14.4A7.2 7.2 0 0 0 8 .8zM4 8.9l1.2-1.2 1.8 1.8 3.9-4.4 1.3 1.1-5.1 5.8z", evenodd: true }],
  failed: [{ d: "M3 3l10 10M13 3L3 13", stroke: 2.6 }],
  redirect: [{ d: "M1 12.5h4.5l4-8H14M10.8 1.3L14 4.5l-3.2 3.2", stroke: 1.8 }],
  done: [{ d: "M2.8 8.4l3.6 3.6 6.8-8", stroke: 1.9 }],
  interrupted: [{ d: "M1 8h4.2M10.8 8H15M6 13l4-10", stroke: 1.7 }],
  undone: [{ d: "M6 2.5L2.5 6 6 9.5M2.8 6h6.4a4 4 0 0 1 0 8H6", stroke: 1.7 }],
  kept: [{ d: "M8 1.5v7M4.8 5.6L8 8.8l3.2-3.2M2 10v4h12v-4", stroke: 1.7 }],
  permanent: [{ d: "M4.6 7V4.9a3.4 3.4 0 0 1 6.8 0V7", stroke: 1.7 }, { d: "M2.6 7h10.8v7.4H2.6z" }],
  unknown: [{ d: "M4.6 5.2a3.3 3.3 0 1 1 4.8 3C8.3 8.7 8 9.3 8 10.4", stroke: 1.9 }, { d: "M8 12.1a1.3 1.3 0 1 0 0 2.6 1.3 1.3 0 0 0 0-2.6z" }],
  undofailed: [{ d: "M8 .8l7.6 14H.4zM7.1 5.5v5h1.8v-5zM7.1 11.6v1.7h1.8v-1.7z", evenodd: true }],
} satisfies Record<string, Drawn[]>;

export type ShapeName = keyof typeof SHAPES;

export function Shape({ name }: { name: ShapeName }): JSX.Element {
  return (
    <svg class="sh" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {(SHAPES[name] as Drawn[]).map(({ d, stroke, evenodd }) => stroke
        ? <path d={d} fill="none" stroke="currentColor" stroke-width={stroke} stroke-linejoin="round" />
        : <path d={d} fill="currentColor" fill-rule={evenodd ? "evenodd" : "nonzero"} />)}
    </svg>
  );
}
