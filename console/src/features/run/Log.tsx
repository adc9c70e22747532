/** What happened: follows its tail, folds finished plan items to one line, and shows only the last part of a long run. */

import { type Signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Head } from "../../api/types";
import type { Run } from "../../model/run";
import { type Entry, revOf } from "../../model/story";
import { interrupts } from "../../model/interventions";
import { ENDED } from "../../model/status";
import { clock, count } from "../../ui/format";
import { readAloud } from "../../ui/settings";
import { Shape } from "../../ui/Shape";
import { EntryRow, isShown } from "./entries";
import { Rating } from "./Rating";

const SHOWN = 150;
type Block = { kind: "one"; entry: Entry } | { kind: "fold"; title: string; entries: Entry[] };

interface Props { live: Live; run: Run; me: string; mayJudge: boolean; follows: Signal<boolean>; family: readonly Head[] }

export function Log({ live, run, me, mayJudge, follows, family }: Props): JSX.Element {
  void live.rev.value;
  const toolsOnly = useSignal(false);
  const opened = useSignal<ReadonlySet<number>>(new Set());
  const more = useSignal(0);
  const session = run.session!;
  const isNow = run === live.run;
  const entries = run.entries.filter((entry) => isShown(entry) && (!toolsOnly.value || (entry.kind === "step" && entry.of !== "model")));
  const hidden = Math.max(0, entries.length - SHOWN - more.value);
  const blocks = folded(entries.slice(hidden), session.plan);
  const isStopping = ["pausing", "cancelling", "halted"].includes(session.status);
  const isLive = isNow && !ENDED.has(session.status);
  useFollowing(follows, isLive, live.rev.value);
  const toggle = (position: number): void => {
    const next = new Set(opened.value);
    if (!next.delete(position)) next.add(position);
    opened.value = next;
  };
  const lastStepIn = run.entries.findLast((entry) => entry.kind === "stepin" && interrupts(entry.decision));
  const row = (entry: Entry): JSX.Element => (
    <EntryRow key={entry.position} entry={entry} rev={revOf(entry)} live={live} me={me} isStopping={isStopping} isNow={isNow} mayJudge={mayJudge} isLast={entry === lastStepIn} child={entry.kind === "step" && entry.of === "child" ? family.find((head) => head.id === entry.child) : undefined} />
  );
  return (
    <>
      <h2>What happened
        <span class="end">
          {isLive && (follows.value ? <span class="dim">following <kbd aria-hidden="true">f</kbd></span> : <button class="plain" type="button" onClick={() => { follows.value = true; }}>following is off — jump to now</button>)}
          <button class="plain" type="button" aria-pressed={toolsOnly.value} onClick={() => { toolsOnly.value = !toolsOnly.value; }}>{toolsOnly.value ? "everything" : "tools only"}</button>
        </span>
      </h2>
      {hidden > 0 && <p class="earlier"><button class="btn small" type="button" onClick={() => { more.value += 500; follows.value = false; }}>Show {Math.min(500, hidden)} of {hidden.toLocaleString("en")} earlier lines</button></p>}
      <div role="log" aria-label="What happened" aria-live={readAloud.value === "on" ? "polite" : "off"}><ol class="log">
        {blocks.map((block) => {
          if (block.kind === "one") return row(block.entry);
          const first = block.entries[0]!;
          const isOpen = opened.value.has(first.position);
          return (
            <>
              <li class="fold" key={`fold ${first.position}`}><span class="at">{clock(first.clock)}</span><div>
                <button class="foldbtn" type="button" aria-expanded={isOpen} onClick={() => toggle(first.position)}><Shape name="done" /><span>{block.title}</span><small>{summary(block.entries)}</small></button>
              </div></li>
              {isOpen && block.entries.map(row)}
            </>
          );
        })}
      </ol></div>
      {isNow && mayJudge && ENDED.has(session.status) && <Rating live={live} score={session.score} />}
      {!blocks.length && <p class="sub none">{session.status === "queued" ? "Nothing has run." : "Nothing to show yet."}</p>}
    </>
  );
}

/** Entries of a plan item that is done are one line, except those of the last: that is what one reads. */
function folded(entries: Entry[], plan: readonly { title: string; status: string }[]): Block[] {
  const done = new Set(plan.filter((item) => item.status === "done").map((item) => item.title));
  const last = entries.findLast((entry) => entry.item !== "")?.item;
  const blocks: Block[] = [];
  for (const entry of entries) {
    const folds = entry.kind === "step" && entry.state === "finished" && done.has(entry.item) && entry.item !== last;
    const before = blocks[blocks.length - 1];
    if (folds && before?.kind === "fold" && before.title === entry.item) before.entries.push(entry);
    else if (folds) blocks.push({ kind: "fold", title: entry.item, entries: [entry] });
    else blocks.push({ kind: "one", entry });
  }
  return blocks;
}

function summary(entries: Entry[]): string {
  const calls = entries.filter((entry) => entry.kind === "step" && entry.of !== "model").length;
  const texts = entries.length - calls;
  return [calls && count(calls, "call"), texts && count(texts, "note")].filter(Boolean).join(", ");
}

/** How far the end of the log is below what the handle leaves to see. */
function below(): number {
  const end = document.querySelector(".col-log")?.getBoundingClientRect().bottom ?? 0;
  const top = document.querySelector(".dock")?.getBoundingClientRect().top ?? innerHeight;
  return end + 24 - top;
}

/** Keep the end in sight until the reader scrolls up. */
function useFollowing(follows: Signal<boolean>, isLive: boolean, rev: number): void {
  useEffect(() => {
    if (!isLive) return;
    let was = scrollY;
    const scrolled = (): void => {
      const isAtEnd = below() < 40;
      if (scrollY < was - 4 && !isAtEnd) follows.value = false;
      else if (isAtEnd) follows.value = true;
      was = scrollY;
    };
    addEventListener("scroll", scrolled, { passive: true });
    return () => removeEventListener("scroll", scrolled);
  }, [isLive]);
  const wasLive = useRef(false);
  useLayoutEffect(() => {
    // Once more when it ends: how it ended is what one wants to see.
    if ((isLive || wasLive.current) && follows.value && below() > 0) scrollBy(0, below());
    wasLive.current = isLive;
  }, [rev, follows.value, isLive]);
}
