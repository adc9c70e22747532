/** Where values lie: for each series the value that a share of them does not exceed, on a logarithmic scale. */

import { useEffect, useRef } from "preact/hooks";
import type { JSX } from "preact";
import uPlot from "uplot";
import { isDark } from "../../ui/settings";
import type { Spread } from "./types";
import "uplot/dist/uPlot.min.css";

export interface Series { name: string; spread: Spread }

interface Given { name: string; words: string; series: Series[]; limits: number[]; marks: number[]; format: (value: number | null) => string }

/** Its height, room for the names of lines, and of how many a line is drawn. */
const HIGH = 260, NAMES = 76, LEAST = 2;
/** How the lines are told apart without their colours. */
const DASHES = [[], [7, 4], [2, 3], [11, 4, 2, 4], [4, 2]];

export function Quantiles({ name, words, series, limits, marks, format }: Given): JSX.Element | null {
  const room = useRef<HTMLDivElement>(null);
  const drawn = series.filter(({ spread }) => spread.count >= LEAST);
  const dark = isDark();
  const key = JSON.stringify([drawn, limits]);
  useEffect(() => {
    const box = room.current;
    if (!box) return;
    const plot = new uPlot(options(box, drawn, limits, marks, format), [shares(drawn), ...drawn.map(({ spread }) => spread.curve.map(positive))], box);
    const watching = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HIGH }));
    watching.observe(box);
    return () => { watching.disconnect(); plot.destroy(); };
  }, [key, dark]);
  if (!drawn.length) return null;
  const said = drawn.map((one) => `${one.name}: p50 ${format(one.spread.p50)}, p99 ${format(one.spread.p99)}`).join("; ");
  return <figure class="quantiles"><figcaption><b>{name}.</b> {words}</figcaption><div ref={room} role="img" aria-label={`${name}. ${said}.`} /></figure>;
}

/** A logarithm has no nothing. */
function positive(value: number): number { return Math.max(value, 1e-3); }

function shares(series: Series[]): number[] {
  const last = series[0]!.spread.curve.length - 1;
  return series[0]!.spread.curve.map((_, index) => (100 * index) / last);
}

function options(box: HTMLElement, series: Series[], limits: number[], marks: number[], format: Given["format"]): uPlot.Options {
  const style = getComputedStyle(box);
  const token = (name: string): string => style.getPropertyValue(name).trim();
  const ink = token("--mc-ink"), dim = token("--mc-ink-3"), line = token("--mc-line");
  const font = `11px ${token("--mc-mono")}`;
  const values = series.flatMap(({ spread }) => spread.curve.map(positive));
  const top = 1.5 * Math.max(...values);
  // One run of a moment does not press all others together.
  const bottom = Math.max(Math.min(...values), top / 1e4) / 1.5;
  const near = limits.filter((one) => one > bottom && one < top);
  const axis: uPlot.Axis = { font, stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  return {
    width: box.clientWidth, height: HIGH, padding: [8, NAMES, 0, 0], cursor: { y: false, drag: { x: false, y: false } }, legend: { live: true, markers: { show: false } },
    scales: { x: { time: false, range: [0, 100] }, y: { distr: 3, range: [bottom, top] } },
    axes: [{ ...axis, values: (_, splits) => splits.map((one) => `${one} %`) }, { ...axis, size: 72, splits: () => marks.filter((one) => one >= bottom && one <= top), filter: (_, splits) => splits, values: (_, splits) => splits.map(format) }],
    series: [
      { label: "Share", value: (_, share) => (share === null ? "–" : `${Math.round(share)} %`) },
      ...series.map(({ name }, index) => ({ label: name, stroke: ink, width: 1.8, dash: DASHES[index % DASHES.length]!, points: { show: false }, value: (_: uPlot, value: number | null) => format(value) })),
    ],
    hooks: { draw: [(plot) => {
      drawLimits(plot, near, token("--mc-amber"));
      drawNames(plot, series, ink, font);
    }] },
  };
}

function drawLimits(plot: uPlot, limits: number[], colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
  for (const limit of limits) {
    const y = plot.valToPos(limit, "y", true);
    ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
  }
  ctx.restore();
}

/** Each line's name where it ends, none upon another. */
function drawNames(plot: uPlot, series: Series[], colour: string, font: string): void {
  const { ctx, bbox } = plot, gap = 13 * uPlot.pxRatio;
  const names = series.map(({ name, spread }) => ({ name, y: plot.valToPos(positive(spread.curve.at(-1)!), "y", true) })).sort((one, other) => one.y - other.y);
  names.forEach((one, index) => { if (index) one.y = Math.max(one.y, names[index - 1]!.y + gap); });
  ctx.save();
  ctx.fillStyle = colour;
  ctx.font = font.replace("11px", `${11 * uPlot.pxRatio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { name, y } of names) ctx.fillText(name, bbox.left + bbox.width + 6 * uPlot.pxRatio, y);
  ctx.restore();
}
