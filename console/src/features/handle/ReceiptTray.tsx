/** The receipt: verdict, who, when, which choice; then what became of each effect, worst first, as it was observed. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Receipt } from "../../api/types";
import type { ReceiptLine, UndoChoice } from "../../model/events";
import { verdict } from "../../model/receipt";
import { argumentsOf, clock, count, timeOfDay, who } from "../../ui/format";
import { OUTCOME_ORDER, outcomeKey, outcomeShape } from "../../ui/Parts";
import { RunClock } from "../RunClock";
import { href } from "../../ui/router";
import { Shape } from "../../ui/Shape";
import { save } from "../../ui/save";

export const CHOICE: Record<UndoChoice, string> = { "in-flight": "undo what is in flight", all: "undo everything possible", none: "only stop" };
/** So many effects that may happen a second time are named. */
const NAMED = 3;
const DURABILITY: Record<string, string> = {
  power: "Written to disk: survives power loss", process: "Written: survives the end of the process", nothing: "Kept in memory only: lost when the server ends",
};

/** What may happen a second time in the new session: it stays, or may have happened. */
function Twice({ receipt, where }: { receipt: Receipt; where: ComponentChildren }): JSX.Element | null {
  const names = receipt.begins_anew ? [...new Set(receipt.lines.filter((line) => line.effect !== "hold" && line.outcome !== "undone").map((line) => line.name))] : [];
  if (!names.length) return null;
  return <span class="still twice">{names.slice(0, NAMED).map((name, index) => <>{index > 0 && ", "}<code key={name}>{name}</code></>)}{names.length > NAMED && ` and ${names.length - NAMED} more`} may happen a second time {where}.</span>;
}

interface Props { live: Live; me: string; startUndo?: (() => void) | undefined }

export function ReceiptTray({ live, me, startUndo }: Props): JSX.Element | null {
  void live.rev.value;
  const [isCopied, setCopied] = useState(false);
  const [isFolded, fold] = useState(false);
  const receipt = live.receipt.value;
  const session = live.run.session;
  if (!receipt || !session) return null;
  const lines = [...receipt.lines].sort((one, other) => OUTCOME_ORDER.indexOf(one.outcome) - OUTCOME_ORDER.indexOf(other.outcome));
  const still = lines.filter((line) => line.outcome === "still running");
  const says = verdict(lines, receipt.children);
  const { cancel, undo } = session;
  const by = undo ?? cancel;
  const title = session.status === "cancelling" ? "Cancelled except" : session.status === "cancelled" ? "Cancelled." : session.status === "failed" ? "Failed." : undo ? "Undone as far as possible." : "Completed.";
  const reads = live.run.entries.filter((one) => one.kind === "step" && one.of === "tool" && one.effect === "read").length;
  const copy = (): void => { void navigator.clipboard.writeText(receipt.table).then(() => setCopied(true)); };
  return (
    <div class="receipt">
      <header>
        {still.length > 0 && session.status === "cancelling"
          ? <p>{title} <code>{still[0]!.name}</code>, <span class="still">still running {live.run.step(still[0]!.step) && <RunClock live={live} since={live.run.step(still[0]!.step)!.begun_at} />}</span></p>
          : session.status === "cancelling" ? <p>Cancelling. {says}</p> : <p>{title} {says}</p>}
        <small>
          {by && <>by {who(by.by, me)} at {timeOfDay(by.since)} · </>}
          {undo ? "undo everything possible · " : cancel && `${CHOICE[cancel.undo]} · `}
          {receipt.final ? "final" : "provisional: the final receipt follows when it ends"}
        </small>
        <Twice receipt={receipt} where={<>in {session.restarted_as ? <code>{session.restarted_as}</code> : "the new session"}</>} />
      </header>
      {lines.length > 0 && !isFolded && <ul>{lines.map((line) => <Line key={`${line.step} ${line.name} ${line.attempt}`} line={line} live={live} />)}</ul>}
      <footer>
        {live.durability.value && <span>{DURABILITY[live.durability.value]}</span>}
        {reads > 0 && <span>{count(reads, "read")} had no effect</span>}
        {receipt.children > 0 && <span>{count(receipt.children, "child has a receipt of its own", "children have receipts of their own")}</span>}
        {session.restarted_as && <span>restarted as <a href={href({ run: session.restarted_as })}><code>{session.restarted_as}</code></a></span>}
        {session.unreached.length > 0 && <span class="still">not reached: {session.unreached.join(", ")}</span>}
        <span class="end">
          {startUndo && <button class="btn small" type="button" onClick={startUndo}>Undo…</button>}
          {lines.length > 0 && <button class="plain" type="button" aria-expanded={!isFolded} onClick={() => fold(!isFolded)}>{isFolded ? "Show lines" : "Hide lines"}</button>}
          <button class="plain" type="button" onClick={copy}>{isCopied ? "Copied" : "Copy"}</button>
          <button class="plain" type="button" onClick={() => save(`receipt-${session.id}.json`, { session: session.id, status: session.status, cancel, undo, ...receipt })}>Download JSON</button>
        </span>
      </footer>
    </div>
  );
}

function observed(line: ReceiptLine): string {
  const words: Partial<Record<ReceiptLine["outcome"], string>> = {
    "still running": "it has started and not ended", undone: line.effect === "hold" ? "released" : "its undo ran and succeeded", unknown: "it is unknown whether it happened",
    kept: line.effect === "hold" ? "still held" : "can still be undone", "cannot be undone": "it happened, and has no undo", "undo failed": "it may still be there", "undo ran with unknown result": "the result of the undo is unknown",
  };
  return line.detail ? `${line.detail}${line.outcome === "kept" ? "; can still be undone" : ""}` : words[line.outcome] ?? "";
}

export function Line({ line, live }: { line: ReceiptLine; live: Live }): JSX.Element {
  const step = live.run.step(line.step);
  const when = step && step.clock + ((step.ended_at ?? step.begun_at) - step.begun_at);
  return (
    <li data-outcome={outcomeKey(line.outcome)}>
      <b><Shape name={outcomeShape(line.outcome)} />{line.outcome}</b>
      <span>{line.effect === "hold" && "hold "}<code>{line.name}</code> {argumentsOf(line.arguments, 80)}</span>
      <span class="sub">{observed(line)}</span>
      <time>{line.outcome === "still running" && step ? <RunClock live={live} since={step.begun_at} /> : when !== undefined ? clock(when) : ""}</time>
    </li>
  );
}
