/** What policies would have done to the runs that were recorded here: figures, two plots, and a table. Too few is said so. */

import type { JSX } from "preact";
import { count } from "../../ui/format";
import { Sheet } from "../../ui/Sheet";
import type { Score, Trial, TriedPolicy } from "./types";

/** Runs of each kind below which a rate says nothing of others; the same number as the server's. */
const LEAST = 10;

export function nameOf(policy: TriedPolicy): string { return policy.version ? `${policy.name} v${policy.version}` : "this text"; }
export function percent(share: number | null): string { return share === null ? "–" : `${Number((100 * share).toFixed((share > 0 && share < 0.1) || (share > 0.99 && share < 1) ? 1 : 0))} %`; }

export function TrialFigures({ trial }: { trial: Trial }): JSX.Element {
  const [first, ...others] = trial.policies as [TriedPolicy, ...TriedPolicy[]];
  const beside = (tell: (one: TriedPolicy) => string): string => others.map((one) => `${nameOf(one)} ${tell(one)}`).join(", ");
  const line = (words: string, tell: (one: TriedPolicy) => string): string => [words, beside(tell)].filter(Boolean).join("; ");
  const hourly = (one: TriedPolicy): string => (one.per_hour === null ? "–" : `${one.per_hour.toFixed(1)}/h`);
  return (
    <>
      <p class={trial.is_enough ? "sub" : "few"} role="status">{trial.sentence}</p>
      <dl class="figures">
        <div><dt>would step in</dt><dd>{first.all.interventions.toLocaleString("en")}<small>{line(`of ${count(trial.runs, "run")}`, (one) => one.all.interventions.toLocaleString("en"))}</small></dd></div>
        <div><dt>right</dt><dd>{percent(first.all.precision)}<small>{line("precision", (one) => percent(one.all.precision))}</small></dd></div>
        <div><dt>steps saved</dt><dd>{percent(first.all.steps_saved)}<small>{line("of failing runs", (one) => percent(one.all.steps_saved))}</small></dd></div>
        <div><dt>while running</dt><dd>{hourly(first)}<small>{line(`at most ${first.at_most}`, hourly)}</small></dd></div>
      </dl>
    </>
  );
}

/** What is proposed is magenta, what is in use is ink. */
const standing = (policy: TriedPolicy): string => (policy.version ? "first" : "first proposed");
const X = (share: number): number => 60 + 560 * share;
const Y = (share: number): number => 250 - 220 * share;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

export function Curve({ trial }: { trial: Trial }): JSX.Element {
  const said = trial.policies.map((one) => `${nameOf(one)} catches ${percent(one.all.recall)} at ${percent(one.all.false_positive_rate)} false stops`).join("; ");
  const isDrawn = trial.failures > 0 && trial.successes > 0;
  if (!isDrawn) return <p class="sub">There is nothing to draw: it takes runs that failed, and runs that succeeded.</p>;
  return (
    <figure class="plot" tabIndex={0} aria-label="Caught against false, scrolls sideways">
      <svg viewBox="0 0 660 290" role="img" aria-label={`Backtest: caught failing runs against false stops. ${said}. The limit is ${percent(trial.limit)}.`}>
        {TICKS.map((share) => <line key={share} class="grid-line" x1={60} x2={620} y1={Y(share)} y2={Y(share)} />)}
        <rect class="beyond" x={X(trial.limit)} y={30} width={620 - X(trial.limit)} height={220} />
        <line class="most" x1={X(trial.limit)} x2={X(trial.limit)} y1={30} y2={250} />
        <text x={Math.max(200, X(trial.limit) + 6)} y={18}>more than {percent(trial.limit)} false: not allowed</text>
        <line class="grid-line" x1={60} y1={250} x2={620} y2={30} />
        {[...trial.policies].reverse().map((one) => {
          const points = one.curve.filter((point) => point.recall !== null && point.false_positive_rate !== null).sort((a, b) => a.false_positive_rate! - b.false_positive_rate! || a.recall! - b.recall!);
          return <polyline key={nameOf(one)} class={one === trial.policies[0] ? standing(one) : "other"} points={points.map((point) => `${X(point.false_positive_rate!).toFixed(1)},${Y(point.recall!).toFixed(1)}`).join(" ")} />;
        })}
        {[...trial.policies].reverse().map((one) => <Stand key={nameOf(one)} policy={one} place={trial.policies.indexOf(one)} of={trial.policies} />)}
        {TICKS.map((share) => <text key={`y${share}`} x={50} y={Y(share) + 4} text-anchor="end">{percent(share)}</text>)}
        {TICKS.map((share) => <text key={`x${share}`} x={X(share)} y={268} text-anchor="middle">{percent(share)}</text>)}
        <text x={340} y={286} text-anchor="middle">succeeding runs stopped (false)</text>
        <text x={60} y={18}>failing runs caught</text>
      </svg>
      <figcaption>Each curve moves all thresholds together, from a tenth to five times; the mark is the present policy.</figcaption>
    </figure>
  );
}

/** Where a policy stands. Names that would lie upon each other are put below one another, to the right. */
function Stand({ policy, place, of }: { policy: TriedPolicy; place: number; of: TriedPolicy[] }): JSX.Element | null {
  const { recall, false_positive_rate: wrong } = policy.all;
  if (recall === null || wrong === null) return null;
  const x = X(wrong), y = Y(recall);
  const near = of.slice(0, place).filter((one) => Math.abs(Y(one.all.recall ?? 0) - y) < 40 && Math.abs(X(one.all.false_positive_rate ?? 0) - x) < 320).length;
  const above = y > 60;
  const isLate = x > 380;
  return (
    <g>
      {place === 0 ? <circle class={standing(policy)} cx={x} cy={y} r={6} /> : <rect class="other" x={x - 5} y={y - 5} width={10} height={10} />}
      <text class="k" x={isLate ? x - 12 : x + 12} y={above ? y - 10 - 18 * near : y + 18 + 18 * near} text-anchor={isLate ? "end" : "start"}>{nameOf(policy)}: {percent(recall)} caught, {percent(wrong)} false</text>
    </g>
  );
}

export function When({ trial }: { trial: Trial }): JSX.Element | null {
  const first = trial.policies[0]!;
  const most = Math.max(...first.when.failure, ...first.when.success);
  if (!first.all.failures_stopped && !first.all.successes_stopped) return <p class="sub">It would have stopped no run whose outcome is known.</p>;
  const wide = 56;
  return (
    <figure class="plot" tabIndex={0} aria-label="When the stops came, scrolls sideways">
      <svg viewBox="0 0 660 190" role="img" aria-label={`When ${nameOf(first)} would have stopped, by tenths of the run. Failing runs: ${first.when.failure.join(", ")}. Succeeding runs: ${first.when.success.join(", ")}.`}>
        {first.when.failure.map((number, index) => number > 0 && <Bar key={`f${index}`} kind="right" x={60 + index * wide} y={95 - (64 * number) / most} high={(64 * number) / most} number={number} at={95 - (64 * number) / most - 5} wide={wide - 4} />)}
        {first.when.success.map((number, index) => number > 0 && <Bar key={`s${index}`} kind="wrong" x={60 + index * wide} y={95} high={(56 * number) / most} number={number} at={95 + (56 * number) / most + 14} wide={wide - 4} />)}
        <line class="axis" x1={60} x2={620} y1={95} y2={95} />
        <text x={60} y={18}>failing runs (right)</text><text x={60} y={172}>succeeding runs (wrong)</text>
        <text x={60} y={188}>0 %</text><text x={620} y={188} text-anchor="end">100 % of the run's steps</text>
      </svg>
      <figcaption>How far runs were when {nameOf(first)} would have stopped them.</figcaption>
    </figure>
  );
}

function Bar({ kind, x, y, high, number, at, wide }: { kind: string; x: number; y: number; high: number; number: number; at: number; wide: number }): JSX.Element {
  return <g><rect class={kind} x={x + 2} y={y} width={wide} height={Math.max(1.5, high)} /><text x={x + 2 + wide / 2} y={at} text-anchor="middle">{number}</text></g>;
}

export function TrialTable({ trial }: { trial: Trial }): JSX.Element {
  const first = trial.policies[0]!;
  const groups: [kind: string, name: string, of: (one: TriedPolicy) => Score | undefined][] = [
    ...(Object.keys(first.classes).length > 1 ? Object.keys(first.classes).map((name): [string, string, (one: TriedPolicy) => Score | undefined] => ["class", name.replace("_", " "), (one) => one.classes[name]]) : []),
    ...Object.keys(first.sources).map((name): [string, string, (one: TriedPolicy) => Score | undefined] => ["agent", name, (one) => one.sources[name]]),
    ...(Object.keys(first.sources).length > 1 ? [["", "all", (one: TriedPolicy) => one.all] as [string, string, (one: TriedPolicy) => Score | undefined]] : []),
  ];
  return (
    <section class="wide-part" aria-labelledby="by-group">
      <h2 id="by-group">By class and agent</h2>
      <Sheet name="By class and agent">
        <thead><tr><th scope="col">Runs of</th><th scope="col">Policy</th><th scope="col" class="r">Runs</th><th scope="col" class="r">Failures</th><th scope="col" class="r">Successes</th><th scope="col" class="r">Interventions</th><th scope="col" class="r">Recall</th><th scope="col" class="r">False positives</th><th scope="col" class="r">Precision</th><th scope="col" class="r">Steps saved</th></tr></thead>
        <tbody>{groups.flatMap(([kind, name, of]) => trial.policies.map((policy, index) => {
          const score = of(policy);
          return score && (
            <tr key={`${kind} ${name} ${nameOf(policy)}`}>
              <th scope="row">{index === 0 && <>{name} {kind && <span class="dim">{kind}</span>}</>}{index > 0 && <span class="vh">{name}</span>}</th><td>{nameOf(policy)}</td>
              <td class="r">{score.runs.toLocaleString("en")}</td><td class="r">{score.failures.toLocaleString("en")}</td><td class="r">{score.successes.toLocaleString("en")}</td><td class="r">{score.interventions.toLocaleString("en")}</td>
              <Rate score={score} name="recall" value={score.recall} few={score.failures < LEAST} counted={`${score.failures_stopped} of ${score.failures}`} />
              <Rate score={score} name="false_positive_rate" value={score.false_positive_rate} few={score.successes < LEAST} counted={`${score.successes_stopped} of ${score.successes}`} />
              <Rate score={score} name="precision" value={score.precision} few={score.failures_stopped + score.successes_stopped < LEAST} counted={`${score.failures_stopped} of ${score.failures_stopped + score.successes_stopped}`} />
              <Rate score={score} name="steps_saved" value={score.steps_saved} few={score.failures < LEAST} counted="" />
            </tr>
          );
        }))}</tbody>
      </Sheet>
    </section>
  );
}

/** A rate with its 95 %; of a few runs their number, and that they are too few. */
function Rate({ score, name, value, few, counted }: { score: Score; name: string; value: number | null; few: boolean; counted: string }): JSX.Element {
  if (value === null) return <td class="r dim" title={score.unmeasured[name]}>–</td>;
  const interval = score.intervals[name];
  if (few) return <td class="r dim">{counted || percent(value)} <small>too few to say</small></td>;
  return <td class="r">{percent(value)} {interval && <small class="dim">{percent(interval[0])} to {percent(interval[1])}</small>}</td>;
}
