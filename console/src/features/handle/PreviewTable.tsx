/** The cancel's preview: each effect with its consequence under each choice, in flight first, reads in one line at the end. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Preview } from "../../api/types";
import { holdWords } from "../../model/contact";
import type { ReceiptLine, UndoChoice } from "../../model/events";
import { ENDED } from "../../model/status";
import { sizes, undone } from "../../model/receipt";
import { argumentsOf, timeOfDay } from "../../ui/format";
import { EffectChip, outcomeKey, outcomeShape } from "../../ui/Parts";
import { RunClock } from "../RunClock";
import { Shape } from "../../ui/Shape";

const CHOICES: [UndoChoice, string, string][] = [
  ["in-flight", "Undo what is in flight", "keeps finished work · the default"],
  ["all", "Undo everything possible", "newest first"],
  ["none", "Only stop", "leaves everything as it is"],
];

/** What the confirming slot says. */
export function confirmWords(preview: Preview | null, choice: UndoChoice): string {
  if (!preview) return "reading what was done";
  const { lines } = preview[choice];
  const number = undone(lines, preview.none.lines);
  if (choice === "none") return "undo nothing";
  if (!lines.length) return "nothing was changed";
  if (!number) return "undo nothing, keep the rest";
  return choice === "all" ? `undo ${number}, newest first` : `undo ${number}, keep the rest`;
}

function words(line: ReceiptLine, live: Live): string {
  const isOpen = [...(live.run.session?.calls.values() ?? [])].some((call) => call.step === line.step && !call.end);
  if (line.outcome === "cannot be undone") return isOpen ? "finishes; cannot be undone" : "stays; cannot be undone";
  if (line.effect === "hold") return line.outcome === "undone" ? "released" : "stays held";
  if (line.outcome === "undone") return "undone";
  return line.detail ? `${line.outcome}: ${line.detail}` : line.outcome;
}

interface Props { live: Live; preview: Preview | null; choice: UndoChoice; choose: (choice: UndoChoice) => void }

/** What holds during the choice: what the journal says, and never more. What is protected is not held for it. */
function lead(live: Live): string {
  const session = live.run.session;
  if (session && ENDED.has(session.status)) return "It has ended in the meantime.";
  const goesOn = session === null || ["queued", "running", "waiting"].includes(session.status);
  if (goesOn && session?.terms.task_class === "protected") return "It is protected and keeps running: it finishes this turn first.";
  return holdWords(goesOn ? "asked" : "shut", live.outbox.pending.value.find((press) => press.verb === "pause"), live.connection.value, live.contact.value, timeOfDay);
}

export function PreviewTable({ live, preview, choice, choose }: Props): JSX.Element {
  const radio = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => radio.current?.focus(), []);
  const calls = live.run.session?.calls;
  const isOpen = (line: ReceiptLine): boolean => { const call = calls?.get(line.step); return call !== undefined && !call.end; };
  const lines = preview ? [...preview["in-flight"].lines].sort((one, other) => Number(isOpen(other)) - Number(isOpen(one))) : [];
  const under = (line: ReceiptLine, under: UndoChoice): ReceiptLine => preview![under].lines.find((one) => one.step === line.step && one.name === line.name) ?? line;
  const reads = live.run.entries.filter((one) => one.kind === "step" && one.of === "tool" && one.effect === "read");
  const names = [...new Set(reads.map((one) => (one.kind === "step" ? one.name : "")))];
  return (
    <>
      <p class="lead">{lead(live)} Choose what to undo.</p>
      <table class="choices">
        <thead>
          <tr>
            <th scope="col"><span class="sub">{preview ? sizes(lines) : "Reading what was done…"}</span></th>
            {CHOICES.map(([name, title, says]) => (
              <th key={name} scope="col" class={choice === name ? "on" : ""}>
                <label>
                  <input ref={choice === name ? radio : undefined} type="radio" name="midcourse-undo" value={name} checked={choice === name} onChange={() => choose(name)} />
                  {title}<span>{says}</span>
                </label>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={`${line.step} ${line.name}`}>
              <th scope="row">
                <code>{line.name}</code> <EffectChip effect={line.effect} />
                {(line.arguments || isOpen(line)) && <><br /><span class="sub">{argumentsOf(line.arguments, 70)}{isOpen(line) && <>{line.arguments && " · "}in flight <RunClock live={live} since={calls!.get(line.step)!.since} /></>}</span></>}
              </th>
              {CHOICES.map(([name]) => {
                const then = under(line, name);
                return (
                  <td key={name} class={choice === name ? "on" : ""}>
                    <span class="oc" data-outcome={outcomeKey(then.outcome)}><Shape name={outcomeShape(then.outcome)} /><span>{words(then, live)}</span></span>
                  </td>
                );
              })}
            </tr>
          ))}
          {reads.length > 0 && (
            <tr>
              <th scope="row">{names.slice(0, 2).map((name, index) => <>{index > 0 && ", "}<code>{name}</code></>)}{reads.length > Math.min(2, names.length) && ` and ${reads.length - Math.min(2, names.length)} more`} <EffectChip effect="read" /></th>
              {CHOICES.map(([name]) => <td key={name} class={choice === name ? "on" : ""}><span class="oc" data-outcome="kept"><Shape name="kept" /><span>nothing to undo</span></span></td>)}
            </tr>
          )}
          {preview && !lines.length && !reads.length && (
            <tr>
              <th scope="row">{preview.none.children ? "Its children have previews of their own" : "Nothing was changed"}</th>
              {CHOICES.map(([name]) => <td key={name} class={choice === name ? "on" : ""}><span class="oc" data-outcome="kept"><Shape name="kept" /><span>nothing to undo</span></span></td>)}
            </tr>
          )}
        </tbody>
      </table>
    </>
  );
}
