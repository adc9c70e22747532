/** What is spent. Signals with their thresholds come here once they are told of. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import type { Run } from "../../model/run";
import { elapsed, isWatched } from "../../model/session";
import { second } from "../../ui/clock";
import { cap, clock, money, version } from "../../ui/format";
import { href } from "../../ui/router";
import { Meter, Word } from "../../ui/Parts";
import type { Head } from "../../api/types";

export function Spent({ live, run, family }: { live: Live; run: Run; family: Head[] }): JSX.Element {
  void live.rev.value;
  if (run === live.run) void second.value;
  const session = run.session!;
  const calls = run.entries.filter((entry) => entry.kind === "step" && entry.of !== "model");
  const errors = calls.filter((entry) => entry.kind === "step" && entry.state === "failed").length;
  const budget = session.terms.budget;
  const now = run === live.run ? live.now() : session.at;
  const rows: [string, string, string][] = [
    ["Time it has run", clock(elapsed(session, now)), ""],
    ["Cost", money(session.cost), budget === null ? "" : ` of ${cap(budget)}`],
    ["Tokens", session.tokens.toLocaleString("en"), ""],
    ["Errors", String(errors), ` of ${calls.length}`],
    ["Turn", String(session.turn), ""],
  ];
  return (
    <>
      <h2>Signals</h2>
      <ol class="gauges">
        {rows.map(([name, value, more]) => (
          <li key={name}><div class="gauge"><span>{name}</span><b>{value}<small>{more}</small></b>
            {name === "Cost" && budget !== null && <Meter className="tape" label="Cost" value={session.cost} max={budget} words={`${money(session.cost)} of ${cap(budget)}`} />}
          </div></li>
        ))}
      </ol>
      <p class="key">{isWatched(session) ? `policy ${version(session.terms.policy)}` : "No policy watches this run: nothing has thresholds."}</p>
      {family.length > 0 && (
        <>
          <h2 class="more">Children</h2>
          <ul class="family">{family.map((child) => <li key={child.id}><Word status={child.status} /><a href={href({ run: child.id })}>{child.agent}</a></li>)}</ul>
        </>
      )}
    </>
  );
}
