/** A page that has nothing to show yet: loading, refused, not found. Never a spinner over old data. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Connection, connectionWord, connectionWords } from "../model/contact";
import { capitalised, timeOfDay } from "../ui/format";
import { href } from "../ui/router";

/** What is known of the connection while there is nothing to show; `words` after 200 ms, if all is well. */
export function Waiting({ connection, words, rows, id }: { connection: Connection; words: string; rows?: number; id?: string }): JSX.Element | null {
  const isLate = useLate();
  if (connection.state === "refused") return <Refused code={connection.problem?.code ?? ""} detail={connection.problem?.detail ?? ""} id={id} />;
  if (connection.state !== "lost") return isLate ? <Rules words={words} rows={rows} /> : null;
  return <div class="empty" role="alert"><b>{connectionWord(connection)}.</b>{connectionWords(connection, timeOfDay(connection.since / 1000))} It is retried automatically.</div>;
}

function Refused({ code, detail, id }: { code: string; detail: string; id: string | undefined }): JSX.Element {
  if (code === "session_not_found") return <div class="empty"><b>No session <code>{id}</code> here.</b><a href={href({})}>All sessions</a></div>;
  if (code === "unauthorized") return <div class="empty"><b>This page is not logged in.</b>Run <code>midcourse browser link</code> in a terminal and open the link that it prints.</div>;
  if (code === "page_not_loaded") return <div class="empty" role="alert"><b>This page could not be loaded.</b>The server was updated: <a href={location.href}>load it again</a>.</div>;
  if (code === "damaged") return <div class="empty" role="alert"><b>Its journal is damaged; the session is stopped and cannot continue.</b>{detail}</div>;
  return <div class="empty" role="alert"><b>{capitalised(code.replaceAll("_", " ")) || "Refused"}.</b>{detail} <a href={href({})}>All sessions</a></div>;
}

/** Grey rules in place of rows. */
export function Rules({ words, rows = 6 }: { words: string; rows?: number | undefined }): JSX.Element {
  return <div class="rules" role="status" aria-busy="true">{Array.from({ length: rows }, (_, index) => <i key={index} />)}<span>{words}</span></div>;
}

/** Nothing for 200 ms: what comes at once needs no word. */
export function useLate(): boolean {
  const [isLate, set] = useState(false);
  useEffect(() => { const timer = setTimeout(() => set(true), 200); return () => clearTimeout(timer); }, []);
  return isLate;
}
