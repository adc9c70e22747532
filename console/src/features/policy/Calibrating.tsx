/** Thresholds from the runs that were recorded here, as a text to look at: nothing is used before a person saves it. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../../api/client";
import { version } from "../../ui/format";
import { Changes } from "./Changes";
import { percent } from "./Trial";
import { useTrying } from "./trying";
import type { Calibration } from "./types";

const SHARES = [0.05, 0.1, 0.2, 0.3];

export function Calibrating({ client, name, edit }: { client: Client; name: string; edit: (text: string, why: string) => void }): JSX.Element {
  const [share, choose] = useState(0.1);
  const trying = useTrying<Calibration>(client, "/policies/calibrate");
  const found = trying.found;
  useEffect(() => { if (found) document.getElementById("calibrated")?.scrollIntoView({ block: "nearest" }); }, [found]);
  return (
    <div class="calibrating">
      <div class="row">
        <label>Stop at most <select class="field small" value={String(share)} onChange={(event) => choose(Number(event.currentTarget.value))}>{SHARES.map((one) => <option key={one} value={String(one)}>{percent(one)}</option>)}</select> of the succeeding runs</label>
        {trying.isGoing ? <button class="btn small" type="button" onClick={trying.stop}>Stop</button> : <button class="btn small" type="button" onClick={() => trying.start({ policy: name, false_stops: share })}>Calibrate from recorded runs</button>}
        <span class="sub" role="status">{trying.words || (trying.problem ? (trying.problem.code === "too_few_runs" ? `Too few to say: ${trying.problem.detail}` : trying.problem.detail) : "")}</span>
      </div>
      {found && !trying.isGoing && (
        <section class="proposal" id="calibrated" aria-label="Calibrated thresholds">
          <p><b>The recorded runs propose another {version(found.policy)}.</b> {found.sentence}</p>
          <Changes changes={found.changes} than={version(found.policy)} />
          {found.notes.map((one) => <p key={one} class="sub">{one}</p>)}
          <div class="row end">
            <button class="btn solid" type="button" onClick={() => { edit(found.yaml, `Calibrated from ${found.failures} failing and ${found.successes} succeeding recorded runs.`); trying.forget(); scrollTo(0, 0); }}>Open as YAML</button>
            <button class="btn" type="button" onClick={trying.forget}>Discard</button>
          </div>
        </section>
      )}
    </div>
  );
}
