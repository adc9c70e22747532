/** What a request tells of the server's clock, since when there was no answer, and how a list is read. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { aheadBy, Client } from "../src/api/client";
import { CONNECTING, type Heard } from "../src/model/contact";

test("an answer that took long says nothing of the clocks, and one from another time does", () => {
  const begun = 100_000;
  for (const said of [begun - 1_000, begun, begun + 12_000]) assert.equal(aheadBy(said, begun, begun + 12_000), 0);
  assert.equal(aheadBy(begun - 60_000, begun, begun + 12_000), -60);
  assert.equal(aheadBy(begun + 72_000, begun, begun + 12_000), 60);
});

test("a list is read page by page until there is no next", async () => {
  const asked: string[] = [];
  globalThis.location = { origin: "http://elsewhere" } as Location;
  Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true }); // Node 20 has none
  globalThis.fetch = ((url: string) => {
    asked.push(url.slice("http://server".length));
    const next = asked.length < 3 ? `c${asked.length}` : null;
    return Promise.resolve(new Response(JSON.stringify({ things: [asked.length], next })));
  }) as typeof fetch;
  assert.deepEqual(await new Client("http://server", "token").all<number>("/things?state=open", "things"), [1, 2, 3]);
  assert.deepEqual(asked, ["/things?state=open&limit=1000", "/things?state=open&limit=1000&cursor=c1", "/things?state=open&limit=1000&cursor=c2"]);
});

test("a page that is opened while the server is away says since when, as the page before it did", (context) => {
  let at = 1_000;
  context.mock.method(Date, "now", () => at);
  const client = new Client("http://server");
  const failed: Heard = { what: "failed", isOnline: false };
  client.after(client.after(CONNECTING, { what: "opened" }), { what: "ended" });
  at = 6_000;
  assert.equal(client.after(CONNECTING, failed).since, 1_000);
  client.after(CONNECTING, { what: "opened" });
  assert.equal(client.after(CONNECTING, failed).since, 6_000);
});
