/** The policies: each in its newest version, who saved it and why; and what reviews propose. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../api/client";
import type { Me } from "../api/types";
import { title } from "../features/attention";
import { PolicyPage } from "../features/policy/PolicyPage";
import { Proposals } from "../features/policy/Proposals";
import type { Proposal, Summary } from "../features/policy/types";
import { useReading } from "../features/reading";
import { Waiting } from "../features/States";
import { Top } from "../features/Top";
import { version } from "../ui/format";
import { At } from "../ui/Parts";
import { address, go, href } from "../ui/router";
import { Sheet } from "../ui/Sheet";
import "../ui/desk.css";

export function PoliciesPage({ client, me }: { client: Client; me: Me }): JSX.Element {
  const name = address.value.get("policy");
  if (address.value.has("newpolicy")) return <PolicyPage key="" client={client} me={me} name={null} />;
  return name ? <PolicyPage key={name} client={client} me={me} name={name} /> : <List client={client} me={me} />;
}

function List({ client, me }: { client: Client; me: Me }): JSX.Element {
  const { found, connection, again } = useReading(client, async () => {
    const [policies, proposals] = await Promise.all([client.all<Summary>("/policies", "policies"), client.all<Proposal>("/proposals?state=open", "proposals")]);
    return { policies, proposals };
  }, []);
  const [words, say] = useState("");
  useEffect(() => { title.value = "Policies"; }, []);
  return (
    <>
      <Top page="policies" connection={null} />
      <main class="page desk">
        <div class="pagehead"><h1>Policies</h1><span class="sub">when to interrupt</span><div class="end"><a class="btn small" href={href({ newpolicy: "" })}>New policy</a></div></div>
        <p class="sub" role="status">{words}</p>
        {!found ? <Waiting connection={connection} words="Reading the policies…" /> : (
          <>
            <Proposals client={client} proposals={found.proposals} mayDecide={me.role === "operate"} settled={(told) => { say(told); again(); }} look={(one) => go(href({ policy: one.policy.split("@")[0], proposal: one.id }))} />
            <Sheet name="Policies" kind="policies">
              <thead><tr><th scope="col">Policy</th><th scope="col">What for</th><th scope="col" class="hide-m">Made from</th><th scope="col">Saved</th><th scope="col" class="hide-s">Why</th></tr></thead>
              <tbody>{found.policies.map((one) => (
                <tr key={one.name}>
                  <th scope="row"><a class="rowlink" href={href({ policy: one.name })}>{one.name}</a> <span class="num dim">v{one.version}</span></th>
                  <td>{one.about}</td>
                  <td class="hide-m">{version(one.extends) || "–"}</td>
                  <td>{one.at === null ? "built in" : <><At at={one.at} /> by {one.by}</>}</td>
                  <td class="hide-s">{one.why || "–"}</td>
                </tr>
              ))}</tbody>
            </Sheet>
          </>
        )}
      </main>
    </>
  );
}
