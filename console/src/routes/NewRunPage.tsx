/** A new run: any registered agent, with a goal, a class and a cap. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Client, Unreachable } from "../api/client";
import type { Agent, Me, SessionView } from "../api/types";
import { title } from "../features/attention";
import { stands, switches } from "../features/killswitch/switches";
import { useOnce } from "../features/once";
import { useReading } from "../features/reading";
import { Waiting } from "../features/States";
import { Top } from "../features/Top";
import { cap, visible } from "../ui/format";
import { address, go, href } from "../ui/router";

const CLASSES = [["short", "under 30 s"], ["medium", "30 to 300 s"], ["long", "over 300 s"], ["very_long", "open-ended"], ["protected", "a stop waits for the end"]] as const;

export function NewRunPage({ client, me }: { client: Client; me: Me }): JSX.Element {
  const { found: agents, connection } = useReading(client, () => client.all<Agent>("/agents", "agents"), []);
  const [words, say] = useState("");
  const [picked, choose] = useState(address.value.get("agent") ?? "");
  const [goal, write] = useState(address.value.get("goal") ?? "");
  const [taskClass, setClass] = useState("");
  const [budget, setBudget] = useState("");
  const send = useOnce(client);
  useEffect(() => { title.value = "New run"; }, []);
  const chosen = picked || agents?.[0]?.name || "";
  const agent = agents?.find((one) => one.name === chosen);
  const mayNot = me.role === "watch" || me.session !== null;
  const isHalted = switches.value.some((one) => stands(one) && (one.scope.kind === "all" || (one.scope.kind === "agent" && one.scope.value === agent?.name)));
  const consequence = mayNot ? "Your token can only watch. To start runs, ask an operator for a token with the role steer." : isHalted ? "A kill switch is on: the run starts halted and waits for an operator." : "It starts at once.";
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (mayNot) return;
    if (!agent) { say("Choose an agent."); return; }
    const amount = budget.trim() === "" ? undefined : Number(budget);
    if (amount !== undefined && !(amount > 0)) { say("The cap is a number of dollars above 0."); return; }
    say("Starting…");
    try {
      const made = await send<SessionView>("/sessions", { agent: agent.name, goal, ...(taskClass && { task_class: taskClass }), ...(amount !== undefined && { budget: amount }) });
      go(href({ run: made.id }));
    } catch (error) {
      say(`${(error as Error).message}${error instanceof Unreachable ? " Press again: it starts only once." : ""}`);
    }
  };
  return (
    <>
      <Top page="new" connection={null} />
      <main class="page">
        <div class="pagehead"><h1>New run</h1></div>
        {agents === null ? <Waiting connection={connection} words="Reading the agents…" rows={5} /> : agents.length === 0 ? (
          <div class="empty"><b>No agent is registered here.</b>Start the server with one: <code>midcourse serve --agents my_agents.py</code>.</div>
        ) : (
          <form class="begin" onSubmit={(event) => void submit(event)}>
            <fieldset>
              <legend>Agent</legend>
              <div class="agents" role="radiogroup" aria-label="Agent">
                {agents.map((one, index) => (
                  <label key={one.name}>
                    <input type="radio" name="agent" aria-labelledby={`agent-${index}`} aria-describedby={`agent-${index}-does`} value={one.name} checked={one.name === chosen} onChange={() => choose(one.name)} />
                    <b id={`agent-${index}`}>{one.name}</b>
                    <span id={`agent-${index}-does`}>{visible(one.description) || [one.terms.task_class?.replace("_", " ") ?? "no class", one.resumable ? "can continue in another process" : "runs in this process only", one.asks ? "may ask" : ""].filter(Boolean).join(" · ")}</span>
                  </label>
                ))}
              </div>
            </fieldset>
            <div class="wish">
              <label class="grow">Goal<textarea class="field" rows={4} value={goal} onInput={(event) => write(event.currentTarget.value)} placeholder={agent?.goals[0] ?? "What should it do?"} /></label>
              {agent && agent.goals.length > 0 && <div class="chips" role="group" aria-label="Examples">{agent.goals.map((one) => <button key={one} class="btn small" type="button" onClick={() => write(one)}>{visible(one)}</button>)}</div>}
              <div class="row two-fields">
                <label>Class<select class="field" value={taskClass} onChange={(event) => setClass(event.currentTarget.value)}>
                  <option value="">{agent?.terms.task_class ? `the agent's own: ${agent.terms.task_class.replace("_", " ")}` : "none"}</option>
                  {CLASSES.map(([name, means]) => <option key={name} value={name}>{name.replace("_", " ")}, {means}</option>)}
                </select></label>
                <label>Cap in dollars<input class="field" inputMode="decimal" value={budget} onInput={(event) => setBudget(event.currentTarget.value)} placeholder={agent?.terms.budget ? `the agent's own: ${cap(agent.terms.budget)}` : "no cap"} /></label>
              </div>
              <div class="row">
                <button class="btn solid big" type="submit" aria-disabled={mayNot || undefined}>Start {agent?.name ?? "it"}</button>
                <span class="sub" role="status">{words || consequence}</span>
              </div>
            </div>
          </form>
        )}
      </main>
    </>
  );
}
