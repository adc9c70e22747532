/** The course strip: time to the right, distance from the goal upwards, ticks for calls, discs for stops and redirects. Where nothing measures the distance, the track is flat and says so. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Gauge } from "../../api/types";
import type { Mark, Run } from "../../model/run";
import { elapsed } from "../../model/session";
import { ENDED } from "../../model/status";
import { second } from "../../ui/clock";
import { clock, who } from "../../ui/format";
import { doesAt, marksOf } from "../../ui/gauge";
import { Shape, type ShapeName } from "../../ui/Shape";

const HORIZONS = [30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400];
/** Room ahead: the scale changes only when the run has used it up, so that nothing moves while it counts. */
const ROOM = 0.86;

const DISCS: Partial<Record<Mark["what"], { shape: ShapeName; colour: string; word: string }>> = {
  redirect: { shape: "redirect", colour: "magenta", word: "redirected" },
  pause: { shape: "paused", colour: "ink", word: "paused" },
  cancel: { shape: "cancelled", colour: "ink", word: "cancelled" },
  halt: { shape: "halted", colour: "red", word: "halted" },
  ask: { shape: "waiting", colour: "amber", word: "asks" },
  fail: { shape: "failed", colour: "red", word: "failed" },
  plan: { shape: "unknown", colour: "amber", word: "asked for its plan" },
};
const UNFINISHED: Partial<Record<string, ShapeName>> = { pausing: "pausing", cancelling: "cancelling" };

/** Where the goal lies, and a distance of 1: in hundredths of the strip. */
const GOAL = 84;
const FAR = 10;

interface Props { live: Live; run: Run; me: string; at: number | null; inspect: (position: number | null) => void; drift: Gauge | null }

export function Course({ live, run, me, at, inspect, drift }: Props): JSX.Element | null {
  void live.rev.value;
  void second.value;
  const strip = useRef<HTMLElement>(null);
  const whole = live.run.session;
  if (!whole) return null;
  const now = elapsed(whole, live.seenAt());
  const hasEnded = ENDED.has(whole.status);
  const horizon = hasEnded ? Math.max(1, now / 0.97) : HORIZONS.find((one) => one * ROOM > now) ?? now / ROOM;
  const x = (seconds: number): number => Math.min(100, (100 * seconds) / horizon);
  const end = x(now);
  const marks = live.run.marks;
  const ticks = thinned(marks.filter((mark) => mark.what === "read" || mark.what === "effect"), x);
  const discs = marks.filter((mark) => DISCS[mark.what]).slice(-40);
  // The word goes beside what stands at the beginning, not below it.
  const early = [...discs.map((mark) => ({ at: x(mark.clock), room: 24 })), { at: end, room: 8 }].filter(({ at }) => at < 10);
  const isMeasured = drift !== null && drift.value !== null && drift.history.length > 0;
  const y = (distance: number): number => GOAL - (GOAL - FAR) * Math.min(1, distance);
  const track = isMeasured ? [...drift.history.map(([when, distance]) => `${x(Math.min(now, clockOf(live.run, when))).toFixed(2)},${y(distance).toFixed(1)}`), `${end.toFixed(2)},${y(drift.value!).toFixed(1)}`].join(" ") : "";
  const height = (mark: Mark): number | null => (isMeasured ? y(drift.history.findLast(([when]) => clockOf(live.run, when) <= mark.clock)?.[1] ?? drift.history[0]![1]) : null);
  const distance = isMeasured ? `distance from the goal ${drift.value!.toFixed(2)}` : "distance not measured";
  const looked = at === null ? null : x(clockAt(live.run, run, at));
  const seek = (event: MouseEvent): void => {
    const box = strip.current!.getBoundingClientRect();
    const seconds = ((event.clientX - box.left) / box.width) * horizon;
    inspect(seconds >= now ? null : positionAt(live.run, seconds));
  };
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
  const keys = (event: KeyboardEvent): void => {
    const last = live.run.position;
    const here = at ?? last;
    const to = event.key === "Home" ? 1 : event.key === "End" ? last : here + (steps[event.key] ?? 0);
    if (to === here && event.key !== "End") return;
    event.preventDefault();
    inspect(to >= last ? null : Math.max(1, to));
  };
  return (
    <figure class="course" data-ended={hasEnded || undefined} ref={strip} role="slider" tabIndex={0} aria-label="Course: inspect the journal" aria-valuemin={1} aria-valuemax={live.run.position}
      aria-valuenow={at ?? live.run.position} aria-valuetext={at === null ? `now, ${clock(now)}; ${distance}` : `event ${at} of ${live.run.position}`} onClick={seek} onKeyDown={keys}>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
        <line class="goalline" x1="0" x2={end} y1={GOAL} y2={GOAL} />
        {!hasEnded && <line class="ahead" x1={end} x2="100" y1={GOAL} y2={GOAL} />}
        {isMeasured && marksOf(drift).map((mark) => <line key={mark.stage} class={mark.stage} data-past={drift.past === mark.stage || undefined} x1="0" x2="100" y1={y(mark.at)} y2={y(mark.at)} />)}
        {isMeasured ? <polyline class="flown" points={track} /> : <line class="flown" x1="0" x2={end} y1="72" y2="72" />}
      </svg>
      {ticks.map((mark) => <i key={mark.position} class={mark.what === "effect" ? "tick w" : "tick"} style={{ left: `${x(mark.clock)}%` }} />)}
      <span class="lab goallab" style={early.length ? { left: `max(${early.map(({ at, room }) => `${at}% + ${room}px`).join(", ")})` } : undefined}>goal</span>
      {isMeasured ? marksOf(drift).map((mark) => <span key={mark.stage} class="lab far limitlab" data-past={drift.past === mark.stage || undefined} style={{ top: `${y(mark.at)}%` }}>{doesAt(drift, mark).replace(/^(.+) at (.+)$/, "$2 $1")}</span>)
        : <span class="lab far measure" title={drift?.unseen ?? ""}>distance not measured</span>}
      {discs.map((mark, index) => {
        const disc = DISCS[mark.what]!;
        const isLast = index === discs.length - 1;
        const isUnfinished = isLast && ((mark.what === "pause" && whole.status === "pausing") || (mark.what === "cancel" && whole.status === "cancelling"));
        const high = height(mark);
        const shape = isUnfinished ? UNFINISHED[whole.status]! : disc.shape;
        return (
          <span key={mark.position} class={`mk ${high !== null && high < 40 ? "" : "up"} ${side(x(mark.clock), end)}`} data-colour={disc.colour} style={{ left: `clamp(11px, ${x(mark.clock)}%, calc(100% - 11px))`, top: high === null ? "" : `${high}%` }}>
            <span class="disc"><Shape name={shape} /></span>
            {isLast && <span class="t">{clock(mark.clock)} {mark.by ? `${who(mark.by, me)}, ` : ""}{isUnfinished ? (mark.what === "pause" ? "stopping" : "cancelling") : disc.word}</span>}
          </span>
        );
      })}
      <span class="nowline" style={{ left: `${end}%` }} />
      {!hasEnded && <span class="lab nowlab" style={end > 80 ? { right: `${100 - end + 0.6}%` } : { left: `${end + 0.6}%` }}>now {clock(now)}</span>}
      {looked !== null && <span class="looked" style={{ left: `${looked}%` }} />}
    </figure>
  );
}

/** The label of a mark that stands at the now line goes to the side where there is room. */
function side(at: number, end: number): string {
  if (at > 88) return "side";
  if (end - at > 6) return "";
  return at > 12 ? "side" : "right";
}

/** Ticks that would stand on each other are one; an effect hides reads. */
function thinned(marks: Mark[], x: (seconds: number) => number): Mark[] {
  const kept = new Map<number, Mark>();
  for (const mark of marks) {
    const column = Math.round(x(mark.clock) * 3);
    if (kept.get(column)?.what !== "effect") kept.set(column, mark);
  }
  return [...kept.values()];
}

function clockAt(whole: Run, run: Run, position: number): number {
  const session = run.session;
  if (session && session.position === position) return elapsed(session, session.at);
  return whole.entries.findLast((entry) => entry.position <= position)?.clock ?? 0;
}

/** How long the run had run by a time: as the log tells it, with what came after its last line. */
function clockOf(run: Run, when: number): number {
  let low = 0;
  let high = run.entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.entries[middle]!.at <= when) low = middle + 1; else high = middle;
  }
  const before = run.entries[low - 1];
  const next = run.entries[low];
  if (!before) return 0;
  return Math.min(next?.clock ?? Infinity, before.clock + when - before.at);
}

function positionAt(run: Run, seconds: number): number {
  const next = run.entries.find((entry) => entry.clock > seconds);
  return Math.max(1, (next?.position ?? run.position + 1) - 1);
}
