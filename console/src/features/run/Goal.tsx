/** The head of a run: where it belongs, its goal, the facts of it, and what can be done beside steering. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import type { Head } from "../../api/types";
import type { Run } from "../../model/run";
import { goalOf, isWatched } from "../../model/session";
import { count, fullTime, timeOfDay, version, visible, who } from "../../ui/format";
import { href } from "../../ui/router";

interface Props { live: Live; run: Run; me: string; family: Head[]; inspect: () => void; fork: () => void; save: () => void }

export function Goal({ live, run, me, family, inspect, fork, save }: Props): JSX.Element {
  const session = run.session!;
  const checkpoint = session.checkpoint_at;
  return (
    <div class="goal">
      <p class="crumb"><a href={href({})}>Fleet</a><span>/</span><a href={href({ agent: session.agent })}>{session.agent}</a><span>/</span>
        {session.parent && <><a href={href({ run: session.parent })}><code>{session.parent}</code></a><span>/</span></>}<code>{session.id}</code></p>
      <h1>{visible(goalOf(session)) || <span class="dim">no goal was given</span>}</h1>
      <div class="tools">
        <button class="btn small" type="button" onClick={inspect}>Inspect</button>
        <button class="btn small" type="button" onClick={fork}>Fork</button>
        <button class="btn small" type="button" onClick={save}>Export</button>
      </div>
      <p class="facts">
        {session.terms.task_class && <span>{session.terms.task_class.replace("_", " ")}</span>}
        {isWatched(session) && <span>policy {version(session.terms.policy)}</span>}
        <span title={fullTime(session.created_at)}>started {timeOfDay(session.created_at)} by {who(session.created_by, me)}</span>
        {session.score !== null && <span>rated {session.score} of 5</span>}
        {session.turn > 1 && <span>turn {session.turn}</span>}
        {family.length > 0 && <span class="hide-s">{count(family.length, "child", "children")}</span>}
        {checkpoint !== null && <span class="hide-s">checkpoint at event {checkpoint}</span>}
        {session.forked_from && <span>forked from <a href={href({ run: session.forked_from.split("@")[0] })}><code>{session.forked_from}</code></a></span>}
        {live.run !== run && <span class="hide-s">as it was at event {session.position}</span>}
      </p>
    </div>
  );
}
