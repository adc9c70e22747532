/** Presses that are kept: what is known of each, and the way to take it back. */

import type { JSX } from "preact";
import type { Outbox } from "../api/outbox";
import { commandName, type Connection, pressWords } from "../model/contact";
import { Ticking } from "../ui/Parts";

export function KeptPresses({ outbox, connection }: { outbox: Outbox; connection: Connection }): JSX.Element {
  return (
    <>
      {outbox.kept.value.map((press) => (
        <div class="row refusal" key={press.key}>
          <span class="still">{pressWords(press, connection)} <Ticking since={press.since / 1000} /></span>
          <button class="plain" type="button" aria-label={`Do not send the ${commandName(press.verb)}`} onClick={() => outbox.drop(press.key)}>do not send it</button>
        </div>
      ))}
    </>
  );
}
