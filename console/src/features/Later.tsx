/** A page whose code is loaded when somebody goes there. */

import type { ComponentType, JSX } from "preact";
import { type Client, Refusal } from "../api/client";
import { useReading } from "./reading";
import { Waiting } from "./States";
import { Top } from "./Top";

export function later<P extends { client: Client }>(page: "policies" | "reports", load: () => Promise<ComponentType<P>>): (props: P) => JSX.Element {
  let known: ComponentType<P> | null = null;
  return (props) => {
    const { found, connection } = useReading(props.client, async () => {
      try {
        known ??= await load();
      } catch {
        // A server that answers has no such file any more.
        await props.client.get("/me");
        throw new Refusal({ status: 404, code: "page_not_loaded", title: "", detail: "" });
      }
      return { of: known };
    }, []);
    const Page = found?.of ?? known;
    if (Page) return <Page {...props} />;
    return (
      <>
        <Top page={page} connection={connection.state === "lost" ? connection : null} />
        <main class="page"><Waiting connection={connection} words="Loading the page…" rows={3} /></main>
      </>
    );
  };
}
