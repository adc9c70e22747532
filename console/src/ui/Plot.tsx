/** How a signal went: values, thresholds dashed, interventions as discs; read by pointer and by arrow keys. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Gauge } from "../api/types";
import { ceiling, doesAt, marksOf, numberOf } from "./gauge";
import { timeOfDay } from "./format";

/** Something that happened to a run because of its signal. */
export interface Happened { at: number; value: number; words: string }

const HIGH = 56;

export function Plot({ gauge, happened, from, until }: { gauge: Gauge; happened: Happened[]; from: number; until: number }): JSX.Element {
  const points = gauge.history;
  const read: Happened[] = [...points.map(([at, value]) => ({ at, value, words: "" })), ...happened].sort((one, other) => one.at - other.at);
  const [chosen, choose] = useState<number | null>(null);
  const last = read.length - 1;
  const here = chosen === null ? last : Math.min(chosen, last);
  const span = Math.max(1e-3, until - from);
  const top = ceiling(gauge);
  const x = (at: number): number => Math.min(100, Math.max(0, (100 * (at - from)) / span));
  const y = (value: number): number => HIGH - (HIGH * Math.min(value, top)) / top;
  // Until something happened again, it stayed where it was.
  const drawn = points.length ? [...points, [until, points.at(-1)![1]] as const] : [];
  const line = drawn.map(([at, value], index) => `${index ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(1)}`).join("");
  const move = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(Math.min(last, Math.max(0, here + step)));
  };
  const point = (event: PointerEvent & { currentTarget: HTMLElement }): void => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = from + ((event.clientX - box.left) / box.width) * span;
    let nearest = 0;
    read.forEach((one, index) => { if (Math.abs(one.at - at) < Math.abs(read[nearest]!.at - at)) nearest = index; });
    choose(nearest);
  };
  if (!read.length) return <p class="unplotted">not measured: {gauge.unseen ?? "nothing so far"}</p>;
  const shown = read[here]!;
  const words = `${timeOfDay(shown.at)}: ${numberOf(shown.value, gauge.unit)}${shown.words && `, ${shown.words}`}`;
  return (
    <figure class="history">
      <div class="graph" role="slider" tabIndex={0} aria-label={`History of ${gauge.title}`} aria-valuemin={1} aria-valuemax={read.length} aria-valuenow={here + 1} aria-valuetext={words}
        onKeyDown={move} onPointerMove={point} onPointerLeave={() => choose(null)} onBlur={() => choose(null)}>
        <svg viewBox={`0 0 100 ${HIGH}`} preserveAspectRatio="none" aria-hidden="true">
          {marksOf(gauge).filter((mark) => mark.at <= top).map((mark) => <line key={mark.stage} class="limit" data-past={gauge.past === mark.stage || undefined} x1="0" x2="100" y1={y(mark.at)} y2={y(mark.at)} />)}
          <path class="went" d={line} />
        </svg>
        {happened.map((one, index) => <i key={index} class="disc" style={{ left: `${x(one.at)}%`, top: `${y(one.value)}px` }} />)}
        {chosen !== null && <i class="cursor" style={{ left: `${x(shown.at)}%` }} />}
      </div>
      <figcaption><output aria-live="off">{words}</output><span class="dim">{marksOf(gauge).map((mark) => doesAt(gauge, mark)).join(" · ")}</span></figcaption>
    </figure>
  );
}
