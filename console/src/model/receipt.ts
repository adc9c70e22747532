/** What the lines of a receipt, or of a preview, come to: the one count that every sentence about them uses. As core/receipt.py. Pure. */

import type { ReceiptLine } from "./events";

const ORDER = ["undone", "kept", "cannot be undone", "undo failed", "undo ran with unknown result", "unknown", "still running"] as const;
/** What is held is no effect: it is released, or not. */
const HELD: Partial<Record<ReceiptLine["outcome"], string>> = { undone: "released", kept: "still held", "undo failed": "not released" };

const isHold = (line: ReceiptLine): boolean => line.effect === "hold";

/** "2 undone, 1 kept, 1 hold released"; empty: there is no line. */
export function tally(lines: readonly ReceiptLine[]): string {
  return [false, true].flatMap((holds) => ORDER.flatMap((outcome) => {
    const number = lines.filter((line) => isHold(line) === holds && line.outcome === outcome).length;
    return number ? [holds ? `${number} ${number === 1 ? "hold" : "holds"} ${HELD[outcome] ?? outcome}` : `${number} ${outcome}`] : [];
  })).join(", ");
}

/** The same as a sentence. */
export function verdict(lines: readonly ReceiptLine[], children: number): string {
  if (lines.length) return `${tally(lines)}.`;
  return children ? "No call of the session itself changed anything." : "Nothing was changed.";
}

/** Effects, and beside them what is held: "2 effects, 1 hold". */
export function sizes(lines: readonly ReceiptLine[]): string {
  const holds = lines.filter(isHold).length;
  const effects = lines.length - holds;
  return [effects || !holds ? `${effects || "no"} ${effects === 1 ? "effect" : "effects"}` : "", holds ? `${holds} ${holds === 1 ? "hold" : "holds"}` : ""].filter(Boolean).join(", ");
}

/** How many effects an undo could still take back. */
export function undoable(lines: readonly ReceiptLine[]): number {
  return lines.filter((line) => !isHold(line) && (line.outcome === "kept" || line.outcome === "undo failed")).length;
}

/** How many effects these lines undo that were not undone `before`. */
export function undone(lines: readonly ReceiptLine[], before: readonly ReceiptLine[]): number {
  const done = (some: readonly ReceiptLine[]): ReceiptLine[] => some.filter((line) => !isHold(line) && line.outcome === "undone");
  return done(lines).length - done(before).length;
}
