/** What it would have done to the runs that were recorded here: what to try, against what, on how many. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Curve, nameOf, TrialFigures, When } from "./Trial";
import type { Trying } from "./trying";
import type { Summary, Trial } from "./types";

const RUNS = [200, 500, 2000];

export function Backtest({ trial, name, version, draft, policies, children }: { trial: Trying<Trial>; name: string | null; version: number; draft: string | null; policies: Summary[]; children: ComponentChildren }): JSX.Element {
  const [other, choose] = useState("");
  const [limit, take] = useState(RUNS[0]!);
  const found = trial.found;
  const start = (): void => {
    const against = [...(draft !== null && name !== null ? [`${name}@${version}`] : []), ...(other ? [other] : [])];
    trial.start(draft !== null ? { document: draft, against, limit } : { policy: `${name}@${version}`, against, limit });
  };
  return (
    <section aria-labelledby="backtest">
      <h2 id="backtest">What {found ? nameOf(found.policies[0]!) : "it"} would have done</h2>
      <div class="row trying">
        <label>Against <select class="field small" value={other} onChange={(event) => choose(event.currentTarget.value)}><option value="">{draft !== null && name !== null ? `v${version} alone` : "doing nothing"}</option>{policies.filter((one) => one.name !== name).map((one) => <option key={one.name} value={one.name}>{one.name} v{one.version}</option>)}</select></label>
        <label>on the newest <select class="field small" value={String(limit)} onChange={(event) => take(Number(event.currentTarget.value))}>{RUNS.map((one) => <option key={one} value={String(one)}>{one.toLocaleString("en")} runs</option>)}</select></label>
        {trial.isGoing ? <button class="btn small" type="button" onClick={trial.stop}>Stop</button> : <button class="btn small" type="button" onClick={start} disabled={name === null && draft === null}>{draft !== null ? "Backtest this text" : "Backtest"}</button>}
      </div>
      {children}
      <p class="sub" role="status">{trial.words}</p>
      {trial.problem && <p class="few" role="status">{trial.problem.code === "no_recordings" ? "No session has run here yet: there is nothing to test it with." : trial.problem.detail}</p>}
      {found && (
        <div data-stale={trial.isGoing || undefined} class="tried">
          <TrialFigures trial={found} />
          <Curve trial={found} />
          <When trial={found} />
          {found.notes.length > 0 && <ul class="notes">{found.notes.map((one) => <li key={one}>{one}</li>)}</ul>}
        </div>
      )}
    </section>
  );
}
