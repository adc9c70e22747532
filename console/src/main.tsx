/** The console: which page the address means. */

import { render, type JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { ownClient } from "./api/client";
import { reviveAll } from "./api/outbox";
import { pageKey } from "./api/pageKey";
import type { Me } from "./api/types";
import { self, watchAsks } from "./features/attention";
import { areKeysOff, isTyping } from "./features/handle/pressing";
import { watchSwitches } from "./features/killswitch/switches";
import { later } from "./features/Later";
import { isLoginAddress, LoginPage } from "./features/login/LoginPage";
import { useReading } from "./features/reading";
import { Waiting } from "./features/States";
import { FleetPage } from "./routes/FleetPage";
import { InboxPage } from "./routes/InboxPage";
import { NewRunPage } from "./routes/NewRunPage";
import { RunPage } from "./routes/RunPage";
import { SettingsPage } from "./routes/SettingsPage";
import { address, go, href } from "./ui/router";
import "./ui/tokens.css";
import "./ui/base.css";
import "./ui/handle.css";
import "./ui/page.css";
import "./ui/gauges.css";
import "./ui/inbox.css";

const client = ownClient();
const PoliciesPage = later("policies", () => import("./routes/PoliciesPage").then((page) => page.PoliciesPage));
const ReportsPage = later("reports", () => import("./routes/ReportsPage").then((page) => page.ReportsPage));

function Console(): JSX.Element {
  const isOutside = isLoginAddress() || !pageKey(client.base);
  const { found: me, connection } = useReading(client, async () => {
    if (isOutside) return null;
    const known = await client.get<Me>("/me");
    client.identity = self.value = known.name;
    reviveAll(client);
    watchAsks(client);
    watchSwitches(client);
    return known;
  }, []);
  useLayoutEffect(() => globalKeys(), []);
  const query = address.value;
  useLanding(PAGES.map((page) => query.get(page)).join("\n"));
  if (isOutside || client.ended.value) return <LoginPage client={client} why={client.ended.value} />;
  if (!me) return <main class="page"><Waiting connection={connection} words="Loading…" rows={3} /></main>;
  const run = query.get("run");
  if (run) return <RunPage key={run} client={client} me={me} id={run} />;
  if (query.has("inbox")) return <InboxPage client={client} me={me} />;
  if (query.has("policies") || query.has("policy") || query.has("newpolicy")) return <PoliciesPage client={client} me={me} />;
  if (query.has("reports")) return <ReportsPage client={client} />;
  if (query.has("new")) return <NewRunPage client={client} me={me} />;
  if (query.has("settings")) return <SettingsPage client={client} me={me} />;
  return <FleetPage client={client} me={me} />;
}

/** What makes another page of an address; all else of it is a filter, a place in a page, or what is open in it. */
const PAGES = ["run", "inbox", "policies", "policy", "newpolicy", "reports", "new", "settings"];

/** Who goes to another page begins at its heading: the link that was pressed went with the page before. */
function useLanding(page: string): void {
  const isFirst = useRef(true);
  useLayoutEffect(() => {
    if (isFirst.current) { isFirst.current = false; return; }
    const land = (): boolean => {
      const heading = document.querySelector<HTMLElement>("main h1");
      if (heading && document.activeElement === document.body) { heading.tabIndex = -1; heading.focus({ preventScroll: true }); }
      return heading !== null || document.activeElement !== document.body;
    };
    if (land()) return;
    // A page whose contents are still being read has no heading yet.
    const watching = new MutationObserver(() => { if (land()) watching.disconnect(); });
    watching.observe(document.body, { childList: true, subtree: true });
    return () => watching.disconnect();
  }, [page]);
}

function globalKeys(): () => void {
  let isGoing = false;
  const press = (event: KeyboardEvent): void => {
    if (isTyping(event) || areKeysOff() || event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    if (isGoing && event.key === "f") { go(href({})); event.stopPropagation(); }
    else if (isGoing && event.key === "i") { go(href({ inbox: "" })); event.stopPropagation(); }
    else if (isGoing && event.key === "p") { go(href({ policies: "" })); event.stopPropagation(); }
    else if (isGoing && event.key === "r") { go(href({ reports: "" })); event.stopPropagation(); }
    else if (event.key === "n") go(href({ new: "" }));
    else if (event.key === "?") go(href({ settings: "" }));
    else { isGoing = event.key === "g"; return; }
    isGoing = false;
    event.preventDefault();
  };
  document.addEventListener("keydown", press, true);
  return () => document.removeEventListener("keydown", press, true);
}

render(<Console />, document.getElementById("console")!);
