/** A policy, or the agent itself, stepped in: who, why, the arithmetic, what was not seen, what came of it, and whether it was right. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Verdict } from "../../model/events";
import { figuresOf, interrupts, sentenceOf, unseenOf } from "../../model/interventions";
import type { StepInEntry } from "../../model/story";
import { capitalised, duration, readable, shorten, timeOfDay, version, visible, who } from "../../ui/format";
import { Shape, type ShapeName } from "../../ui/Shape";
import { useTelling } from "../telling";

interface Props { entry: StepInEntry; live: Live; me: string; isNow: boolean; mayJudge: boolean; /** The keys + and − mean this one. */ isLast: boolean }

export function StepIn(props: Props): JSX.Element {
  const { entry, me } = props;
  const { decision } = entry;
  if (!interrupts(decision)) return <Told {...props} />;
  const { words, shape } = titleOf(entry);
  const colour = decision.level === "ask_plan" ? { "data-outcome": "unknown" } : entry.ask?.end === "" ? { "data-status": "waiting" } : {};
  const facts = factsOf(entry, me);
  return (
    <div class="stepin">
      <div class="who"><span class="word" {...colour}><Shape name={shape} />{words}</span> <span class="dim">{version(decision.policy)}</span></div>
      <p class="why">{visible(sentenceOf(decision))}</p>
      <Figures entry={entry} />
      {facts.length > 0 && <p class="why">{facts.map((fact, index) => <>{index > 0 && " · "}<bdi>{fact}</bdi></>)}</p>}
      <Judge {...props} />
    </div>
  );
}

/** Only told: one quiet line, and the figures for who wants them. */
function Told(props: Props): JSX.Element {
  const { decision, verdict } = props.entry;
  const [isOpen, open] = useState(false);
  const would = WOULD[decision.wanted];
  return (
    <div class="stepin told">
      <p class="sub">Policy noticed: {visible(sentenceOf(decision))} <span class="dim">{version(decision.policy)}{would && `; would have ${would}`}{verdict && `; labelled ${verdict}`}</span> <button class="plain tiny" type="button" aria-expanded={isOpen} onClick={() => open(!isOpen)}>{isOpen ? "less" : "why"}</button></p>
      {isOpen && <><Figures entry={props.entry} /><Judge {...props} isLast={false} /></>}
    </div>
  );
}

const WOULD: Partial<Record<string, string>> = { ask_plan: "asked for its plan", ask: "had it ask", pause: "paused it", stop: "stopped it" };

function Figures({ entry: { decision } }: { entry: StepInEntry }): JSX.Element {
  const figures = figuresOf(decision);
  const unseen = unseenOf(decision);
  return (
    <>
      {figures.length > 0 && <p class="math">{figures.map(visible).join("\n")}</p>}
      {unseen.length > 0 && <p class="unseen">Not seen: {visible(unseen.join(", "))}</p>}
    </>
  );
}

export function titleOf({ decision, ask, stop }: StepInEntry): { words: string; shape: ShapeName } {
  const held: ShapeName = stop && stop.stopped_at === null && stop.lifted_at === null ? "pausing" : "paused";
  switch (decision.level) {
    case "ask_plan": return { words: "Policy asked for its plan", shape: "unknown" };
    case "ask": return { words: ask?.end === "" ? "The agent asks" : "The agent asked", shape: "waiting" };
    case "stop": return { words: "Policy stopped it", shape: held };
    default: return { words: "Policy paused it", shape: held };
  }
}

/** What came of it, as far as it was observed. */
function factsOf({ at, said, ask, stop }: StepInEntry, me: string): string[] {
  const facts: string[] = [];
  if (said) facts.push(said.withdrawn ? "withdrawn before the agent had read it" : said.seen_at === null ? "the agent has not read it yet" : `the agent read it after ${duration(said.seen_at - at)}`);
  if (stop && stop.stopped_at !== null) facts.push(`nothing ran after ${duration(stop.stopped_at - at)}`);
  if (ask?.end === "answered") facts.push(`${who(ask.by, me)} answered “${shorten(readable(ask.value?.raw), 200)}” at ${timeOfDay(ask.ended_at!)}, after ${duration(ask.ended_at! - at)}`);
  else if (stop && stop.lifted_at !== null) facts.push(`${who(stop.lifted_by, me)} resumed at ${timeOfDay(stop.lifted_at)}, after ${duration(stop.lifted_at - at)}`);
  else if (ask?.end === "") facts.push("the answer is in the handle below");
  else if (ask && ask.ended_at !== null) facts.push(`${ask.end === "withdrawn" ? "withdrawn by the cancel" : "closed by a redirect"} at ${timeOfDay(ask.ended_at)}`);
  return facts.map((fact, index) => (index === 0 ? capitalised(fact) : fact));
}

const VERDICTS: [Verdict, key: string, shown: string][] = [["right", "+", "+"], ["wrong", "-", "−"], ["unsure", "", ""]];

function Judge({ entry, live, me, isNow, mayJudge, isLast }: Props): JSX.Element | null {
  const { words, tell } = useTelling();
  const { verdict } = entry;
  const said = verdict && `${capitalised(who(entry.judged_by, me))} said: ${verdict}.`;
  if (!isNow || !mayJudge) return said ? <span class="judge">{said}</span> : null;
  return (
    <span class="judge" role="group" aria-label="Was that right?">
      <span role="status">{words || said || "Was that right?"}</span>
      {VERDICTS.map(([name, key, shown]) => (
        <button key={name} class="btn small" type="button" aria-pressed={verdict === name} data-key={(isLast && key) || undefined} aria-keyshortcuts={(isLast && key) || undefined}
          onClick={() => tell(live.label(entry.id, name))}>{capitalised(name)}{isLast && shown && <> <kbd aria-hidden="true">{shown}</kbd></>}</button>
      ))}
    </span>
  );
}
