/** A kill switch that is on, or was lifted while its sessions are halted still: what became of each, and the way back. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Client, Unreachable } from "../../api/client";
import type { Head, Me } from "../../api/types";
import { useGivingBack } from "../../ui/focus";
import { count, timeOfDay, visible, who } from "../../ui/format";
import { Ticking } from "../../ui/Parts";
import { href } from "../../ui/router";
import { save } from "../../ui/save";
import { useOnce } from "../once";
import { isSettled, lookAgain, type Reached, type Released, scopeWords, stands, standsWords, type Switch, take } from "./switches";

const STATES: [Reached["state"], string][] = [["still_running", "still running"], ["not_reachable", "not reachable"], ["stopped", "stopped"]];
const FIGURES: [Reached["state"], string][] = [STATES[2]!, STATES[0]!, STATES[1]!];
const OFTEN = 1_000;

export function Report({ client, one, me, heads }: { client: Client; one: Switch; me: Me; heads: ReadonlyMap<string, Head> | null }): JSX.Element | null {
  const [isLifting, lifting] = useState(false);
  const send = useOnce(client);
  const opener = useGivingBack<HTMLElement>(isLifting, ":scope > .row .btn");
  const [why, explain] = useState("");
  const [problem, say] = useState("");
  const [released, tell] = useState<Released[] | null>(null);
  const mark = `${one.counts.stopped} ${one.counts.still_running} ${one.counts.not_reachable} ${one.sessions} ${one.lifted_at ?? ""}`;
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const look = async (): Promise<void> => {
      const found = await client.get<Switch>(`/kill-switches/${encodeURIComponent(one.id)}`).catch(() => null);
      if (isOver) return;
      if (found) take(found);
      if (found && stands(found) && !isSettled(found)) timer = window.setTimeout(() => void look(), OFTEN);
    };
    void look();
    return () => { isOver = true; clearTimeout(timer); };
  }, [one.id, mark]);
  const report = one.report ?? [];
  const halted = report.filter((row) => (heads?.get(row.session)?.status ?? "halted") === "halted");
  const isOperator = me.role === "operate";
  if (!stands(one) && halted.length === 0 && released === null) return null;
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    say("");
    try { await work(); } catch (error) { say(`${(error as Error).message}${error instanceof Unreachable ? " Press again: it is not done twice." : ""}`); }
    lookAgain();
  };
  const lift = (): Promise<void> => attempt(async () => {
    take(await send<Switch>(`/kill-switches/${encodeURIComponent(one.id)}/lift`, { why: why.trim() }));
    lifting(false);
  });
  const release = (): Promise<void> => attempt(async () => {
    tell((await send<{ outcomes: Released[] }>(`/kill-switches/${encodeURIComponent(one.id)}/release`, {})).outcomes);
  });
  const failed = released?.filter((outcome) => !outcome.ok) ?? [];
  return (
    <section class="kill" ref={opener} data-lifted={!stands(one) || undefined} aria-label="Kill switch report">
      <div class="row"><h2>{standsWords(one)}: {scopeWords(one.scope)}</h2>
        <span class="sub">since {timeOfDay(one.at)} by {who(one.by, me.name)} · <bdi>“{visible(one.reason)}”</bdi>{one.lifted_at !== null && ` · lifted ${timeOfDay(one.lifted_at)} by ${who(one.lifted_by, me.name)}`}</span></div>
      {stands(one) && !one.durable && <p class="still" role="alert">The store refused the write. It stands as long as this server runs, which stores it as soon as it can: do not stop the server.</p>}
      {one.hint && <p class="still">{one.hint}</p>}
      <dl class="figures">
        {FIGURES.map(([state, word]) => (
          <div key={state}><dt>{word}</dt><dd class={state !== "stopped" && one.counts[state] > 0 ? "still" : ""}>{one.counts[state].toLocaleString("en")}<small>{said(state, report)}</small></dd></div>
        ))}
      </dl>
      {report.length > 0 && (
        <details class="report" open={!isSettled(one)}>
          <summary>{count(report.length, "session")}, one by one</summary>
          <div class="rows" tabIndex={0} role="region" aria-label="Report of each session">
            <table class="grid"><thead><tr><th scope="col">Result</th><th scope="col">Goal, agent</th><th scope="col">Was</th></tr></thead>
              <tbody>{STATES.flatMap(([state, word]) => report.filter((row) => row.state === state).map((row) => <Row key={row.session} row={row} word={word} ahead={client.ahead} />))}</tbody>
            </table>
          </div>
        </details>
      )}
      {problem && <p class="still" role="alert">{problem}</p>}
      {released && <p role="status">{count(released.length - failed.length, "session")} went back to where {released.length - failed.length === 1 ? "it was" : "they were"}{failed.length > 0 && <>; {failed.length} did not: {failed.slice(0, 5).map((outcome) => `${outcome.session}: ${outcome.problem}`).join("; ")}</>}.</p>}
      {stands(one) && (isLifting ? (
        <form class="row fields" onSubmit={(event) => { event.preventDefault(); if (why.trim()) void lift(); }}>
          <label class="why">Why it is lifted<input class="field" maxLength={1000} value={why} ref={(field) => { if (field && !field.dataset.seen) { field.dataset.seen = "1"; field.focus(); } }} onInput={(event) => explain(event.currentTarget.value)} /></label>
          <span class="end row"><button class="btn big" type="button" onClick={() => lifting(false)}>Leave it on</button><button class="btn big solid" type="submit" aria-disabled={!why.trim() || undefined}>Lift it<small> {why.trim() ? `${count(halted.length, "session stays", "sessions stay")} halted until you release them` : "say why first"}</small></button></span>
        </form>
      ) : (
        <div class="row">
          {isOperator ? <button class="btn big" type="button" onClick={() => lifting(true)}>Lift it…</button> : <span class="sub">Only an operator can lift this.</span>}
          <a href={href({ status: "halted" })}>Show halted sessions</a>
          <button class="plain" type="button" onClick={() => save(`kill-switch-${one.id}.json`, one)}>Report as JSON</button>
        </div>
      ))}
      {!stands(one) && halted.length > 0 && (
        <div class="row">
          <span><b class="num">{halted.length.toLocaleString("en")}</b> {halted.length === 1 ? "session stays halted until you release it." : "sessions stay halted until you release them."}</span>
          <span class="end row"><a href={href({ status: "halted" })}>Show them</a>{isOperator && <button class="btn big" type="button" onClick={() => void release()}>Release {count(halted.length, "session")}</button>}</span>
        </div>
      )}
    </section>
  );
}

/** What is named beside a figure. */
function said(state: Reached["state"], report: Reached[]): string {
  const rows = report.filter((row) => row.state === state);
  const names = [...new Set(rows.map((row) => (state === "still_running" ? row.running : row.agent)).filter(Boolean))];
  return state === "stopped" ? "" : `${names.slice(0, 3).join(" · ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`;
}

function Row({ row, word, ahead }: { row: Reached; word: string; ahead: number }): JSX.Element {
  return (
    <tr>
      <th scope="row"><span class={row.state === "stopped" ? "" : "still"}>{word}{row.running && <>: {row.running} {row.since > 0 && <Ticking since={row.since} ahead={ahead} />}</>}</span></th>
      <td class="what"><div><a href={href({ run: row.session })}>{visible(row.goal) || row.session}</a></div><div class="under"><small>{row.agent}</small></div></td>
      <td>{row.was}</td>
    </tr>
  );
}
