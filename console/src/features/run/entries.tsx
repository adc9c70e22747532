/** One line of the log for each thing that happened. */

import { Component, type JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Head } from "../../api/types";
import { childWords } from "../../model/children";
import type { AskEntry, EndEntry, Entry, NoteEntry, SaidEntry, StepEntry, StopEntry } from "../../model/story";
import { argumentsOf, capitalised, clock, count, duration, fullTime, readable, shorten, timeOfDay, visible, who } from "../../ui/format";
import { EffectChip, Word } from "../../ui/Parts";
import { RunClock } from "../RunClock";
import { useTelling } from "../telling";
import { href } from "../../ui/router";
import { Shape } from "../../ui/Shape";
import { wantedBy } from "../handle/asking";
import { tally, verdict } from "../../model/receipt";
import { CANCEL_PREVIEW } from "../../model/run";
import type { Cut, Part } from "../../model/text";
import { LongText } from "./LongText";
import { StepIn } from "./StepIn";

export interface EntryProps { entry: Entry; rev: number; live: Live; me: string; /** Whether something of it may still run. */ isStopping: boolean; isNow: boolean; mayJudge: boolean; isLast: boolean;
  /** The child that the call had made, as it stands now. */
  child?: Head | undefined }

/** Drawn again only when it changed: a log of thousands of lines costs what its last one does. */
export class EntryRow extends Component<EntryProps> {
  override shouldComponentUpdate(next: Readonly<EntryProps>): boolean {
    const { entry, rev, isStopping, isNow, isLast, child } = this.props;
    return next.entry !== entry || next.rev !== rev || next.isStopping !== isStopping || next.isNow !== isNow || next.isLast !== isLast || next.child?.status !== child?.status || next.child?.busy !== child?.busy || next.child?.unattended !== child?.unattended;
  }

  override render(): JSX.Element | null {
    const { entry } = this.props;
    const content = body(this.props);
    if (!content) return null;
    return <li><span class="at" title={fullTime(entry.at)}>{clock(entry.clock)}</span><div>{content}</div></li>;
  }
}

function partsOf(entry: StepEntry): Part[] {
  return entry.text.parts.filter((part) => part.attempt >= entry.from && (entry.until === null || part.attempt <= entry.until));
}

/** Whether there is anything to see: a model that only called tools has said nothing. */
export function isShown(entry: Entry): boolean {
  if (entry.kind === "said") return !(entry.opens && entry.turn === 1);
  if (entry.kind !== "step" || entry.of !== "model") return true;
  return partsOf(entry).length > 0 || (entry.until === null && entry.text.preview.length > 0) || entry.state === "failed" || entry.state === "retrying" || typeof entry.value?.raw === "string";
}

function body(props: EntryProps): JSX.Element | null {
  const { entry, live, me } = props;
  switch (entry.kind) {
    case "step": return entry.of === "model" ? <Written entry={entry} live={live} me={me} isNow={props.isNow} /> : <Call {...props} entry={entry} />;
    case "said": return <Said entry={entry} live={live} me={me} />;
    case "ask": return <Asked entry={entry} me={me} />;
    case "stop": return <Stopped entry={entry} me={me} />;
    case "end": return <Ended entry={entry} live={live} />;
    case "note": return <Note entry={entry} />;
    case "stepin": return <StepIn {...props} entry={entry} />;
  }
}

function Written({ entry, live, me, isNow }: { entry: StepEntry; live: Live; me: string; isNow: boolean }): JSX.Element {
  const parts = partsOf(entry);
  const preview = entry.until === null ? entry.text.preview : [];
  const next = entry.text.preview[0];
  const isRunning = entry.state === "running" && entry.until === null && isNow;
  const shown = preview.map((one) => one.text).join("");
  const isNewAttempt = preview.length > 0 && parts.length > 0 && preview[0]!.attempt > parts[parts.length - 1]!.attempt;
  const last = parts[parts.length - 1];
  const joins = last !== undefined && !last.superseded && !last.cut && !isNewAttempt;
  return (
    <>
      {parts.map((part, index) => {
        const isOver = part.superseded || (next !== undefined && next.attempt > part.attempt && next.start <= part.start);
        const isOpen = index === parts.length - 1 && joins && isRunning;
        return (
          <div key={index}>
            <div class={isOver ? "text superseded" : "text"}><LongText text={isOpen ? part.text + shown : part.text} keeps={isOver || part.cut || entry.state !== "finished" ? "tail" : "head"} caret={isOpen} /></div>
            {part.cut && <div class="cutoff"><Shape name="interrupted" />{cutWords(part.cut, isOver, me)}</div>}
            {!part.cut && isOver && <div class="cutoff"><Shape name="interrupted" />superseded by the next attempt</div>}
          </div>
        );
      })}
      {!joins && (shown || (isRunning && !parts.length)) && <div class="text"><LongText text={shown} keeps="tail" caret={isRunning} /></div>}
      {!parts.length && !shown && typeof entry.value?.raw === "string" && <div class="text"><LongText text={entry.value.raw} /></div>}
      {entry.state === "failed" && <p class="res bad">failed: {shorten(entry.detail, 300)}</p>}
      {entry.state === "retrying" && entry.until === null && <p class="res">{retryWords(entry)}</p>}
      {entry.value?.blob && !parts.length && <Blob live={live} digest={entry.value.blob} size={entry.value.size} />}
    </>
  );
}

function cutWords(cut: Cut, isSuperseded: boolean, me: string): string {
  const { by, what } = cut;
  const whose = who(by, me) === "you" ? (what === "redirect" ? "you" : `your ${what}`) : what === "redirect" ? who(by, me) : `the ${what} by ${who(by, me)}`;
  const kept = cut.tokens ? ` · ${count(cut.tokens, "token")} kept` : "";
  const then = isSuperseded ? " · superseded by the next answer" : what === "cancel" ? " · kept with the session" : "";
  return `cut by ${whose} at ${timeOfDay(cut.at)}${kept}${then}`;
}

function Call({ entry, live, isStopping, isNow, child }: EntryProps & { entry: StepEntry }): JSX.Element {
  const isRunning = entry.state === "running";
  const stands = entry.of === "child" && isNow ? childWords(entry.state, child, live.run.session?.unreached.includes(entry.child) ?? false) : null;
  const outlives = isNow && (stands ? stands.runs : isRunning && isStopping);
  return (
    <div class={outlives ? "call outlives" : "call"}>
      <code>{entry.of === "child" ? entry.name.replace(/^spawn /, "") : entry.name}</code>
      <span class="args">{entry.of === "child" ? <a href={href({ run: entry.child })}>child {entry.child.split(".").at(-1)}</a> : argumentsOf(entry.arguments) || "no arguments"}</span>
      {entry.attempt > 1 && <span class="chip">attempt {entry.attempt}</span>}
      {entry.of !== "child" && <EffectChip effect={entry.effect} />}
      <span class="dur">{stands && !stands.runs ? "" : isRunning ? isNow ? <>{live.isSilent && "last seen "}running <RunClock live={live} since={entry.begun_at} /></> : "running" : entry.ended_at === null ? "" : duration(entry.ended_at - entry.begun_at)}</span>
      {stands ? <span class={stands.runs ? "res still" : "res"}>{stands.words}</span> : outlives
        ? <span class="res"><span class="still">still running</span>: {entry.effect === "irreversible" ? "it cannot be interrupted, so it finishes first" : "it may finish"}</span>
        : <Outcome entry={entry} live={live} />}
    </div>
  );
}

/** Which attempt failed, why, and when the next one may begin. */
function retryWords(entry: StepEntry): string {
  return `attempt ${entry.attempt} of ${entry.attempts} failed: ${shorten(entry.detail, 200)}; next attempt at ${timeOfDay(entry.again_at)}`;
}

function Outcome({ entry, live }: { entry: StepEntry; live: Live }): JSX.Element | null {
  const undo = { "": "", running: "; its undo runs", done: "; undone", failed: "; its undo failed", lost: "; its undo ran with unknown result" }[entry.undo];
  const told = entry.told_by && `${entry.told_by} said that it happened`;
  switch (entry.state) {
    case "running": return null;
    case "finished": return <Result entry={entry} live={live} suffix={[told, undo && undo.slice(2)].filter(Boolean).join("; ")} />;
    case "failed": return <span class="res bad">failed: {shorten(entry.detail, 400)}{undo}</span>;
    case "retrying": return <span class="res">{retryWords(entry)}{undo}</span>;
    case "asking": return <span class="res">waits for a person</span>;
    case "aborted": return <span class="res">aborted{entry.effect === "read" ? "; it is done again" : "; it may have happened"}{undo}</span>;
    case "lost": return <span class="res still">its process is gone; it may have happened{undo}</span>;
    case "closed": return <span class="res">{entry.detail}{undo}</span>;
    case "not begun": return <span class="res">not started: the gate was shut</span>;
  }
}

function Result({ entry, live, suffix }: { entry: StepEntry; live: Live; suffix: string }): JSX.Element | null {
  const [isOpen, open] = useState(false);
  const value = entry.value;
  if (!value) return suffix ? <span class="res">{suffix}</span> : null;
  if (value.blob) return <span class="res"><Blob live={live} digest={value.blob} size={value.size} /></span>;
  if (value.raw === null) return suffix ? <span class="res">{suffix}</span> : null;
  const whole = readable(value.raw);
  const line = typeof value.raw === "string" ? whole.replaceAll(/\s+/g, " ").trim() : argumentsOf(JSON.stringify(value.raw), 220);
  const isLong = whole.length > 220 || (typeof value.raw === "object" && line !== whole);
  return (
    <>
      <span class="res"><bdi>{shorten(line, 220)}</bdi>{suffix && <> · {suffix}</>}{isLong && <> <button class="plain tiny" type="button" aria-expanded={isOpen} onClick={() => open(!isOpen)}>{isOpen ? "less" : "all of it"}</button></>}</span>
      {isOpen && <div class="result"><LongText text={whole} mono /></div>}
    </>
  );
}

function Blob({ live, digest, size }: { live: Live; digest: string; size: number }): JSX.Element {
  const [text, show] = useState<string | null>(null);
  const load = (): void => { live.blob(digest).then((value) => show(readable(value)), (error: Error) => show(error.message)); };
  if (text !== null) return <div class="result"><LongText text={text} mono /></div>;
  return <button class="plain tiny" type="button" onClick={load}>read {Math.ceil(size / 1024).toLocaleString("en")} kB</button>;
}

const LEVEL: Record<SaidEntry["level"], string> = { step: "redirected the step", goal: "changed the goal", clarify: "clarified", event: "reported an event" };

function Said({ entry, live, me }: { entry: SaidEntry; live: Live; me: string }): JSX.Element {
  const name = who(entry.by, me);
  const says = entry.queued ? "queued a message" : entry.opens ? "opened a new turn" : LEVEL[entry.level];
  const isOpen = entry.queued ? live.run.session?.queue.some((one) => one.id === entry.id) : entry.seen_at === null;
  const seen = entry.withdrawn ? "withdrawn" : entry.seen_at !== null && !entry.opens ? `seen by the agent after ${duration(entry.seen_at - entry.at)}` : isOpen ? "not seen by the agent yet" : "";
  return (
    <div class="said">
      <div class="who"><Shape name="redirect" /><span>{capitalised(name)} {says}</span><span class="dim">{seen}{entry.edited && " · edited"}</span>
        {isOpen && !entry.withdrawn && <Withdraw live={live} message={entry.id} />}
      </div>
      {entry.withdrawn ? <del class="q">{visible(entry.text)}</del> : <q>{visible(entry.text)}</q>}
    </div>
  );
}

function Withdraw({ live, message }: { live: Live; message: string }): JSX.Element {
  const { words, tell } = useTelling();
  return <><button class="plain tiny" type="button" onClick={() => tell(live.withdraw(message))}>withdraw</button>{words && <span class="still" role="status">{words}</span>}</>;
}

function Asked({ entry, me }: { entry: AskEntry; me: string }): JSX.Element {
  const name = who(entry.by, me);
  const ended: Record<string, string> = { superseded: "withdrawn by a redirect", withdrawn: "withdrawn by the cancel", expired: "not answered in time" };
  return (
    <div class="stepin">
      <div class="who">{entry.end === "" ? <Word status="waiting">asks: {wantedBy(entry.prompt)?.title ?? shorten(entry.prompt, 300)}</Word> : <span class="word"><Shape name="waiting" />asked: {wantedBy(entry.prompt)?.title ?? shorten(entry.prompt, 300)}</span>}</div>
      <p class="why">{entry.end === "" ? "The answer is in the handle below; one answer counts."
        : entry.end === "answered" ? <>{capitalised(name)} answered <bdi>{shorten(readable(entry.value?.raw), 200)}</bdi> at {timeOfDay(entry.ended_at!)}</> : `${ended[entry.end] ?? entry.end} at ${timeOfDay(entry.ended_at!)}`}</p>
    </div>
  );
}

function Stopped({ entry, me }: { entry: StopEntry; me: string }): JSX.Element {
  const by = who(entry.by, me);
  const hold = entry.what === "pause" && entry.reason === CANCEL_PREVIEW;
  const words = { pause: entry.stopped_at === null && entry.lifted_at === null ? "Pausing" : hold ? "Held for the cancel preview" : "Paused", cancel: entry.stopped_at === null ? "Cancelling" : "Cancelled", halt: "Halted", undo: entry.stopped_at === null ? "Undoing" : "Undo" }[entry.what];
  const shape = { pause: entry.stopped_at === null ? "pausing" : "paused", cancel: entry.stopped_at === null ? "cancelling" : "cancelled", halt: "halted", undo: "undone" }[entry.what] as "paused";
  const lifted = entry.lifted_at === null ? "" : entry.lifted_by === "lapse" ? `the hold expired at ${timeOfDay(entry.lifted_at)}, nothing was chosen; it continued` : `${who(entry.lifted_by, me)} ${entry.what === "halt" ? "lifted it" : "resumed"} at ${timeOfDay(entry.lifted_at)}, after ${duration(entry.lifted_at - entry.at)}`;
  const facts = [
    entry.reason && !hold ? `“${entry.reason}”` : "",
    entry.stopped_at !== null && entry.what !== "undo" ? `nothing ran after ${duration(entry.stopped_at - entry.at)}` : "",
    entry.undo ? { "in-flight": "undo what is in flight", all: "undo everything possible", none: "only stop" }[entry.undo] : "",
    entry.unknown.length ? `unknown: ${entry.unknown.join(", ")}` : "",
    entry.unreached.length ? `not reached: ${entry.unreached.join(", ")}` : "",
    lifted,
  ].filter(Boolean);
  return (
    <div class="stepin">
      <div class="who"><span class="word"><Shape name={shape} />{words} by {by}</span> <span class="dim">at {timeOfDay(entry.at)}</span></div>
      {facts.length > 0 && <p class="why">{facts.map((fact, index) => <>{index > 0 && " · "}<bdi>{fact}</bdi></>)}</p>}
    </div>
  );
}

function Ended({ entry, live }: { entry: EndEntry; live: Live }): JSX.Element {
  if (entry.how === "failed") {
    return <div class="stepin"><div class="who"><Word status="failed">Failed</Word> <code class="dim">{entry.code}</code></div><p class="why">{shorten(entry.message, 1000)}</p></div>;
  }
  if (entry.how !== "completed") {
    // Its event has what the stop itself did; the receipt, which the handle shows, has what the whole run did.
    const receipt = live.receipt.value;
    const whole = receipt?.final && live.run.entries.findLast((one) => one.kind === "end") === entry ? receipt : null;
    return <div class="stepin"><div class="who"><span class="word"><Shape name={entry.how === "cancelled" ? "cancelled" : "undone"} />{entry.how === "cancelled" ? "Cancelled." : "Undone as far as possible."}{whole && ` ${verdict(whole.lines, whole.children)}`}</span></div><p class="why">{whole ? "The receipt is in the handle below." : entry.receipt.length ? `This stop: ${tally(entry.receipt)}.` : ""}</p></div>;
  }
  const said = live.run.entries.findLast((one) => one.kind === "step" && one.of === "model" && one.position < entry.position);
  const text = entry.value?.raw === null || entry.value === null ? "" : readable(entry.value.raw);
  const isSame = said?.kind === "step" && said.text.current.trim() === text.trim();
  return (
    <div class="stepin">
      <div class="who"><Word status="completed">Completed</Word></div>
      {entry.value?.blob ? <Blob live={live} digest={entry.value.blob} size={entry.value.size} /> : text && !isSame ? <div class="text"><LongText text={text} mono={typeof entry.value?.raw !== "string"} /></div> : null}
    </div>
  );
}

function Note({ entry }: { entry: NoteEntry }): JSX.Element {
  return (
    <div class="stepin">
      <div class="who"><span class={entry.amber ? "still" : ""}>{entry.words}</span></div>
      {entry.detail && <p class="why">{visible(entry.detail)}</p>}
      {entry.changes.map((change) => <p key={change.resource} class="changed"><code>{change.resource}</code> {change.why || `${change.before ?? "was not there"} → ${change.now ?? "is gone"}`}</p>)}
    </div>
  );
}
