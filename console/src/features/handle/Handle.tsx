/** The handle: one bar, always there, with three slots that never move, and above it the one tray. */

import { useComputed, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import { allowed, isCapped } from "../../model/allowed";
import { undoable } from "../../model/receipt";
import { elapsed, spentSoFar } from "../../model/session";
import { second } from "../../ui/clock";
import { cap, clock, spent, unpricedWords, WORKED } from "../../ui/format";
import { Meter } from "../../ui/Parts";
import { Shape } from "../../ui/Shape";
import { stands, switches } from "../killswitch/switches";
import { Actions } from "./actions";
import { assertive, polite } from "./announce";
import { useGuard, useKeys } from "./pressing";
import { confirmWords } from "./PreviewTable";
import { Sentence } from "./Sentence";
import { type Slot, slotsFor } from "./slots";
import { TrayContent } from "./TrayContent";
import { changesOf } from "./PauseTray";
import { isAsked, isEnded, place, stillRunning, type View } from "./view";

export interface HandleProps {
  live: Live; me: string; role: string;
  /** Where keys are listened to: the page, or the element alone. */
  keys: EventTarget;
  told?: (event: string, detail: unknown) => void;
  /** What a link has promised to open. */
  opens?: "preview" | "redirect" | null;
}

export function viewOf(live: Live, actions: Actions, role: string): View | null {
  void live.rev.value;
  const session = live.run.session;
  if (!session) return null;
  const verbs = allowed(session, role);
  const receipt = live.receipt.value;
  const press = live.outbox.pending.value[0];
  const contact = live.contact.value;
  return {
    status: session.status,
    asking: press?.verb ?? "",
    press: press ?? null,
    stored: contact.pending,
    silentSince: contact.unreachable_since ?? contact.silent_since,
    heartbeat: contact.silent_since,
    isUnwritten: contact.unwritten,
    isLost: live.connection.value.state === "lost" || live.connection.value.state === "refused",
    tray: actions.tray.value,
    isInstead: actions.isInstead.value && actions.tray.value === "redirect",
    allowed: verbs,
    still: stillRunning(live.run),
    ...place(live.run),
    hasChange: changesOf(live).length > 0,
    isCapped: isCapped(session),
    cut: session.cuts.size === 0 ? "" : [...session.cuts.values()].includes("") ? "again" : "continues",
    isProtected: session.terms.task_class === "protected",
    // Halted or stopped meanwhile, it does not finish.
    deferred: (["running", "waiting"].includes(session.status) && session.deferred?.stop) || "",
    mayForce: role === "operate",
    undoable: receipt && undoable(receipt.lines),
    confirm: confirmWords(actions.preview.value, actions.choice.value),
    mayLift: session.status === "halted" && verbs.has("resume"),
    isUnattended: contact.unattended,
    isSwitchOn: session.status === "halted" && switches.value.some((one) => one.id === session.halted_switch && stands(one)),
    isOwnHold: actions.isOwnHold.value,
    isUndoing: session.undo !== null && !session.undo.done,
    isErased: session.erased_at !== null,
    isDiscarded: session.discarded,
  };
}

export function Handle({ live, me, role, keys, told, opens }: HandleProps): JSX.Element | null {
  const actions = useMemo(() => new Actions(live, told ?? (() => {})), [live]);
  useEffect(() => () => actions.dispose(), [actions]);
  useSignalEffect(() => { void live.rev.value; actions.settle(); });
  const state = useComputed(() => viewOf(live, actions, role));
  const view = state.value;
  // Only who has read everything knows whether it is paused already, and whose pause that is.
  const isThere = view !== null && live.isCaughtUp.value;
  useEffect(() => {
    if (!isThere || !opens) return;
    if (opens === "redirect") actions.open("redirect"); else void actions.startCancel();
  }, [isThere, actions]);
  const guard = useGuard();
  const slots = view && slotsFor(view);
  const root = useRef<HTMLElement>(null);
  const act = (slot: Slot, index: number): void => {
    if (slot.disabled || !guard.passes(index, slot.act)) return;
    if (slot.act === "raise") root.current?.querySelector<HTMLInputElement>("[data-cap]")?.select();
    else perform(slot.act, actions, () => focusSlot(root.current, index));
  };
  useKeys(keys, root, () => slots, act, actions);
  const status = view?.status;
  const wasEnded = useRef(status);
  useEffect(() => {
    if (status && status !== wasEnded.current && ["completed", "failed", "cancelled"].includes(status)) told?.("settled", { status });
    wasEnded.current = status;
  }, [status]);
  const wasInTray = useRef(false);
  useLayoutEffect(() => {
    // What had the focus has gone with the tray: give it back to the slots, never to another place of the page.
    const home = root.current?.getRootNode();
    const isNowhere = home instanceof Document ? home.activeElement === home.body : home instanceof ShadowRoot && home.activeElement === null;
    if (wasInTray.current && isNowhere) focusSlot(root.current, 0);
  });
  if (!view || !slots) return null;
  const session = live.run.session!;
  const budget = session.terms.budget;
  const paid = spentSoFar(session);
  const isKnown = paid.cost > 0 || paid.unpriced === 0;
  return (
    <section class="handle" data-status={shownStatus(view)} data-stale={view.isLost || view.isUnattended || view.silentSince != null || undefined} aria-label="Interrupt handle" ref={root}
      onFocusIn={(event) => { wasInTray.current = event.target instanceof Element && event.target.closest(".tray") !== null; }}
      onFocusOut={(event) => leaving(event.target, () => { wasInTray.current = false; })}>
      <TrayContent live={live} actions={actions} view={view} me={me} role={role} giveBack={(index) => focusSlot(root.current, index)} />
      <div class="bar" part="bar">
        <div class="now">
          <Sentence live={live} view={view} me={me} heldSince={view.tray === "preview" ? actions.heldSince.value : null} />
          <p class="vh" role="status" aria-live="polite">{view.isLost ? "" : polite(live, view, actions.refusal.value?.words ?? "")}</p>
          <p class="vh" role="alert" aria-live="assertive">{assertive(live, view)}</p>
        </div>
        <dl class="dials">
          <div title={WORKED}><dt>worked</dt><dd><Elapsed live={live} /></dd></div>
          <div><dt>step</dt><dd class="step">{view.step}</dd></div>
          <div title={unpricedWords(paid) || undefined}>
            <dt>{budget === null ? "spent" : "spent of cap"}</dt>
            <dd>
              <span class={isKnown ? undefined : "unpriced"}>{spent(paid)}</span>{budget === null ? <small> no cap</small> : <small> / {cap(budget)}</small>}
              {budget !== null && isKnown && <Meter label="Spent of cap" value={paid.cost} max={budget} words={`${spent(paid)} of ${cap(budget)}`} />}
            </dd>
          </div>
        </dl>
        <div class="slots" role="group" aria-label="Controls">
          {slots.map((slot, index) => <SlotButton key={index} slot={slot} index={index} act={act} watch={guard.watch} isOpen={isOpen(slot, view)} />)}
        </div>
      </div>
    </section>
  );
}

function Elapsed({ live }: { live: Live }): JSX.Element {
  void live.rev.value;
  void second.value;
  const session = live.run.session!;
  return <time>{clock(elapsed(session, live.seenAt()))}</time>;
}

/** The edge of the handle is drawn as pausing in the same frame as the press. */
function shownStatus(view: View): string {
  if (isEnded(view.status) || view.status === "halted") return view.status;
  if (isAsked(view, "cancel")) return "cancelling";
  return (isAsked(view, "pause") || view.isUnwritten) && ["running", "queued", "waiting"].includes(view.status) ? "pausing" : view.status;
}

function isOpen(slot: Slot, view: View): boolean | undefined {
  if (slot.act === "redirect" || slot.act === "turn") return view.tray === "redirect";
  if (slot.act === "undo") return view.tray === "undo";
  if (slot.act === "half-way") return false;
  return undefined;
}

/** The reader has gone elsewhere by themselves: what they left is still there, and nothing of the handle has the focus. */
function leaving(left: EventTarget | null, then: () => void): void {
  setTimeout(() => { if (left instanceof Element && left.isConnected && !left.closest(".handle")?.matches(":focus-within")) then(); });
}

function focusSlot(root: HTMLElement | null, index: number): void {
  root?.querySelectorAll<HTMLElement>(".slot")[index]?.focus();
}

function perform(act: Slot["act"], actions: Actions, giveBack: () => void): void {
  switch (act) {
    case "pause": actions.pause(); break;
    case "abort": actions.abort(); break;
    case "resume": case "retry": case "lift": actions.resume(); break;
    case "keep":
      if (actions.tray.value === "force") actions.close(); else actions.keepGoing();
      giveBack();
      break;
    case "redirect": case "turn":
      if (actions.tray.value === "redirect") { actions.close(); giveBack(); } else actions.open("redirect");
      break;
    case "cancel":
      if (actions.isInstead.value) actions.close();
      else void actions.startCancel();
      break;
    case "confirm": actions.confirm(); giveBack(); break;
    case "force": actions.force(); break;
    case "half-way": actions.open("force"); break;
    case "discard": actions.discard(); giveBack(); break;
    case "undo":
      if (actions.tray.value === "undo") { actions.close(); giveBack(); } else actions.open("undo");
      break;
    case "none": case "raise": break;
  }
}

interface SlotProps { slot: Slot; index: number; isOpen: boolean | undefined; act: (slot: Slot, index: number) => void; watch: (index: number, meaning: string) => void }

export function SlotButton({ slot, index, isOpen, act, watch }: SlotProps): JSX.Element {
  watch(index, slot.act);
  const isTaken = useRef(false);
  // Pause acts when the finger comes down, and not once more when it is lifted; everything else when it is lifted.
  const down = (event: PointerEvent): void => {
    isTaken.current = slot.act === "pause" && event.button === 0;
    if (isTaken.current) act(slot, index);
  };
  const click = (event: MouseEvent): void => {
    // A key or a screen reader clicks without a finger: detail is 0.
    if (!isTaken.current || event.detail === 0) act(slot, index);
    isTaken.current = false;
  };
  const shown: Record<string, string> = { Escape: "esc", Enter: "↵" };
  return (
    <button class={`slot ${slot.tone}`} part="slot" type="button" aria-disabled={slot.disabled || undefined} aria-expanded={isOpen}
      aria-keyshortcuts={slot.key || undefined} onPointerDown={down} onClick={click}>
      <Shape name={slot.shape} /><b>{slot.label}</b><kbd aria-hidden="true">{shown[slot.key] ?? (slot.key || "–")}</kbd>
      <em><span class="long">{slot.long}</span><span class="short">{slot.short}</span></em>
    </button>
  );
}
