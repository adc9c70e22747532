/** The plan: each item queued, running, done or interrupted, and below it a fact, not a percentage. */

import type { JSX } from "preact";
import type { PlanItem } from "../../model/events";
import type { Run } from "../../model/run";
import type { Session } from "../../model/session";
import { ENDED } from "../../model/status";
import { count, visible } from "../../ui/format";
import { Shape, type ShapeName } from "../../ui/Shape";

type Shown = PlanItem["status"] | "waiting";

/** A running item of a session that does not run was interrupted; one that waits for a person says so. */
function shownAs(item: PlanItem, session: Session): Shown {
  if (item.status !== "running") return item.status;
  if (session.status === "waiting") return "waiting";
  return session.status === "running" ? "running" : "interrupted";
}

export function Plan({ run }: { run: Run }): JSX.Element {
  const session = run.session!;
  if (!session.plan.length) return <p class="sub none">{session.status === "queued" ? "No plan yet." : "This agent has made no plan."}</p>;
  return (
    <ol class="plan">
      {session.plan.map((item, index) => {
        const shown = shownAs(item, session);
        return (
          <li key={index} data-item={shown}>
            <Shape name={shown as ShapeName} /><span>{visible(item.title)}<span class="vh">, {shown}</span></span>
            <small>{fact(item, shown, run, session)}</small>
          </li>
        );
      })}
    </ol>
  );
}

function fact(item: PlanItem, shown: Shown, run: Run, session: Session): string {
  const calls = run.entries.filter((entry) => entry.kind === "step" && entry.of !== "model" && entry.item === item.title).length;
  const called = calls ? count(calls, "call") : "";
  switch (shown) {
    case "queued": return ENDED.has(session.status) ? "never started" : "queued";
    case "running": return called || "running";
    case "waiting": return "waiting for an answer";
    case "interrupted": return ["interrupted", called, "kept"].filter(Boolean).join(" · ");
    case "done": return called || "done";
  }
}
