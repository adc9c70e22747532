/** What reviews propose: what would change, what speaks for it, and a person who accepts or refuses it with a reason. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Client } from "../../api/client";
import { useGivingBack } from "../../ui/focus";
import { version } from "../../ui/format";
import { At } from "../../ui/Parts";
import { useOnce } from "../once";
import { Changes } from "./Changes";
import type { Proposal } from "./types";

export function Proposals({ client, proposals, mayDecide, settled, look }: { client: Client; proposals: Proposal[]; mayDecide: boolean; settled: (words: string) => void; look: (one: Proposal) => void }): JSX.Element {
  return <>{proposals.map((one) => <One key={one.id} client={client} proposal={one} mayDecide={mayDecide} settled={settled} look={() => look(one)} />)}</>;
}

/** Who has to name it: what is saved is used by nobody before that. */
function usedOnce({ agent, person, name }: Proposal): string {
  const whose = agent ? `the terms of agent ${agent}` : person ? `the terms of what ${person} starts` : "an agent's terms";
  return `New sessions use it once ${whose} name it: policy="${name}".`;
}

function One({ client, proposal, mayDecide, settled, look }: { client: Client; proposal: Proposal; mayDecide: boolean; settled: (words: string) => void; look: () => void }): JSX.Element {
  const [wish, choose] = useState<"accept" | "refuse" | null>(null);
  const [why, write] = useState("");
  const [words, say] = useState("");
  const post = useOnce(client);
  const choices = useGivingBack<HTMLElement>(wish !== null, ".row .solid");
  const whom = proposal.agent ? `agent ${proposal.agent}` : proposal.person ? `what ${proposal.person} is told` : "everybody";
  const leave = (): void => { choose(null); say(""); };
  const send = (event: Event): void => {
    event.preventDefault();
    if (!why.trim()) { say("Give a reason."); return; }
    say("Saving…");
    post<Proposal>(`/proposals/${encodeURIComponent(proposal.id)}/${wish}`, { why }).then(
      (done) => settled(done.kept_as ? `${version(done.kept_as)} is saved. ${usedOnce(done)}` : "Refused. The same is not proposed again."),
      (error: Error) => say(error.message),
    );
  };
  return (
    <section class="proposal" ref={choices} aria-label={`Proposal for ${proposal.name}`}>
      <p><b>The review proposes another {proposal.name}</b> for {whom}, against {version(proposal.policy)}. <span class="dim"><At at={proposal.made_at} /></span></p>
      <ul class="evidence">{proposal.evidence.map((one) => <li key={one}>{one}</li>)}</ul>
      <Changes changes={proposal.changes} than={version(proposal.policy)} />
      {wish === null ? (
        <div class="row end">
          <button class="btn" type="button" onClick={look}>Show on the rails</button>
          <button class="btn solid" type="button" aria-disabled={!mayDecide} onClick={() => (mayDecide ? choose("accept") : say("An operator decides this."))}>Accept…</button>
          <button class="btn" type="button" aria-disabled={!mayDecide} onClick={() => (mayDecide ? choose("refuse") : say("An operator decides this."))}>Refuse…</button>
        </div>
      ) : (
        <form class="talk" onSubmit={send} onKeyDown={(event) => { if (event.key === "Escape") { leave(); event.preventDefault(); event.stopPropagation(); } }}>
          <input class="field small" aria-label={wish === "accept" ? "Why it is accepted" : "Why it is refused"} placeholder={wish === "accept" ? "Why it is accepted" : "Why it is refused"} maxLength={2000} value={why} onInput={(event) => write(event.currentTarget.value)} ref={(field) => field?.focus()} />
          <button class="btn solid" type="submit">{wish === "accept" ? `Save ${proposal.name}` : "Refuse it"}</button>
          <button class="btn" type="button" onClick={leave}>Not now <kbd aria-hidden="true">esc</kbd></button>
        </form>
      )}
      <p class="sub" role="status">{words || (wish === "accept" ? usedOnce(proposal) : "")}</p>
    </section>
  );
}
