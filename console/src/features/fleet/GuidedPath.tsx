/** Two minutes with a sample agent, on a server that has it: start it, pause, redirect, cancel, read the receipt. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../../api/client";
import type { Agent } from "../../api/types";
import { href } from "../../ui/router";

const AGENT = "churn-memo";

export function GuidedPath({ client }: { client: Client }): JSX.Element | null {
  const [agent, tell] = useState<Agent | undefined>();
  useEffect(() => {
    client.all<Agent>("/agents", "agents").then((agents) => tell(agents.find((one) => one.name === AGENT)), () => undefined);
  }, [client]);
  if (!agent) return null;
  return (
    <section class="guide" aria-labelledby="guide">
      <h2 id="guide">Guided path, two minutes</h2>
      <ol>
        <li><a href={href({ new: "", agent: AGENT, goal: agent.goals[0] })}>Start the churn memo</a>: it scores 412 accounts and writes a page about them.</li>
        <li>While it writes, press <b>Pause</b>{"\u00a0"}<kbd>p</kbd>. It stops at once; say why, or skip.</li>
        <li><b>Redirect</b>{"\u00a0"}<kbd>r</kbd>: choose Step, say “only customers over $10k”, <kbd>↵</kbd>. Then <b>Resume</b>{"\u00a0"}<kbd>p</kbd>, and see what changes.</li>
        <li>When it says that the memo is written, press <b>Cancel</b>{"\u00a0"}<kbd>c</kbd>. Nothing new starts while you check what each choice would undo. Choose <b>Undo everything possible</b>, then <b>Cancel run</b>.</li>
        <li>Read the receipt: the memo is undone. It lists everything that the run did, as far as it was observed.</li>
      </ol>
    </section>
  );
}
