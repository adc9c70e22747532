/** What a force comes to, before it is pressed: it ends half-way what finishes first, and nothing takes that back. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import type { OpenCall } from "../../model/calls";
import { RunClock } from "../RunClock";
import { CHOICE } from "./ReceiptTray";
import type { View } from "./view";

export function ForceTray({ live, view, close }: { live: Live; view: View; close: () => void }): JSX.Element {
  const heading = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => heading.current?.focus(), []);
  const undo = live.run.session?.deferred?.undo ?? "in-flight";
  return (
    <>
      <p class="lead" tabIndex={-1} ref={heading} aria-describedby="midcourse-force">Force stops this turn before it is finished. This cannot be undone.</p>
      <ul class="means" id="midcourse-force">
        {view.still.map((call) => (
          <li key={call.step}><span class="still">Still running: <code>{call.name}</code> <RunClock live={live} since={call.since} /></span> · {fate(call)}</li>
        ))}
        {view.still.length === 0 && <li>No call runs at this moment; nothing new starts.</li>}
        <li>Its progress is discarded, and this session cannot continue. Its journal is kept.</li>
        <li>Its effects: {CHOICE[undo]}, as chosen with the cancel. The receipt lists each one.</li>
        <li>It is not restarted automatically: start it again if you still need it.</li>
      </ul>
      <div class="row"><span class="sub">It keeps running while you decide.</span><span class="end"><button class="plain" type="button" onClick={close}>close <kbd aria-hidden="true">esc</kbd></button></span></div>
    </>
  );
}

function fate(call: OpenCall): string {
  if (call.kind === "model") return "cut off.";
  return call.effect === "irreversible" ? "irreversible, so it finishes." : "gets no more time; its result may stay unknown.";
}
