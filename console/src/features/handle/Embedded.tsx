/** The handle in the page of another program: it keeps its place there, and says what is wrong where it cannot be drawn. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Me } from "../../api/types";
import { connectionWord, connectionWords } from "../../model/contact";
import { timeOfDay } from "../../ui/format";
import { useReading } from "../reading";
import { useLate } from "../States";
import { Handle } from "./Handle";

interface Props { live: Live; server: string; keys: EventTarget; told: (event: string, detail: unknown) => void }

export function Embedded({ live, server, keys, told }: Props): JSX.Element | null {
  void live.rev.value;
  const isLate = useLate();
  const { found: me, connection: asking } = useReading(live.client, async () => {
    const known = await live.client.get<Me>("/me");
    live.client.identity = known.name;
    live.outbox.revive();
    return known;
  }, [live]);
  const unknown = asking.state === "refused" ? asking.problem : null;
  useEffect(() => { if (unknown) told("refused", unknown); }, [unknown]);
  const connection = live.connection.value;
  const isThere = live.run.session !== null;
  const said = connection.state === "refused" ? connection.problem : null;
  // A session that was shown stays, with what was refused in its bar; but without a token nothing can be done to it.
  const refused = unknown ?? (isThere && said?.code !== "unauthorized" ? null : said);
  if (refused) return <Wrong words={refused.code === "unauthorized" ? TOKEN : refused.detail} />;
  if (me && isThere) return <Handle live={live} me={me.name} role={me.role} keys={keys} told={told} />;
  const lost = [connection, asking].find((one) => one.state === "lost");
  if (!lost) return isLate ? <Wrong words={`Connecting to ${server}…`} lamp="Connecting" /> : null;
  const why = lost.why === "gone" ? ` ${server} is down, or does not allow this page.` : "";
  return <Wrong words={`${connectionWords(lost, timeOfDay(lost.since / 1000))}${why} It is retried automatically.`} lamp={connectionWord(lost)} />;
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
