/** What a request tells of the server's clock. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { aheadBy } from "../src/api/client";

test("an answer that took long says nothing of the clocks, and one from another time does", () => {
  const begun = 100_000;
  for (const said of [begun - 1_000, begun, begun + 12_000]) assert.equal(aheadBy(said, begun, begun + 12_000), 0);
  assert.equal(aheadBy(begun - 60_000, begun, begun + 12_000), -60);
  assert.equal(aheadBy(begun + 72_000, begun, begun + 12_000), 60);
});
