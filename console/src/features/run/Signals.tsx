/** The signals: how far each is from its thresholds, a sentence only when it is past one, and on demand how it went. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Gauge, Gauges, Head } from "../../api/types";
import { doesAt, earlier, grown, isShown, isUnseen, marksOf, numberOf, pastOf, scaleOf } from "../../ui/gauge";
import type { Run } from "../../model/run";
import { spentSoFar } from "../../model/session";
import type { StepInEntry } from "../../model/story";
import { second } from "../../ui/clock";
import { count, timeOfDay, version } from "../../ui/format";
import { Word } from "../../ui/Parts";
import { type Happened, Plot } from "../../ui/Plot";
import { href } from "../../ui/router";
import { titleOf } from "./StepIn";

interface Props { live: Live; run: Run; gauges: Gauges | null; family: Head[] }

export function Signals({ live, run, gauges, family }: Props): JSX.Element {
  const [isOpen, open] = useState(false);
  void live.rev.value;
  if (run === live.run) void second.value;
  const session = run.session!;
  const now = run === live.run ? live.seenAt() : session.at;
  const all = gauges ? gauges.signals.map((one) => (run === live.run ? (session.status === "running" ? grown(one, now - gauges.at) : one) : earlier(one, session.at))) : [];
  const shown = all.filter(isShown);
  const unseen = all.filter(isUnseen);
  const paid = spentSoFar(session);
  const risk = all.find((one) => one.name === "risk" && one.value !== null);
  const plotted = isOpen ? all.filter((one) => one.history.length > 0 || shown.includes(one)) : shown;
  return (
    <>
      <h2>Signals {gauges && <span class="end"><button class="plain tiny" type="button" aria-expanded={isOpen} onClick={() => open(!isOpen)}>{isOpen ? "close history" : "history"}</button></span>}</h2>
      <ol class="gauges">
        {plotted.map((one) => <li key={one.name}><Tape gauge={one} />{isOpen && <Plot gauge={one} happened={happenedTo(run, one)} from={session.created_at} until={Math.max(session.at, run === live.run && gauges ? gauges.at : 0)} />}</li>)}
        <li><div class="gauge"><span>Tokens</span><b title={paid.written ? "an estimate: an answer is still being written" : undefined}>{paid.written ? "≈ " : ""}{paid.tokens.toLocaleString("en")}</b></div></li>
      </ol>
      {shown.some((one) => marksOf(one).length > 0) && <p class="key"><span><i />warns</span><span><i class="v" />steps in</span><span><i class="s" />stops</span></p>}
      {risk && <><h2 class="more">Combined risk</h2><p class="sub"><span class="num riskvalue">{numberOf(risk.value!, risk.unit)}</span> of 1{marksOf(risk).map((mark) => `, ${doesAt(risk, mark)}`).join("")}: the chance that it fails, by the combined model.</p></>}
      {unseen.length > 0 && <Unseen gauges={unseen} />}
      {gauges && <p class="key">{gauges.policy ? `policy ${version(gauges.policy)}, as a ${gauges.task_class.replace("_", " ")} task` : "No policy watches this run: nothing has thresholds."}</p>}
      {family.length > 0 && (
        <>
          <h2 class="more">Children</h2>
          <ul class="family">{family.map((child) => <li key={child.id}><Word status={child.status} /><a href={href({ run: child.id })}>{child.agent}</a></li>)}</ul>
        </>
      )}
    </>
  );
}

/** A tape with its marks: thin warns, medium steps in, thick stops. */
export function Tape({ gauge }: { gauge: Gauge }): JSX.Element {
  const scale = scaleOf(gauge);
  if (gauge.value === null) return <div class="gauge"><span>{gauge.title}</span><b class="dim">not measured</b></div>;
  const value = numberOf(gauge.value, gauge.unit);
  const past = pastOf(gauge, timeOfDay);
  const title = gauge.unseen ? { title: gauge.unseen } : {};
  if (scale === null) return <div class="gauge" data-signal={gauge.name} {...title}><span>{gauge.title}</span><b>{value}</b></div>;
  const at = (one: number): string => `${Math.min(99, (100 * one) / scale)}%`;
  const words = [value, past || marksOf(gauge).map((mark) => doesAt(gauge, mark)).join(", "), gauge.unseen ?? ""].filter(Boolean).join(", ");
  return (
    <div class={`gauge${gauge.past === "stop" ? " stop" : gauge.past ? " past" : ""}`} data-signal={gauge.name} {...title}
      role="meter" aria-label={gauge.title} aria-valuemin={0} aria-valuemax={scale} aria-valuenow={Math.min(gauge.value, scale)} aria-valuetext={words}>
      <span>{gauge.title}</span><b>{value}</b>
      <div class="tape" aria-hidden="true">
        <i style={{ width: `${Math.min(100, (100 * gauge.value) / scale)}%` }} />
        {marksOf(gauge).map((mark) => <u key={mark.stage} class={{ warn: "", intervene: "v", stop: "s" }[mark.stage]} style={{ left: at(mark.at) }} />)}
      </div>
      {past && <span class="state">{past}</span>}
    </div>
  );
}

function Unseen({ gauges }: { gauges: Gauge[] }): JSX.Element {
  return (
    <details class="notseen">
      <summary>{count(gauges.length, "signal")} not measured</summary>
      <dl>{gauges.map((one) => <div key={one.name}><dt>{one.title}</dt><dd>{one.unseen}</dd></div>)}</dl>
    </details>
  );
}

/** Where somebody stepped in, or was told, because of this signal. */
function happenedTo(run: Run, gauge: Gauge): Happened[] {
  return run.entries.filter((entry): entry is StepInEntry => entry.kind === "stepin").flatMap((entry) => {
    const reason = entry.decision.reasons.find((one) => one.signal === gauge.name);
    if (!reason) return [];
    const words = entry.decision.level === "notify" ? "policy noticed" : titleOf(entry).words.replace(/^P/, "p");
    return [{ at: entry.at, value: reason.value, words }];
  });
}
