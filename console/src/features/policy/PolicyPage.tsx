/** One policy: its thresholds among the recorded runs, what it would have done, its text to edit and save, its history. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../../api/client";
import type { Me } from "../../api/types";
import { version as spelled } from "../../ui/format";
import { useGivingBack } from "../../ui/focus";
import { At } from "../../ui/Parts";
import { address, go, href } from "../../ui/router";
import { title } from "../attention";
import { useReading } from "../reading";
import { Waiting } from "../States";
import { Top } from "../Top";
import { Calibrating } from "./Calibrating";
import { Changes } from "./Changes";
import { useCheck } from "./checking";
import { Classes } from "./Classes";
import { Editor } from "./Editor";
import { Proposals } from "./Proposals";
import { Rails } from "./Rails";
import { Saving } from "./Saving";
import { Backtest } from "./Backtest";
import { TrialTable } from "./Trial";
import { useTrying } from "./trying";
import type { Change, Proposal, Settings, Summary, Trial, Whole } from "./types";

/** Runs that are read when a page is opened; more when somebody asks for it. */
const FEW = 200;
const FRESH = "policy: my-policy\nextends: standard\nabout: What it is for.\nsignals:\n  cost:\n    warn: 5\n";

interface Found { shown: Whole; newest: Summary; versions: Summary[]; policies: Summary[]; proposals: Proposal[]; changes: Change[] }

export function PolicyPage({ client, me, name }: { client: Client; me: Me; name: string | null }): JSX.Element {
  const wanted = address.value.get("version");
  const [draft, write] = useState<string | null>(name === null ? FRESH : null);
  const [reason, suggest] = useState("");
  const [words, say] = useState("");
  const trial = useTrying<Trial>(client, "/policies/backtest");
  const { found, connection, again } = useReading(client, () => (name === null ? Promise.resolve(null) : load(client, name, wanted)), [client, name, wanted]);
  const checked = useCheck(client, draft, name);
  const editing = useGivingBack<HTMLButtonElement>(draft !== null);
  useEffect(() => { title.value = name ?? "New policy"; }, [name]);
  useEffect(() => { if (found) trial.start({ policy: `${found.shown.name}@${found.shown.version}`, limit: FEW }); }, [found]);
  const mayDecide = me.role === "operate";
  const isOld = found !== null && found.shown.version !== found.newest.version;
  const looked = found?.proposals.find((one) => one.id === address.value.get("proposal"));
  const proposed: Settings | null = checked.check && (name === null || checked.check.changes.length) ? checked.check.document : draft === null && looked ? looked.document : null;
  const edit = (text: string, why = ""): void => { write(text); suggest(why); say(""); };
  const saved = (one: Whole): void => {
    write(null);
    say(`${one.name} v${one.version} is saved. New sessions whose agent names it use it.`);
    if (name !== null && bare(one.name) === bare(name)) again();
    else go(href({ policy: one.name }));
  };
  return (
    <>
      <Top page="policies" connection={null} />
      <main class="page desk">
        <div class="pagehead">
          <h1>{name ?? "New policy"}</h1>
          {found && <span class="sub">v{found.shown.version}{found.shown.at === null ? ", built in" : <>, saved <At at={found.shown.at} /> by {found.shown.by}: {found.shown.why}</>}{found.shown.extends && <> · made from {spelled(found.shown.extends)}</>}</span>}
          <div class="end"><a class="btn small" href={href({ policies: "" })}>All policies</a>{found && draft === null && !isOld && <button class="btn small" type="button" ref={editing} onClick={() => edit(found.shown.yaml)}>Edit as YAML</button>}</div>
        </div>
        <p class="told" role="status">{words}</p>
        {name !== null && !found ? <Waiting connection={connection} words={`Reading policy ${name}…`} /> : (
          <>
            {found?.shown.about && <p class="sub lead">{found.shown.about}</p>}
            {isOld && <div class="note"><span>This is an old version. <a href={href({ policy: found.shown.name })}>v{found.newest.version} is the newest.</a></span></div>}
            {found && !isOld && <Proposals client={client} proposals={found.proposals} mayDecide={mayDecide} settled={(told) => { say(told); go(href({ policy: found.shown.name }), true); again(); }} look={(one) => go(href({ policy: found.shown.name, proposal: one.id }), true)} />}
            {draft !== null && (
              <div class="two edits">
                <section aria-labelledby="text"><h2 id="text">{name === null ? "Its text" : `The text of v${found!.newest.version + 1}`}</h2><Editor text={draft} write={write} mistakes={checked.mistakes} isChecking={checked.isChecking} label="The policy as YAML" /></section>
                <section aria-labelledby="difference"><h2 id="difference">Difference</h2>
                  {checked.check ? <Changes changes={checked.check.changes} than={name === null ? spelled(checked.check.extends) || "nothing" : `v${found!.newest.version}`} /> : <p class="sub">{checked.mistakes.length ? "There is none until the mistakes are gone." : "Comparing…"}</p>}
                  <Saving client={client} me={me} text={draft} checked={checked} newest={found?.newest ?? null} mayDecide={mayDecide} reason={reason} saved={saved} leave={() => { if (name === null) go(href({ policies: "" })); else write(null); }} />
                </section>
              </div>
            )}
            <div class="two">
              <Rails document={found?.shown.document ?? null} proposed={proposed} trial={trial.found} />
              <Backtest trial={trial} name={found?.shown.name ?? null} version={found?.shown.version ?? 0} draft={checked.check ? draft : null} policies={found?.policies ?? []}>
                {found && !isOld && <Calibrating client={client} name={found.shown.name} edit={edit} />}
              </Backtest>
            </div>
            {trial.found && <TrialTable trial={trial.found} />}
            {found && (
              <div class="two">
                <Classes document={found.shown.document} />
                <section aria-labelledby="history"><h2 id="history">History</h2>
                  {isOld && <Changes changes={found.changes} than={`v${found.newest.version}`} />}
                  <table class="grid history-of"><thead><tr><th scope="col">Version</th><th scope="col">Saved</th><th scope="col">Why</th></tr></thead>
                    <tbody>{found.versions.map((one) => (
                      <tr key={one.version}><th scope="row"><a href={href({ policy: one.name, version: one.version === found.newest.version ? undefined : String(one.version) })} aria-current={one.version === found.shown.version ? "true" : undefined}>v{one.version}</a></th>
                        <td>{one.at === null ? "built in" : <><At at={one.at} /> by {one.by}</>}</td><td>{one.why || "–"}</td></tr>
                    ))}</tbody></table>
                </section>
              </div>
            )}
          </>
        )}
      </main>
    </>
  );
}

async function load(client: Client, name: string, version: string | null): Promise<Found> {
  const path = `/policies/${encodeURIComponent(name)}`;
  const asked = version && /^\d{1,6}$/.test(version) ? `?version=${version}` : "";
  const [shown, versions, policies, proposals] = await Promise.all([
    client.get<Whole>(path + asked),
    client.all<Summary>(`${path}/history`, "versions"),
    client.all<Summary>("/policies", "policies"),
    client.all<Proposal>("/proposals?state=open", "proposals"),
  ]);
  const newest = versions[0]!;
  const changes = shown.version === newest.version ? [] : (await client.get<{ changes: Change[] }>(`${path}/diff?to=${encodeURIComponent(`${shown.name}@${shown.version}`)}`)).changes;
  return { shown, newest, versions, policies, changes, proposals: proposals.filter((one) => [bare(one.name), bare(one.policy.split("@")[0]!)].includes(bare(name))) };
}

/** The name without its tenant: a tenant's own stands in place of the host's. */
function bare(name: string): string { return name.slice(name.indexOf("~") + 1); }
