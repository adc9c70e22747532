/** Looking at the journal at an earlier point, and forking from there. The handle stays with the run as it is now. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Live } from "../../api/live";
import { timeOfDay } from "../../ui/format";
import { go, href } from "../../ui/router";

interface Props { live: Live; at: number | null; inspect: (position: number | null) => void; isForking: boolean }

export function Inspecting({ live, at, inspect, isForking }: Props): JSX.Element {
  void live.rev.value;
  const [words, say] = useState("");
  const last = live.run.position;
  const record = at === null ? undefined : live.records[at - 1];
  const fork = async (paused: boolean): Promise<void> => {
    say("Forking…");
    try {
      const made = await live.fork(at, paused);
      go(href({ run: made.id }));
    } catch (error) {
      say((error as Error).message);
    }
  };
  return (
    <section class="note looking" aria-label="Inspect">
      <span><b>{at === null ? "Fork" : `Event ${at} of ${last}`}</b>{record && <> <code>{record.type}</code> at <time>{timeOfDay(record.at)}</time></>}{at === null && " from its last checkpoint."} {at === null || isForking ? "What had finished by then is not done again." : "Plan, log and figures are as they were then."}</span>
      {at !== null && <label class="seek"><span class="vh">Journal position</span><input type="range" min={1} max={last} value={at} onInput={(event) => inspect(Number(event.currentTarget.value))} /></label>}
      <span class="end row">
        {words && <span class="sub" role="status">{words}</span>}
        <button class="btn small" type="button" onClick={() => void fork(false)}>{at === null ? "Fork and run" : "Fork from here"}</button>
        <button class="btn small" type="button" onClick={() => void fork(true)}>Fork, paused</button>
        <button class="plain" type="button" onClick={() => inspect(null)}>{at === null ? "close" : "back to now"}</button>
      </span>
    </section>
  );
}
