/** How long runs took, whether stopped ones completed and continued, and what stepping in brought above its cost. */

import type { JSX } from "preact";
import { href } from "../../ui/router";
import { Quantiles } from "./Quantiles";
import { Against, Figure, Say, Table } from "./Parts";
import type { ClassRow, Proportion, Report } from "./types";
import { dollars, kindOf, of, percent, range, seconds, short, signed, target, tokens } from "./words";

/** What an axis may be marked with. */
const SECONDS = [0.01, 0.1, 1, 10, 60, 300, 1800, 7200, 43_200, 172_800];
const RATES = [0.1, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000];

const nameOf = (row: ClassRow): string => row.task_class.replace("_", " ");

export function Return({ report: { returns } }: { report: Report }): JSX.Element {
  const known = `known of ${returns.counted.toLocaleString("en")} of ${returns.of.toLocaleString("en")} automatic`;
  if (returns.roi === null) return <Figure name="return" value="unknown" more={known} />;
  return <Figure name="return" value={signed(returns.roi)} more={`${dollars(returns.worth)} worth for ${dollars(returns.cost)} cost; ${known}`} />;
}

export function Runs({ report }: { report: Report }): JSX.Element {
  const rows = report.classes;
  if (!rows.some((row) => row.duration.worked.count)) return <section aria-labelledby="runs"><h2 id="runs">How long runs took</h2><p class="sub">No run has completed.</p></section>;
  const limits = [...new Set(rows.flatMap((row) => row.duration.range ?? []).filter((one): one is number => Boolean(one)))];
  return (
    <>
      <Table id="runs" name="How long runs took" words={report.meanings.duration} heads={["Class", ">Completed", ">p50", ">p99", ">Range", ">Inside it", "Verdict", ">Token rate p50", ">p99 2", ">Model calls"]}>
        {rows.map((row) => (
          <tr key={`${row.task_class} ${row.policies.join()}`}><th scope="row">{nameOf(row)}</th><td class="r">{row.duration.worked.count.toLocaleString("en")}</td>
            <td class="r">{seconds(row.duration.worked.p50)}</td><td class="r">{seconds(row.duration.worked.p99)}</td><td class="r dim">{row.duration.range ? range(row.duration.range) : "no range"}</td>
            <td class="r">{of(row.duration.inside)}</td><td>{row.duration.range && row.duration.inside.of ? <Say kind={kindOf(row.duration.verdict)}>{row.duration.verdict}</Say> : <span class="dim">–</span>}</td>
            <td class="r">{tokens(row.token_rate.p50)}</td><td class="r">{tokens(row.token_rate.p99)}</td><td class="r">{row.token_rate.count.toLocaleString("en")}</td></tr>
        ))}
      </Table>
      <div class="two">
        <Quantiles name="Time worked" words={`Share of the completed runs that took no longer.${limits.length ? " Dashed: where a class ends." : ""}`} series={rows.map((row) => ({ name: nameOf(row), spread: row.duration.worked }))} limits={limits} marks={SECONDS} format={(value) => (value === null ? "–" : short(value))} />
        <Quantiles name="Token rate" words="Share of the model calls that were no faster." series={rows.map((row) => ({ name: nameOf(row), spread: row.token_rate }))} limits={[]} marks={RATES} format={tokens} />
      </div>
    </>
  );
}

export function Completion({ report }: { report: Report }): JSX.Element | null {
  const rows = [["all", report.outcomes] as const, ...report.classes.map((row) => [nameOf(row), row.outcomes] as const)];
  if (!rows.some(([, one]) => one.stopped.of || one.unstopped.of)) return null;
  return (
    <Table id="completion" name="Did they complete?" words={report.meanings.after_stop} heads={["Class", ">If stopped", ">Target", "Verdict", ">If not", ">Difference", ">Cancelled"]}>
      {rows.map(([name, one], index) => <tr key={index}><th scope="row">{name}</th><td class="r">{of(one.stopped)}</td><td class="r dim">{one.stopped.target ? target(one.stopped.target) : "–"}</td><td>{one.stopped.target && one.stopped.of ? <Say kind={kindOf(one.stopped.verdict, true)}>{one.stopped.verdict}</Say> : <span class="dim">–</span>}</td><td class="r">{of(one.unstopped)}</td><td class="r">{signed(one.difference, "pp")}</td><td class="r">{one.cancelled.toLocaleString("en")}</td></tr>)}
    </Table>
  );
}

export function Continued({ report }: { report: Report }): JSX.Element {
  const { recoveries, consistency, estimates } = report;
  const rows: [string, Proportion, string][] = [
    ["Recovered", recoveries.all, `${recoveries.open.toLocaleString("en")} not known yet`],
    ["after a stop", recoveries.after_stop, ""],
    ["after its process was lost", recoveries.after_loss, ""],
    ["Journal and store agree", consistency.sessions, "sessions that were stopped or lost"],
    ["Calls left estimated within 20 %", estimates.within, `${estimates.known.part.toLocaleString("en")} of ${estimates.known.of.toLocaleString("en")} runs had an estimate; middle error ${percent(estimates.error)}`],
  ];
  const least = Math.max(0, Math.min(0.95, ...rows.filter(([, rate]) => rate.of).map(([, rate]) => Math.min(rate.low, rate.target?.[0] ?? 1))) - 0.02);
  return (
    <>
      <Table id="continued" name="Did stopped runs continue?" words={`Recovered: ${report.meanings.recovered}`} heads={["What", ">Share", "Target", "Verdict", ">Of", "And"]}>
        {rows.map(([name, rate, more]) => (
          <tr key={name}><th scope="row">{name}</th>{rate.of ? <Against rate={rate} least={least} /> : <><td class="r">unknown</td><td class="dim">–</td><td class="dim">–</td></>}<td class="r">{rate.of.toLocaleString("en")}</td><td>{more || "–"}</td></tr>
        ))}
      </Table>
      {Object.keys(consistency.flaws).length > 0 && <ul class="method" aria-label="Journals that do not agree">{Object.entries(consistency.flaws).map(([session, why]) => <li key={session}><a href={href({ run: session })}>{session}</a>: {why}</li>)}</ul>}
    </>
  );
}
