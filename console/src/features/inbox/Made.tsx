/** What agents made and somebody should look at: whose it is, what it is said to be, and one press to say that you have looked. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Client } from "../../api/client";
import type { Artifact, Me } from "../../api/types";
import { count, timeOfDay, visible } from "../../ui/format";
import { href } from "../../ui/router";
import { useTelling } from "../telling";

export const nameOf = (one: Artifact): string => `${one.session} ${one.name}`;

export function Made({ client, me, artifacts, look }: { client: Client; me: Me; artifacts: readonly Artifact[]; look: () => void }): JSX.Element {
  return (
    <article class="detail" aria-label="Made by agents">
      <p class="lead">{count(artifacts.length, "item was", "items were")} made by agents, and {artifacts.length === 1 ? "is" : "are"} due for review</p>
      <p class="sub">Undocumented ones are due at once, the others every few days. No run waits for this.</p>
      <ol class="alarms">{artifacts.map((one) => <Row key={nameOf(one)} client={client} artifact={one} mayReview={me.role !== "watch"} look={look} />)}</ol>
    </article>
  );
}

function Row({ client, artifact, mayReview, look }: { client: Client; artifact: Artifact; mayReview: boolean; look: () => void }): JSX.Element {
  const { words, tell } = useTelling();
  const [says, say] = useState(artifact.documentation);
  const [isSent, sent] = useState(false);
  const review = (event: Event): void => {
    event.preventDefault();
    tell(client.post(`/sessions/${encodeURIComponent(artifact.session)}/artifacts/reviewed`, { name: artifact.name, documentation: says.trim() }).then(() => { sent(true); look(); }));
  };
  return (
    <li>
      <p><b>{visible(artifact.name)}</b> <a href={href({ run: artifact.session })}>{artifact.agent}</a> <code class="dim">{artifact.session}</code></p>
      <p class="why">{visible(artifact.documentation) || "No documentation."} <span class="dim">Made <time>{timeOfDay(artifact.made_at)}</time>{artifact.reviewed_at !== null && <>, last reviewed by {artifact.reviewed_by} <time>{timeOfDay(artifact.reviewed_at)}</time></>}.</span></p>
      {mayReview && (
        <form class="naming" onSubmit={review}>
          <label>What it is <input class="field" maxLength={2000} value={says} onInput={(event) => say(event.currentTarget.value)} /></label>
          <button class="btn small" type="submit" disabled={isSent}>Mark as reviewed</button>
          <span role="status">{words || (isSent ? "It is due again later." : "")}</span>
        </form>
      )}
    </li>
  );
}
