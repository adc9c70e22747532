/** The top bar: where one can go, whether the page is live, and the theme. */

import type { JSX } from "preact";
import { BULK, speaking } from "../api/outbox";
import { type Connection, connectionWord } from "../model/contact";
import { second } from "../ui/clock";
import { clock, count } from "../ui/format";
import { address, href } from "../ui/router";
import { isDark, theme } from "../ui/settings";
import { self, waiting } from "./attention";
import { Standing } from "./killswitch/Standing";

export function Top({ page, connection }: { page: "fleet" | "inbox" | "run" | "policies" | "reports" | "new" | "settings"; connection: Connection | null }): JSX.Element {
  const asks = waiting.value.length;
  return (
    <>
    <header class="top">
      <a class="brand" href={href({})} aria-label="Midcourse">
        <Brand />
      </a>
      <nav aria-label="Main">
        <a href={href({})} aria-current={page === "fleet" || page === "run" ? "page" : undefined}>Fleet</a>
        <a href={href({ inbox: "" })} aria-current={page === "inbox" ? "page" : undefined}>Inbox {asks > 0 && <span class="count" aria-label={`${asks} open`}>{asks}</span>}</a>
        <a href={href({ policies: "" })} aria-current={page === "policies" ? "page" : undefined}>Policies</a>
        <a href={href({ reports: "" })} aria-current={page === "reports" ? "page" : undefined}>Reports</a>
        <a href={href({ settings: "" })} class="hide-t" aria-current={page === "settings" ? "page" : undefined}>Settings</a>
      </nav>
      <div class="end">
        <Unsent isFleet={page === "fleet"} />
        {connection && <LiveWord connection={connection} />}
        <a class="btn small hide-s" href={href({ new: "" })} aria-current={page === "new" ? "page" : undefined}>New run <kbd aria-hidden="true">n</kbd></a>
        {self.value && <a class="me" href={href({ settings: "" })} aria-label={`Logged in as ${self.value}`} title={`Logged in as ${self.value}`}>{self.value}</a>}
        <button class="plain hide-t" type="button" onClick={() => { theme.value = isDark() ? "light" : "dark"; }}>{isDark() ? "Light" : "Dark"}</button>
      </div>
    </header>
    {page !== "fleet" && <Standing />}
    </>
  );
}

export function Brand(): JSX.Element {
  return (
    <>
      <svg width="26" height="16" viewBox="0 0 26 16" aria-hidden="true"><path d="M1 13h8l8-10h8" class="m" /><path d="M1 13h8" class="i" /><circle cx="9" cy="13" r="2.6" class="c" /></svg>
      <b>Midcourse</b>
    </>
  );
}

function LiveWord({ connection }: { connection: Connection }): JSX.Element | null {
  // The server answered: there is no such session. The page says so.
  if (connection.state === "refused" && connection.problem?.code === "session_not_found") return null;
  const word = connectionWord(connection);
  const isCalm = connection.state === "live" && connection.problem === null;
  if (isCalm || connection.state === "connecting") return <span class="live hide-s" data-live={isCalm ? "live" : "lost"}><i aria-hidden="true" />{word}</span>;
  if (connection.state === "refused") return <span class="live" data-live="lost"><i aria-hidden="true" />{word}</span>;
  void second.value;
  return <span class="live" data-live="lost" title={connection.problem?.detail}><i aria-hidden="true" />{word} <time>{clock((Date.now() - connection.since) / 1000)}</time></span>;
}

/** Presses elsewhere that are not decided, or were refused: their page says what is known. */
function Unsent({ isFleet }: { isFleet: boolean }): JSX.Element | null {
  const here = address.value.get("run") ?? "";
  const others = speaking.value.filter((one) => one.name !== here && !(isFleet && one.name === BULK));
  const [first] = others;
  if (!first) return null;
  const kept = others.reduce((sum, one) => sum + one.kept.value.length, 0);
  return <a class="unsent" href={first.name === BULK ? href({}) : href({ run: first.name })}>{kept ? `${count(kept, "press", "presses")} not stored` : "A press was not carried out"}</a>;
}
