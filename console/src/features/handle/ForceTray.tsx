/** What a force comes to, before it is pressed: it ends half-way what finishes first, and nothing takes that back. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import type { OpenCall } from "../../model/calls";
import { Ticking } from "../../ui/Parts";
import { CHOICE } from "./ReceiptTray";
import type { View } from "./view";

export function ForceTray({ live, view, close }: { live: Live; view: View; close: () => void }): JSX.Element {
  const heading = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => heading.current?.focus(), []);
  const undo = live.run.session?.deferred?.undo ?? "in-flight";
  return (
    <>
      <p class="lead" tabIndex={-1} ref={heading} aria-describedby="midcourse-force">Force ends this turn half-way. That cannot be taken back.</p>
      <ul class="means" id="midcourse-force">
        {view.still.map((call) => (
          <li key={call.step}><span class="still">Still running: <code>{call.name}</code> <Ticking since={call.since} ahead={live.client.ahead} /></span> · {fate(call)}</li>
        ))}
        {view.still.length === 0 && <li>No call runs at this moment; nothing new starts.</li>}
        <li>What it has reached is discarded: this session goes on for nobody. Its journal is kept.</li>
        <li>What it has done: {CHOICE[undo]}, as was chosen with the cancel. The receipt says what became of each.</li>
        <li>Nothing begins anew by itself: start it again if it is still wanted.</li>
      </ul>
      <div class="row"><span class="sub">It goes on while you decide.</span><span class="end"><button class="plain" type="button" onClick={close}>close <kbd aria-hidden="true">esc</kbd></button></span></div>
    </>
  );
}

function fate(call: OpenCall): string {
  if (call.kind === "model") return "cut off.";
  return call.effect === "irreversible" ? "irreversible, so it finishes." : "gets no more time; its result may stay unknown.";
}
