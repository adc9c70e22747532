/** What interruptions came to: alerts first, then each figure against its target, and what must hold before a policy goes live. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Client } from "../api/client";
import { title } from "../features/attention";
import { Completion, Continued, Return, Runs } from "../features/report/Figures";
import { Against, Figure, Say, Table } from "../features/report/Parts";
import { RangeBar, Stops } from "../features/report/Plots";
import type { ClassRow, Item, KindRow, Report, SignalRow, Times, Verdict } from "../features/report/types";
import { byWhom, dollars, kindOf, type Kind, percent, PERIODS, type Period, periodOf, range, seconds, target } from "../features/report/words";
import { useReading } from "../features/reading";
import { Waiting } from "../features/States";
import { useTelling } from "../features/telling";
import { Top } from "../features/Top";
import { count, version } from "../ui/format";
import { address, go, href } from "../ui/router";
import { save } from "../ui/save";
import "../ui/desk.css";

interface Found { period: Period; report: Report; items: Item[] }

export function ReportsPage({ client }: { client: Client }): JSX.Element {
  const period = periodOf(address.value.get("period"));
  const { found, connection } = useReading<Found>(client, async (signal) => {
    const since = Math.floor(client.now() - PERIODS[period]);
    const [report, { items }] = await Promise.all([client.get<Report>(`/reports?since=${since}`, { signal }), client.get<{ items: Item[] }>(`/checklist?since=${since}`, { signal })]);
    return { period, report, items };
  }, [client, period]);
  const { words, tell } = useTelling();
  useEffect(() => { title.value = "Report"; }, []);
  const report = found?.period === period ? found.report : null;
  const file = (format: "html" | "json"): void => {
    tell(client.text(`/reports?since=${Math.floor(report?.since ?? 0)}&format=${format}`).then((text) => save(`midcourse-report-${period}.${format}`, text, format === "html" ? "text/html" : "application/json")));
  };
  return (
    <>
      <Top page="reports" connection={null} />
      <main class="page desk report">
        <div class="pagehead">
          <h1>Report</h1>
          {report && <span class="sub">{day(report.since)} to {day(report.until)} · {count(report.sessions, "session")} · {policiesOf(report)}</span>}
          <div class="end">
            <div class="seg small" role="radiogroup" aria-label="Period">{(Object.keys(PERIODS) as Period[]).map((one) => <label key={one}><input type="radio" name="period" checked={one === period} onChange={() => go(href({ reports: "", period: one }))} /><b>{one.charAt(0).toUpperCase() + one.slice(1)}</b></label>)}</div>
            {report && <><button class="btn small" type="button" onClick={() => file("html")}>HTML</button><button class="btn small" type="button" onClick={() => file("json")}>JSON</button></>}
          </div>
        </div>
        {words && <p class="still" role="status">{words}</p>}
        {!report ? <Waiting connection={connection} words="Reading the sessions of this time…" /> : <Whole report={report} items={found!.items} />}
      </main>
    </>
  );
}

function Whole({ report, items }: { report: Report; items: Item[] }): JSX.Element {
  const { answers, labelled } = report;
  return (
    <>
      {report.alerts.length > 0
        ? <section class="missed first" aria-label="Missed targets"><b>{count(report.alerts.length, "target was missed", "targets were missed")}.</b><ul>{report.alerts.map((one) => <li key={one.sentence}>{one.sentence}</li>)}</ul></section>
        : report.sessions === 0 ? <p class="few">No session ran in this time: there is nothing to count. Choose a longer time above, or <a href={href({ new: "" })}>start a run</a>.</p>
        : <p class="sub">No target was missed, as far as can be said.</p>}
      {report.notes.map((one) => <p key={one} class="sub remark">{one}</p>)}
      <dl class="figures">
        <Figure name="stepped in" value={report.interventions.toLocaleString("en")} more={byWhom(report.by) || "none"} />
        <Figure name="notices only" value={report.notices.toLocaleString("en")} more={report.warnings.of ? `warnings without an intervention; ${report.warnings.of.toLocaleString("en")} labelled` : "warnings without an intervention"} />
        <Figure name="right" value={percent(labelled.share)} more={`of ${labelled.of.toLocaleString("en")} labelled`} />
        <Figure name="waste avoided" value={dollars(report.dollars_avoided)} more={`expected; at a cost of ${dollars(report.dollars_cost)}`} />
        <Return report={report} />
        <Figure name="answered in" value={seconds(answers.seconds.p50)} more={answers.target === null ? "nothing was asked" : `median; target ${seconds(answers.target)}`} />
        <Figure name="could not be stopped" value={report.outlived_count.toLocaleString("en")} more="sessions with a call that kept running" />
      </dl>
      <Classes rows={report.classes} meanings={report.meanings} />
      <Runs report={report} />
      <Completion report={report} />
      <Continued report={report} />
      <div class="two">
        <section aria-labelledby="fast"><h2 id="fast">How fast a stop is a stop</h2>{report.stops.count ? <Stops report={report} /> : <p class="sub">Nothing was stopped.</p>}</section>
        <Answers report={report} />
      </div>
      <Signals rows={report.signals} words={`False positives: ${report.meanings.false_positives} Notices only: ${report.meanings.only_told}`} />
      <TimesTable report={report} />
      <Kinds rows={report.kinds} words={report.meanings.stepped_in} />
      <Checklist items={items} />
      {report.outlived_count > 0 && <section aria-labelledby="outlived"><h2 id="outlived">What could not be stopped</h2><ul class="method">{Object.entries(report.outlived).map(([session, calls]) => <li key={session}><a href={href({ run: session })}>{session}</a>: {calls.join(", ")}</li>)}</ul></section>}
      <section aria-labelledby="counted"><h2 id="counted">How this was counted</h2><ul class="method">{report.method.map((one) => <li key={one}>{one}</li>)}</ul></section>
    </>
  );
}

function Classes({ rows, meanings }: { rows: ClassRow[]; meanings: Report["meanings"] }): JSX.Element {
  if (!rows.length) return <section aria-labelledby="classes"><h2 id="classes">Classes against their targets</h2><p class="sub">No session began in this time.</p></section>;
  const most = Math.min(1, 1.05 * Math.max(0.05, ...rows.map((row) => (row.interrupted.share === null ? 0 : Math.max(row.interrupted.high, row.interrupted.target?.[1] ?? 0)))));
  const least = Math.max(0, Math.min(0.95, ...rows.filter((row) => row.completed.share !== null).map((row) => Math.min(row.completed.low, row.completed.target?.[0] ?? 1))) - 0.02);
  const isSeveral = new Set(rows.map((row) => row.policies.join())).size > 1;
  return (
    <Table id="classes" name="Classes against their targets" words={`Interrupted: ${meanings.interrupted} Completed: ${meanings.completed}`} heads={["Class", ">Sessions", ">Interrupted", "Target", "Verdict", "By whom", ">Completed", "Target 2", "Verdict 2", "Satisfied"]}>
      {rows.map((row) => (
        <tr key={`${row.task_class} ${row.policies.join()}`}>
          <th scope="row">{row.task_class.replace("_", " ")} <span class="dim">{row.duration.range ? range(row.duration.range) : row.task_class === "very_long" ? "open-ended" : ""}</span>{isSeveral && <small class="dim"> {row.policies.map(version).join(", ")}</small>}</th>
          <td class="r">{row.sessions.toLocaleString("en")}</td>
          <Against rate={row.interrupted} most={most} /><td>{byWhom(row.interrupted_by) || "–"}</td><Against rate={row.completed} least={least} aboveIsFine />
          <td>{row.satisfied.of && row.score !== null ? <>{percent(row.satisfied.share)} <small class="dim">of {row.satisfied.of}, {row.score.toFixed(1)} of 5</small> <Say kind={kindOf(row.satisfied.verdict, true)}>{row.satisfied.verdict}</Say></> : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

function TimesTable({ report }: { report: Report }): JSX.Element | null {
  const rows = report.classes.flatMap((row) => ([["stop", row.stops], ["response", row.response]] as [string, Times][]).filter(([, taken]) => taken.count).map(([name, taken]): [string, Times] => [`${name}, ${row.task_class.replace("_", " ")}`, taken]));
  if (!rows.length) return null;
  return (
    <Table id="times" name="Response and stop against their targets" words={`Response: ${report.meanings.response} Stop: ${report.meanings.stop}`} heads={["What", ">Count", ">p50", ">Target", "Verdict", ">p99", ">Target 2", "Verdict 2", ">Longest"]}>
      {rows.map(([name, taken]) => (
        <tr key={name}><th scope="row">{name}</th><td class="r">{taken.count.toLocaleString("en")}</td>
          <td class="r">{seconds(taken.p50)}</td><td class="r dim">{seconds(taken.target_p50)}</td><td><Judged verdict={taken.verdict_p50} /></td>
          <td class="r">{seconds(taken.p99)}</td><td class="r dim">{seconds(taken.target_p99)}</td><td><Judged verdict={taken.verdict_p99} /></td><td class="r">{seconds(taken.most)}</td></tr>
      ))}
    </Table>
  );
}

function Judged({ verdict }: { verdict: Verdict }): JSX.Element { return <Say kind={kindOf(verdict)}>{verdict}</Say>; }

function Signals({ rows, words }: { rows: SignalRow[]; words: string }): JSX.Element {
  if (!rows.length) return <section aria-labelledby="signals"><h2 id="signals">Were we right to step in?</h2><p class="sub">No policy stepped in.</p></section>;
  const agents = (signal: string): number => rows.filter((row) => row.signal === signal && row.agent).length;
  const shown = rows.filter((row) => row.agent || agents(row.signal) > 1);
  const most = Math.min(1, 1.05 * Math.max(0.05, ...shown.map((row) => (row.rate.share === null ? 0 : Math.max(row.rate.high, row.rate.target?.[1] ?? 0)))));
  return (
    <Table id="signals" name="Were we right to step in?" words={words} heads={["Signal", ">Stepped in", ">Notices only", ">Right", ">Wrong", ">Unsure", ">False positives", "Limit", "Verdict"]}>
      {shown.map((row) => {
        const isFew = row.rate.of < row.needed;
        const isWrong = row.rate.share !== null && row.rate.share > (row.rate.target?.[1] ?? 1);
        const kind: Kind = isFew ? "few" : isWrong ? "no" : "ok";
        return (
          <tr key={`${row.signal} ${row.agent}`}><th scope="row">{row.signal} <span class="dim">{row.agent || "all agents"}</span></th>
            <td class="r">{row.interventions.toLocaleString("en")}</td><td class="r">{row.notices.toLocaleString("en")}{said(row)}</td><td class="r">{row.right}</td><td class="r">{row.wrong}</td><td class="r">{row.unsure}</td><td class="r">{percent(row.rate.share)}</td>
            <td><RangeBar rate={row.rate} most={most} kind={kind} /><small class="dim">{row.rate.target ? target(row.rate.target) : "–"}</small></td>
            <td><Say kind={kind}>{!row.interventions && !row.rate.of ? "only warned" : isFew ? `too few to say: ${row.rate.of} labelled, needs ${row.needed}` : isWrong ? "too often wrong" : "kept"}</Say></td></tr>
        );
      })}
    </Table>
  );
}

/** What people said of the warnings: it is in no rate. */
function said(row: SignalRow): JSX.Element | null {
  const parts = [row.warnings_right && `${row.warnings_right} right`, row.warnings_wrong && `${row.warnings_wrong} wrong`].filter(Boolean);
  return parts.length ? <small class="dim"> ({parts.join(", ")})</small> : null;
}

function Kinds({ rows, words }: { rows: KindRow[]; words: string }): JSX.Element {
  if (!rows.length) return <section aria-labelledby="kinds"><h2 id="kinds">Time and cost of interventions</h2><p class="sub">There were no interventions.</p></section>;
  return (
    <Table id="kinds" name="Time and cost of interventions" words={words} heads={["Kind", ">Count", "By whom", ">Until stopped", ">Stopped for", ">Recovery", ">Resolution p50", ">p99", ">Money", ">KB saved", ">Quality", ">Plan since", ">Expected: avoided / cost", ">Actual cost"]}>
      {rows.map((row) => (
        <tr key={row.kind}><th scope="row">{row.kind.replaceAll("_", " ")}</th><td class="r">{row.count.toLocaleString("en")}</td><td>{byWhom(row.by)}</td>
          <td class="r">{seconds(row.save.p50)}</td><td class="r">{seconds(row.wait.p50)}</td><td class="r">{seconds(row.recovery.p50)}</td><td class="r">{seconds(row.resolution.p50)}</td><td class="r">{seconds(row.resolution.p99)}</td>
          <td class="r">{dollars(row.dollars, row.estimated > 0)}</td><td class="r">{row.kilobytes === null ? "–" : row.kilobytes.toFixed(1)}</td>
          <td class="r">{row.quality === null ? "–" : <>{percent(row.quality)} <small class="dim">of {row.quality_of}</small></>}</td><td class="r">{row.progress === null ? "–" : `${row.progress >= 0 ? "+" : ""}${(100 * row.progress).toFixed(0)} pp`}</td>
          <td class="r">{row.expected_avoided === null ? "–" : `${dollars(row.expected_avoided)} / ${dollars(row.expected_cost)}`}</td><td class="r">{row.cost === null ? "–" : <>{dollars(row.cost)} <small class="dim">of {row.compared}</small></>}</td></tr>
      ))}
    </Table>
  );
}

function Answers({ report: { answers } }: { report: Report }): JSX.Element {
  return (
    <section aria-labelledby="answers"><h2 id="answers">How soon people answered</h2>
      {answers.asked === 0 ? <p class="sub">Nothing was asked.</p> : (
        <table class="grid"><tbody>
          <tr><th scope="row">Asked</th><td class="r">{answers.asked.toLocaleString("en")}, {answers.open.toLocaleString("en")} open</td></tr>
          <tr><th scope="row">Answered, p50</th><td class="r">{seconds(answers.seconds.p50)}</td></tr>
          <tr><th scope="row">Answered, p99</th><td class="r">{seconds(answers.seconds.p99)}</td></tr>
          <tr><th scope="row">Within {answers.target === null ? "their targets" : seconds(answers.target)}</th><td class="r">{percent(answers.within.share)} of {answers.within.of}</td></tr>
          <tr><th scope="row">Until it continued, p50 and p99</th><td class="r">{seconds(answers.resolution.p50)}, {seconds(answers.resolution.p99)}</td></tr>
        </tbody></table>
      )}
    </section>
  );
}

function Checklist({ items }: { items: Item[] }): JSX.Element {
  const kinds: Record<Item["answer"], Kind> = { holds: "ok", "does not": "no", unknown: "few" };
  return (
    <section aria-labelledby="checklist"><h2 id="checklist">Ready for production?</h2>
      <table class="grid checks"><thead class="vh"><tr><th scope="col">Answer</th><th scope="col">What must hold</th></tr></thead>
        <tbody>{items.map((one) => <tr key={one.id}><td><Say kind={kinds[one.answer]}>{one.answer}</Say></td><td>{one.what} <small class="dim">{one.number}{one.todo && ` · ${one.todo}`}</small></td></tr>)}</tbody></table>
    </section>
  );
}

function day(at: number): string { return new Date(at * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" }); }

function policiesOf(report: Report): string {
  const names = Object.keys(report.policies);
  return names.length ? `policy ${names.slice(0, 3).map(version).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}` : "no policy";
}
