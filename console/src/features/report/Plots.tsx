/** The pictures of a report: how long stops took, and a rate with its interval against its target. */

import type { JSX } from "preact";
import { count } from "../../ui/format";
import type { Proportion, Report } from "./types";
import { type Kind, percent, seconds, target } from "./words";

const LEFT = 20, WIDE = 620, BASE = 178, TALL = 130;

export function Stops({ report }: { report: Report }): JSX.Element | null {
  const bars = report.histogram;
  const most = Math.max(0, ...bars.map((bar) => bar.count));
  if (!most) return null;
  const step = WIDE / bars.length;
  const place = (value: number): number => {
    let before = 0;
    for (const [index, { below }] of bars.entries()) {
      if (below === null || value <= below) return LEFT + step * (index + (below === null ? 0.5 : (value - before) / (below - before)));
      before = below;
    }
    return LEFT + WIDE;
  };
  const limits = report.classes.flatMap((row) => (row.stops.count && row.stops.target_p99 !== null ? [row.stops.target_p99] : []));
  const limit = limits.length ? Math.min(...limits) : null;
  const marks: [number | null, string, number][] = [[report.stops.p50, "median", 24], [report.stops.p99, "p99", 42]];
  return (
    <figure class="plot" tabIndex={0} aria-label="How long stops took, scrolls sideways">
      <svg viewBox="0 0 660 214" role="img" aria-label={`Stops by how long they took: median ${seconds(report.stops.p50)}, 99th percentile ${seconds(report.stops.p99)}${limit === null ? "" : `, limit ${seconds(limit)}`}.`}>
        {bars.map((bar, index) => bar.count > 0 && (
          <g key={index}><rect class="bar" x={LEFT + index * step + 1} y={BASE - Math.max(1.5, (TALL * bar.count) / most)} width={step - 2} height={Math.max(1.5, (TALL * bar.count) / most)} />
            <text x={LEFT + (index + 0.5) * step} y={BASE - (TALL * bar.count) / most - 5} text-anchor="middle">{bar.count.toLocaleString("en")}</text></g>
        ))}
        <line class="edge" x1={LEFT} x2={LEFT + WIDE} y1={BASE} y2={BASE} />
        {bars.map((bar, index) => bar.below !== null && <text key={`t${index}`} x={LEFT + (index + 1) * step} y={BASE + 16} text-anchor="middle">{bar.below < 0.1 ? `${Number((1000 * bar.below).toFixed(0))}ms` : `${bar.below}s`}</text>)}
        {limit !== null && <><line class="most" x1={place(limit)} x2={place(limit)} y1={14} y2={BASE} /><text x={place(limit) + 6} y={20}>target {seconds(limit)}</text></>}
        {marks.map(([value, name, y]) => value !== null && (
          <g key={name}><line class="mid" x1={place(value)} x2={place(value)} y1={y - 8} y2={BASE} /><text class="k" x={place(value) + 6} y={y}>{name} {seconds(value)}</text></g>
        ))}
      </svg>
      <figcaption>From the request for a stop until nothing ran: {count(report.stops.count, "stop")}.{report.waited.count > 0 && ` ${report.waited.count.toLocaleString("en")} more let a call finish first and are counted apart: median ${seconds(report.waited.p50)}, longest ${seconds(report.waited.most)}.`}</figcaption>
    </figure>
  );
}

/** A rate on a line: its target as a band, its interval as a line, itself as a mark. */
export function RangeBar({ rate, least = 0, most = 1, kind }: { rate: Proportion; least?: number; most?: number; kind: Kind }): JSX.Element | null {
  if (rate.share === null) return null;
  const place = (share: number): number => 150 * Math.min(1, Math.max(0, (share - least) / (most - least)));
  const [low, high] = rate.target ?? [0, 0];
  const words = `${percent(rate.share)}, between ${percent(rate.low)} and ${percent(rate.high)}${rate.target ? `; target ${target(rate.target)}` : ""}`;
  return (
    <svg class="span" viewBox="0 0 150 18" role="img" aria-label={words}>
      <line class="edge" x1={0} x2={150} y1={9} y2={9} />
      {rate.target && <rect class="band" x={Math.min(147, place(low))} y={2} width={Math.max(3, place(high) - place(low))} height={14} />}
      <line class="whisker" x1={place(rate.low)} x2={place(rate.high)} y1={9} y2={9} />
      <circle class={kind} cx={Math.min(146, Math.max(4, place(rate.share)))} cy={9} r={4.5} />
    </svg>
  );
}
