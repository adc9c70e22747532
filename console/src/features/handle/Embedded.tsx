/** The handle in the page of another program: it keeps its place there, and says what is wrong where it cannot be drawn. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import type { Me, Problem } from "../../api/types";
import { timeOfDay } from "../../ui/format";
import { useLate } from "../States";
import { Handle } from "./Handle";

interface Props { live: Live; me: Me | null; /** Why the server did not say who this is. */ problem: Problem | null; server: string; keys: EventTarget; told: (event: string, detail: unknown) => void }

export function Embedded({ live, me, problem, server, keys, told }: Props): JSX.Element | null {
  void live.rev.value;
  const isLate = useLate();
  const connection = live.connection.value;
  const isThere = live.run.session !== null;
  const said = connection.state === "refused" ? connection.problem : null;
  // A session that was shown stays, with what was refused in its bar; but without a token nothing can be done to it.
  const refused = problem ?? (isThere && said?.code !== "unauthorized" ? null : said);
  if (refused) return <Wrong words={refused.code === "unauthorized" ? TOKEN : refused.detail} />;
  if (me && isThere) return <Handle live={live} me={me.name} role={me.role} keys={keys} told={told} />;
  if (connection.state === "lost") return <Wrong words={`No answer from ${server} since ${timeOfDay(connection.since / 1000)}: it is down, or does not allow this page. It is retried automatically.`} />;
  return isLate ? <Wrong words={`Connecting to ${server}…`} lamp="Connecting" /> : null;
}

const TOKEN = "The server does not accept this page's token: it is wrong, has expired or was revoked. Nothing can be paused or cancelled from here until the page sets another (the element's token property).";

export function Wrong({ words, lamp = "Not connected" }: { words: string; lamp?: string }): JSX.Element {
  return (
    <section class="handle" data-stale aria-label="Interrupt handle">
      <div class="bar" part="bar">
        <div class="now" role="alert"><span class="lamp" part="lamp" data-stale>{lamp}</span><p class="doing uncut">{words}</p></div>
      </div>
    </section>
  );
}
