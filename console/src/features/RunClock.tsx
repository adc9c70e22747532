/** How long something of a run has been at work: it stops with the last sign of life of its worker. */

import type { JSX } from "preact";
import type { Live } from "../api/live";
import { second } from "../ui/clock";
import { clock } from "../ui/format";

export function RunClock({ live, since }: { live: Live; since: number }): JSX.Element {
  void second.value;
  return <time>{clock(live.seenAt() - since)}</time>;
}
