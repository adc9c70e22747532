/** The table of the fleet: thousands of rows, of which those in sight are drawn. */

import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Head } from "../../api/types";
import { storedLine } from "../../model/contact";
import { ENDED } from "../../model/status";
import { second } from "../../ui/clock";
import { cap, clock, fullTime, shorten, spent, timeOfDay, unpricedWords, visible, WORKED } from "../../ui/format";
import { Left, Word } from "../../ui/Parts";
import { href } from "../../ui/router";
import type { ShapeName } from "../../ui/Shape";
import { titleOf } from "../handle/asking";
import type { Order } from "./filter";
import { type Fleet, isSilent, workedOf } from "./fleet";
import type { Selection } from "./selection";
import { bringInSight, useSight } from "./window";

interface Props { fleet: Fleet; rows: Head[]; selection: Selection; sort: (order: Order) => void; ahead: number; steps: RefObject<Steps | null> }

/** How keys go through rows that may not be drawn. */
export interface Steps { to: (by: number) => string | null; focused: () => string | null }

export function Table({ fleet, rows, selection, sort, ahead, steps }: Props): JSX.Element {
  const body = useRef<HTMLTableSectionElement>(null);
  const sight = useSight(body, rows.length);
  const cursor = useRef<string | null>(null);
  const wanted = useRef<string | null>(null);
  const latest = useRef(rows);
  latest.current = rows;
  const focused = (): string | null => (document.activeElement instanceof HTMLElement && body.current?.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.id ?? null : null);
  useLayoutEffect(() => {
    steps.current = {
      focused,
      to: (by) => {
        const all = latest.current;
        const here = all.findIndex((head) => head.id === (wanted.current ?? focused() ?? cursor.current));
        const index = Math.min(all.length - 1, Math.max(0, here + by));
        const head = all[index];
        if (!head || !body.current) return null;
        bringInSight(body.current, index, sight.height);
        wanted.current = head.id;
        focusOn(body.current, wanted);
        return head.id;
      },
    };
  }, [sight.height]);
  useLayoutEffect(() => { if (wanted.current && body.current) focusOn(body.current, wanted); });
  const drawn = rows.slice(sight.first, sight.last);
  const { order } = fleet.filter.value;
  const chosen = rows.length > 0 && rows.every((head) => selection.ids.value.has(head.id));
  return (
    <div class="scroller">
      <table class="grid cards fleet" aria-rowcount={rows.length + 1} aria-label="Sessions">
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" class="pick"><label class="tick-box"><input type="checkbox" checked={chosen} ref={(box) => { if (box) box.indeterminate = !chosen && selection.ids.value.size > 0; }} onChange={(event) => selection.all(event.currentTarget.checked ? rows : [])} /><span class="vh">Select all {rows.length.toLocaleString("en")}</span></label></th>
            <th scope="col" class="st" aria-sort={order === "needs" ? "ascending" : undefined}><Sorting order="needs" now={order} sort={sort}>Status</Sorting></th>
            <th scope="col">Goal, agent</th>
            <th scope="col" class="cl hide-m">Class</th>
            <th scope="col" class="r el" aria-sort={order === "elapsed" ? "descending" : undefined}><Sorting order="elapsed" now={order} sort={sort}>Worked</Sorting></th>
            <th scope="col" class="r sp hide-s">Steps</th>
            <th scope="col" class="r co" aria-sort={order === "cost" ? "descending" : undefined}><Sorting order="cost" now={order} sort={sort}>Spent of cap</Sorting></th>
            <th scope="col" class="r ri hide-s" aria-sort={order === "risk" ? "descending" : undefined}><Sorting order="risk" now={order} sort={sort}>Risk</Sorting></th>
          </tr>
        </thead>
        <tbody ref={body} onPointerMove={(event) => { if (event.pointerType === "mouse") fleet.hold(); }} onPointerLeave={() => fleet.release()}
          onFocusIn={(event) => { cursor.current = (event.target as HTMLElement).closest("tr")?.dataset.id ?? null; }}>
          <Space height={sight.first * sight.height} />
          {drawn.map((head, index) => <Row key={head.id} head={head} at={sight.first + index} isChosen={selection.ids.value.has(head.id)} selection={selection} ahead={ahead} />)}
          <Space height={(rows.length - sight.last) * sight.height} />
        </tbody>
      </table>
    </div>
  );
}

/** The room of the rows that are not drawn. */
function Space({ height }: { height: number }): JSX.Element {
  return <tr class="space" aria-hidden="true" hidden={height <= 0}><td style={{ height: `${height}px` }} /></tr>;
}

function Sorting({ order, now, sort, children }: { order: Order; now: Order; sort: (order: Order) => void; children: string }): JSX.Element {
  return <button class="sorting" type="button" onClick={() => sort(order)}>{children}{now === order && <span aria-hidden="true"> {order === "needs" ? "↑" : "↓"}</span>}</button>;
}

function focusOn(body: HTMLElement, wanted: { current: string | null }): void {
  const link = [...body.querySelectorAll<HTMLElement>("tr[data-id]")].find((row) => row.dataset.id === wanted.current)?.querySelector<HTMLElement>(".rowlink");
  if (!link) return;
  wanted.current = null;
  link.focus({ preventScroll: true });
}

function Row({ head, at, isChosen, selection, ahead }: { head: Head; at: number; isChosen: boolean; selection: Selection; ahead: number }): JSX.Element {
  const goal = visible(head.goal) || "no goal was given";
  return (
    <tr data-id={head.id} data-chosen={isChosen || undefined} aria-rowindex={at + 2}>
      <td class="pick"><label class="tick-box"><input type="checkbox" checked={isChosen} aria-label={`Select ${shorten(goal, 60)}`} onClick={(event) => selection.toggle(head.id, event.shiftKey)} /></label></td>
      <td class="st"><Word status={head.finishes_first ? (head.finishes_first === "pause" ? "pausing" : "cancelling") : head.status} {...(head.finishes_first ? { children: head.finishes_first === "pause" ? "pausing, finishes first" : "cancelling, finishes first" } : {})} {...shapeOf(head)} /></td>
      <td class="what">
        <div><a class="rowlink" href={href({ run: head.id })}>{goal}</a></div>
        <div class="under"><Saying head={head} ahead={ahead} /><small>{head.agent}{head.parent && ` · child of ${head.parent}`}{head.turn > 1 && ` · turn ${head.turn}`}{head.labels.length > 0 && ` · ${head.labels.join(" ")}`}</small></div>
      </td>
      <td class="cl hide-m">{head.task_class?.replace("_", " ") ?? <span class="dim">–</span>}</td>
      <td class="r el" title={`${WORKED}; begun ${fullTime(head.created_at)}`}><Elapsed head={head} ahead={ahead} /></td>
      <td class="r sp hide-s">{head.finished_steps.toLocaleString("en")}</td>
      <td class="r co" title={[head.budget === null ? "no cap" : `of ${cap(head.budget)}`, unpricedWords(head)].filter(Boolean).join("; ")}>{head.cost > 0 || head.unpriced === 0 ? <>{spent(head)}<Mini share={head.budget ? head.cost / head.budget : 0} hot={head.budget !== null && head.cost >= 0.9 * head.budget} /></> : <span class="dim">{spent(head)}</span>}</td>
      <td class="r ri hide-s">{head.risk === null ? <span class="dim">–</span> : head.risk.toFixed(2)}<Mini share={head.risk ?? 0} hot={(head.risk ?? 0) >= 0.7} /></td>
    </tr>
  );
}

function Elapsed({ head, ahead }: { head: Head; ahead: number }): JSX.Element {
  if (head.working_since !== null) void second.value;
  const seconds = workedOf(head, Date.now() / 1000 + ahead);
  return seconds === null ? <span class="dim">–</span> : <time>{clock(seconds)}</time>;
}

function Mini({ share, hot }: { share: number; hot: boolean }): JSX.Element {
  return <span class={hot ? "mini hot" : "mini"} aria-hidden="true"><i style={{ width: `${Math.min(100, Math.max(0, 100 * share))}%` }} /></span>;
}

/** Hollow: something of a halted one still runs, or nothing of a running one does. */
function shapeOf(head: Head): { shape?: ShapeName } {
  if (head.status === "halted" && head.busy) return { shape: "halted-open" };
  return (head.unattended || isSilent(head)) && head.status === "running" ? { shape: "queued" } : {};
}

/** What needs saying, if anything does. */
function Saying({ head, ahead }: { head: Head; ahead: number }): JSX.Element | null {
  const ask = head.open_asks[0];
  const isStopping = head.status === "pausing" || head.status === "cancelling" || head.status === "halted";
  const words = head.asks > 0 && !ENDED.has(head.status)
    ? <b class="left">{ask ? shorten(titleOf(ask.prompt), 60) : head.asks === 1 ? "has a question" : `has ${head.asks} questions`}{ask?.deadline != null && <> <Left until={ask.deadline} ahead={ahead} /> left</>}{ask && head.asks > 1 && ` and ${head.asks - 1} more`}</b>
    : head.pending.length > 0 ? <b class="still">{storedLine(head.pending, head.unreachable_since === null ? null : timeOfDay(head.unreachable_since))}</b>
    : isStopping && head.busy ? <b class="still">{head.busy} still running</b>
    : head.unattended ? <b class="still">its worker is gone</b>
    : head.silent_since !== null ? <b class="still">its worker does not respond: last heartbeat {timeOfDay(head.silent_since)}</b>
    : head.status === "halted" ? <b>until an operator releases it</b>
    : head.task_class === "protected" && head.status === "running" ? <b>protected: finishes its turn first</b>
    : null;
  return words && <>{words}<small>·</small></>;
}
