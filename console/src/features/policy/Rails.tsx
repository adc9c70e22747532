/** A rail for each signal: recorded runs in grey, thresholds in ink, proposed ones in magenta, where they were dotted. */

import { Fragment, type JSX } from "preact";
import { columns, type Mark, marksOf, reach, roomFor, shown, type Signal, SIGNALS, STAGE_WORDS } from "./signals";
import type { Rail, Settings, Trial } from "./types";

export function Rails({ document, proposed, trial }: { document: Settings | null; proposed: Settings | null; trial: Trial | null }): JSX.Element {
  const rows = SIGNALS.map((signal) => ({ signal, marks: marksOf(document, signal), next: proposed ? marksOf(proposed, signal) : null, rail: trial?.rails.find((one) => one.signal === signal.name) ?? null }));
  const told = rows.filter((row) => row.marks.length || row.next?.length);
  const silent = rows.filter((row) => !row.marks.length && !row.next?.length).map((row) => row.signal.title.toLowerCase());
  return (
    <section aria-labelledby="thresholds">
      <h2 id="thresholds">Thresholds <span class="dim plainly">{trial ? `· grey: ${trial.runs.toLocaleString("en")} recorded ${trial.runs === 1 ? "run" : "runs"}` : "· no recorded runs were read"}</span></h2>
      {told.map((row) => <Limit key={row.signal.name} {...row} />)}
      {silent.length > 0 && <p class="sub silent">Without a threshold: {silent.join(", ")}.</p>}
      <p class="key"><span>warn: notifies</span><span>explain: asked for its plan</span><span><b>in</b>: steps in, asks for the plan or pauses</span><span>stop: hard stop, always goes through</span>{proposed && <span class="proposed">magenta: proposed</span>}</p>
    </section>
  );
}

function Limit({ signal, marks, next, rail }: { signal: Signal; marks: Mark[]; next: Mark[] | null; rail: Rail | null }): JSX.Element {
  const most = reach(signal, [...marks, ...(next ?? [])], rail);
  const left = (value: number): string => `${Math.min(100, (100 * value) / most)}%`;
  const fields = [...new Set([...marks, ...(next ?? [])].map((mark) => mark.field))];
  const at = (of: Mark[] | null, field: string): Mark | undefined => of?.find((mark) => mark.field === field);
  const isMoved = (field: string): boolean => next !== null && at(marks, field)?.value !== at(next, field)?.value;
  const drawn = fields.flatMap((field) => {
    const before = at(marks, field), after = at(next, field);
    if (!isMoved(field)) return before ? [{ mark: before, kind: "" }] : [];
    return [...(before ? [{ mark: before, kind: "old" }] : []), ...(after ? [{ mark: after, kind: "new" }] : [])];
  });
  // Those that move stand above the rail, the others below it.
  const labelled = new Set([...roomFor(drawn.filter(({ kind }) => kind === "").map(({ mark }) => mark), most, signal.unit), ...roomFor(drawn.filter(({ kind }) => kind === "new").map(({ mark }) => mark), most, signal.unit)]);
  const order = ["warn", "explain", "intervene", "stop"];
  const sorted = [...fields].sort((one, other) => order.indexOf((at(marks, one) ?? at(next, one))!.stage) - order.indexOf((at(marks, other) ?? at(next, other))!.stage));
  return (
    <div class="limit">
      <div><b>{signal.title}</b><small>{signal.about}</small></div>
      <div class="rail" aria-hidden="true">
        {rail && <Runs rail={rail} most={most} />}
        <span class="axis" />
        {drawn.map(({ mark, kind }) => <span key={`${mark.field} ${kind}`} class={`th ${kind}`} style={{ left: left(mark.value) }}>{labelled.has(mark) && <span>{shown(mark.value, signal.unit)}</span>}</span>)}
      </div>
      <div class="num">{sorted.map((field, index) => {
        const before = at(marks, field), after = at(next, field);
        const stage = STAGE_WORDS[(before ?? after)!.stage];
        return (
          <Fragment key={field}>{index > 0 && " · "}<span>{isMoved(field)
            ? <>{after ? <b class="proposed">{stage} {shown(after.value, signal.unit)}</b> : <span class="proposed">no {stage}</span>}{before && <> <s class="dim">{shown(before.value, signal.unit)}</s></>}</>
            : stage === "in" || stage === "stop" ? <b>{stage} {shown(before!.value, signal.unit)}</b> : <>{stage} {shown(before!.value, signal.unit)}</>}</span></Fragment>
        );
      })}</div>
    </div>
  );
}

function Runs({ rail, most }: { rail: Rail; most: number }): JSX.Element {
  const bars = columns([...rail.failed, ...rail.others], most);
  const wide = 440 / bars.length;
  return (
    <svg viewBox="0 0 440 100" preserveAspectRatio="none">
      {bars.map((high, index) => high > 0 && <rect key={index} x={index * wide} y={100 - Math.max(6, 92 * high)} width={wide - 2} height={Math.max(6, 92 * high)} />)}
    </svg>
  );
}
