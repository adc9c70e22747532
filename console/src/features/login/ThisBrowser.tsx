/** Who this browser is logged in as, for how long, and the way out. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Client, Unreachable } from "../../api/client";
import { keepPageKey } from "../../api/pageKey";
import type { Me } from "../../api/types";
import { fullTime } from "../../ui/format";

export function ThisBrowser({ client, me }: { client: Client; me: Me }): JSX.Element {
  const [until, know] = useState<number | null>(null);
  const [words, say] = useState("");
  useEffect(() => { client.get<{ expires_at: number }>("/login").then((found) => know(found.expires_at), () => {}); }, []);
  const logOut = async (): Promise<void> => {
    say("Logging out…");
    try {
      await client.send("DELETE", "/login", undefined, {});
      keepPageKey(client.base, "");
      client.ended.value = { status: 401, code: "logged_out", title: "", detail: "" };
    } catch (error) {
      say(`${(error as Error).message}${error instanceof Unreachable ? " You may still be logged in: press again." : ""}`);
    }
  };
  return (
    <section class="this-browser" aria-label="This browser">
      <p>Logged in as <b>{me.name}</b> ({me.role}){me.tenant && <> of tenant <b>{me.tenant}</b></>}{until !== null && <> until <time dateTime={new Date(until * 1000).toISOString()}>{fullTime(until)}</time></>}.</p>
      <button class="btn" type="button" onClick={() => void logOut()}>Log out</button>
      <span class="sub" role="status">{words}</span>
    </section>
  );
}
