/** Streamed text of one step: durable segments, what superseded them, and previews that are not durable yet. */

/** Offsets count characters as Python does, not UTF-16 units. */
function length(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function upTo(text: string, count: number): string {
  return [...text].slice(0, count).join("");
}

export interface Cut { at: number; by: string; what: string; tokens: number }

export interface Part {
  attempt: number; start: number; length: number; text: string;
  superseded: boolean;
  /** Set when a stop or a redirect cut it: when, by what, and how many tokens were kept. */
  cut: Cut | null;
}

export class Text {
  parts: Part[] = [];
  preview: { attempt: number; start: number; length: number; text: string }[] = [];
  /** Characters that stand, as the journal knows. */
  length = 0;
  private writer = 0;

  get current(): string {
    return this.parts.filter((part) => !part.superseded).map((part) => part.text).join("");
  }

  write(attempt: number, offset: number, text: string): void {
    if (offset < this.length) this.supersede(attempt, offset);
    const count = length(text);
    const last = this.parts[this.parts.length - 1];
    if (last && last.attempt === attempt && !last.superseded && !last.cut) {
      last.text += text;
      last.length += count;
    } else {
      this.parts.push({ attempt, start: offset, length: count, text, superseded: false, cut: null });
    }
    this.length = offset + count;
    this.writer = attempt;
    this.settle(attempt, this.length);
  }

  /** A preview. False: the journal has it already. */
  show(attempt: number, offset: number, text: string): boolean {
    const last = this.preview[this.preview.length - 1];
    if (last && last.attempt > attempt) return false;
    if (last && last.attempt < attempt) this.preview = [];
    const shown = last && last.attempt === attempt ? last.start + last.length : attempt === this.writer ? this.length : -1;
    if (offset < shown || attempt < this.writer) return false;
    // What is missing was lost on its way: the journal brings it.
    this.preview.push({ attempt, start: offset, length: length(text), text: offset > Math.max(0, shown) ? `… ${text}` : text });
    return true;
  }

  cutAt(attempt: number, cut: Cut): void {
    const part = this.parts.findLast((one) => one.attempt === attempt);
    if (part) part.cut = cut;
    this.preview = [];
  }

  private settle(attempt: number, until: number): void {
    this.preview = this.preview.filter((one) => one.attempt > attempt || (one.attempt === attempt && one.start >= until));
  }

  private supersede(attempt: number, offset: number): void {
    const parts: Part[] = [];
    for (const part of this.parts) {
      const isPast = part.start + part.length > offset;
      if (part.superseded || !isPast) { parts.push(part); continue; }
      const keep = Math.max(0, offset - part.start);
      const head = upTo(part.text, keep);
      if (keep > 0) parts.push({ ...part, length: keep, text: head, cut: null });
      if (part.attempt !== attempt) {
        parts.push({ ...part, start: part.start + keep, length: part.length - keep, text: part.text.slice(head.length), superseded: true });
      }
    }
    this.parts = parts;
  }
}

/** Which end of a long text is shown. */
export type End = "head" | "tail";

/** Of a long text so much is shown, the rest on demand. */
const LINES = 120;
const CHARACTERS = 12_000;

/** One end of a long text, and how many lines the whole has. Null: it is short. */
export function excerpt(text: string, keeps: End): { text: string; lines: number } | null {
  if (text.length <= CHARACTERS && newlines(text, LINES) <= LINES) return null;
  const lines = text.split("\n");
  const some = (keeps === "tail" ? lines.slice(-LINES) : lines.slice(0, LINES)).join("\n");
  return { text: keeps === "tail" ? some.slice(-CHARACTERS) : some.slice(0, CHARACTERS), lines: lines.length - Number(text.endsWith("\n")) };
}

function newlines(text: string, enough: number): number {
  let found = 0;
  for (let at = text.indexOf("\n"); at >= 0 && found <= enough; at = text.indexOf("\n", at + 1)) found++;
  return found;
}
