/** A kill switch that stands is said on every page: since when, by whom, why, and whether something still runs. */

import type { JSX } from "preact";
import { count, shorten, timeOfDay, who } from "../../ui/format";
import { href } from "../../ui/router";
import { Shape } from "../../ui/Shape";
import { self } from "../attention";
import { isSettled, scopeWords, stands, standsWords, switches } from "./switches";

export function Standing(): JSX.Element {
  const on = switches.value.filter(stands);
  return (
    <div class="standing" role="alert">
      {on.map((one) => (
        <p key={one.id}><Shape name={isSettled(one) ? "halted" : "halted-open"} /><b>{standsWords(one)}</b><span>{scopeWords(one.scope)} · since {timeOfDay(one.at)} by {one.by ? who(one.by, self.value) : "an operator"} · <bdi>“{shorten(one.reason, 120)}”</bdi>{!isSettled(one) && ` · ${[one.counts.still_running && `${one.counts.still_running} still running`, one.counts.not_reachable && `${one.counts.not_reachable} not reachable`].filter(Boolean).join(", ")}`}</span><a href={href({})}>{count(one.sessions, "session")}, report</a></p>
      ))}
    </div>
  );
}
