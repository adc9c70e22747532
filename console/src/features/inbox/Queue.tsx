/** The asks by deadline, and below them what can wait, by cause. One of them is open beside. */

import type { JSX } from "preact";
import type { Artifact, InboxAsk } from "../../api/types";
import { second } from "../../ui/clock";
import { clock, count, shorten, timeOfDay, visible } from "../../ui/format";
import { causeOf } from "../../ui/gauge";
import { placeOf, titleOf } from "../handle/asking";
import { agentsOf, dueAt, dueWords, type Group, keyOf } from "./grouping";

interface Props { asks: readonly InboxAsk[]; groups: readonly Group[]; made: readonly Artifact[]; open: string; choose: (key: string) => void; me: string; ahead: number }

/** Less than this is left: it is told in amber. */
const SOON = 900;

/** The item for what agents made; no ask has this key. */
export const MADE = "made";

export function Queue({ asks, groups, made, open, choose, me, ahead }: Props): JSX.Element {
  const number = groups.reduce((sum, group) => sum + group.alarms.length, 0);
  const first = Math.min(...groups.flatMap((group) => group.alarms.map((alarm) => alarm.at)));
  return (
    <nav class="queue" aria-label="Asks by deadline">
      <h2>Needs an answer, soonest first</h2>
      {asks.length === 0 && <p class="sub none">Nothing needs an answer.</p>}
      {asks.map((ask) => (
        <button key={keyOf(ask)} type="button" class="item" data-item={keyOf(ask)} aria-current={open === keyOf(ask) ? "true" : undefined} onClick={() => choose(keyOf(ask))}>
          <b>{nameOf(ask)}</b><TimeLeft ask={ask} ahead={ahead} />
          <small class="wide">{ask.agent}{ask.tenant && ` · ${ask.tenant}`}{ask.goal && ` · ${shorten(ask.goal, 90)}`}</small>
          <small class="dim wide">{[ask.is_review ? "review" : ask.reason.replaceAll("_", " "), placeOf(ask.prompt), ask.session_status === "waiting" || ask.is_review ? "" : ask.session_status, ownerWords(ask, me), ask.escalated_at !== null ? `escalated to ${ask.escalated_to || "operators"}` : ""].filter(Boolean).join(" · ")}</small>
        </button>
      ))}
      {groups.length > 0 && <h2>Batched, nothing to answer <span class="dim since">{number} since {timeOfDay(first)}</span></h2>}
      {groups.map((group) => (
        <button key={group.cause} type="button" class="item" data-item={`alarm ${group.cause}`} aria-current={open === `alarm ${group.cause}` ? "true" : undefined} onClick={() => choose(`alarm ${group.cause}`)}>
          <b>{causeOf(group.cause)} in {count(group.sessions, "session")}</b><span class="dim"><time>{timeOfDay(group.at)}</time></span>
          <small>{agentsOf(group.alarms)}</small>
          <small class="dim wide">{group.level === "notify" ? "warning" : "stepped in"} · {shorten(group.alarms[0]!.sentence ?? "", 110)}</small>
        </button>
      ))}
      {made.length > 0 && (
        <>
          <h2>Made by agents, due for review</h2>
          <button type="button" class="item" data-item={MADE} aria-current={open === MADE ? "true" : undefined} onClick={() => choose(MADE)}>
            <b>{count(made.length, "item")} to review</b><span class="dim"><time>{timeOfDay(made[0]!.due_at)}</time></span>
            <small class="dim wide">{shorten(made.map((one) => visible(one.name)).join(", "), 110)}</small>
          </button>
        </>
      )}
    </nav>
  );
}

function nameOf(ask: InboxAsk): string { return visible(titleOf(ask.prompt)) || (ask.tool ? `Allow ${ask.tool}?` : "It needs your answer."); }

export function ownerWords(ask: InboxAsk, me: string): string {
  if (!ask.owner) return "not assigned";
  return ask.owner === me ? (ask.owned_since === null ? "" : "yours") : `assigned to ${ask.owner}`;
}

/** What is left until the next thing happens, and which; or by how much it is late. */
export function TimeLeft({ ask, ahead }: { ask: InboxAsk; ahead: number }): JSX.Element {
  void second.value;
  const { left: before, over, title } = dueWords(ask);
  const left = dueAt(ask) - Date.now() / 1000 - ahead;
  const at = `${title}${timeOfDay(dueAt(ask))}`;
  if (left < 0) return <span class="left" title={at}>{over}<time>{clock(-left)}</time></span>;
  return <span class={left < SOON ? "left" : "dim"} title={at}>{before}<time>{clock(left)}</time></span>;
}
