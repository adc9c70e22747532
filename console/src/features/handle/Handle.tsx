/** The handle: one bar, always there, with three slots that never move, and above it the one tray. */

import { useComputed, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Live } from "../../api/live";
import { elapsed } from "../../model/session";
import { second } from "../../ui/clock";
import { cap, clock, money } from "../../ui/format";
import { Meter } from "../../ui/Parts";
import { Shape } from "../../ui/Shape";
import { Actions } from "./actions";
import { assertive, polite } from "./announce";
import { useGuard, useKeys } from "./pressing";
import { confirmWords } from "./PreviewTable";
import { Sentence } from "./Sentence";
import { type Slot, slotsFor } from "./slots";
import { TrayContent } from "./TrayContent";
import { changesOf } from "./PauseTray";
import { place, stillRunning, type View } from "./view";

export interface HandleProps {
  live: Live; me: string; role: string;
  /** Where keys are listened to: the page, or the element alone. */
  keys: EventTarget;
  told?: (event: string, detail: unknown) => void;
}

export function viewOf(live: Live, actions: Actions, role: string): View | null {
  void live.rev.value;
  const session = live.run.session;
  if (!session) return null;
  const known = live.allowed.value;
  const receipt = live.receipt.value;
  return {
    status: session.status,
    asking: live.outbox.pending.value[0]?.verb ?? "",
    isLost: live.connection.value.state === "lost",
    tray: actions.tray.value,
    isInstead: actions.isInstead.value && actions.tray.value === "redirect",
    allowed: known && known.position >= session.position - 50 ? new Set(known.verbs) : null,
    still: stillRunning(live.run),
    ...place(live.run),
    hasChange: changesOf(live).length > 0,
    isProtected: session.terms.task_class === "protected",
    undoable: receipt && receipt.lines.filter((line) => line.effect !== "hold" && (line.outcome === "kept" || line.outcome === "undo failed")).length,
    confirm: confirmWords(actions.preview.value, actions.choice.value),
    mayLift: session.status === "halted" && (known?.verbs.includes("lift") ?? false),
    isOwnHold: actions.isOwnHold.value,
    canRetry: role !== "watch",
    isUndoing: session.undo !== null && !session.undo.done,
  };
}

export function Handle({ live, me, role, keys, told }: HandleProps): JSX.Element | null {
  const actions = useMemo(() => new Actions(live, told ?? (() => {})), [live]);
  useEffect(() => () => actions.dispose(), [actions]);
  useSignalEffect(() => { void live.rev.value; actions.settle(); });
  const state = useComputed(() => viewOf(live, actions, role));
  const view = state.value;
  const guard = useGuard();
  const slots = view && slotsFor(view);
  const root = useRef<HTMLElement>(null);
  const act = (slot: Slot, index: number): void => {
    if (slot.disabled || !guard.passes(index, slot.act)) return;
    perform(slot.act, actions, () => focusSlot(root.current, index));
  };
  useKeys(keys, root, () => slots, act, actions);
  const status = view?.status;
  const wasEnded = useRef(status);
  useEffect(() => {
    if (status && status !== wasEnded.current && ["completed", "failed", "cancelled"].includes(status)) told?.("settled", { status });
    wasEnded.current = status;
  }, [status]);
  if (!view || !slots) return null;
  const session = live.run.session!;
  const budget = session.terms.budget;
  return (
    <section class="handle" data-status={shownStatus(view)} data-stale={view.isLost || undefined} aria-label="Interrupt handle" ref={root}>
      <TrayContent live={live} actions={actions} view={view} me={me} role={role} giveBack={(index) => focusSlot(root.current, index)} />
      <div class="bar" part="bar">
        <div class="now">
          <Sentence live={live} view={view} me={me} heldSince={view.tray === "preview" ? actions.heldSince.value : null} unreachable={actions.unreachable.value} />
          <p class="vh" role="status" aria-live="polite">{view.isLost ? "" : polite(live, view)}</p>
          <p class="vh" role="alert" aria-live="assertive">{assertive(live, view)}</p>
        </div>
        <dl class="dials">
          <div><dt>elapsed</dt><dd><Elapsed live={live} /></dd></div>
          <div><dt>step</dt><dd class="step">{view.step}</dd></div>
          <div>
            <dt>{budget === null ? "spent" : "spent of cap"}</dt>
            <dd>
              {money(session.cost)}{budget === null ? <small> no cap</small> : <small> / {cap(budget)}</small>}
              {budget !== null && <Meter label="Spent of cap" value={session.cost} max={budget} words={`${money(session.cost)} of ${cap(budget)}`} />}
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
  return <time>{clock(elapsed(live.run.session!, live.now()))}</time>;
}

/** The edge of the handle is drawn as pausing in the same frame as the press. */
function shownStatus(view: View): string {
  return view.asking === "pause" && ["running", "queued", "waiting"].includes(view.status) ? "pausing" : view.status;
}

function isOpen(slot: Slot, view: View): boolean | undefined {
  if (slot.act === "redirect" || slot.act === "turn") return view.tray === "redirect";
  if (slot.act === "undo") return view.tray === "undo";
  return undefined;
}

function focusSlot(root: HTMLElement | null, index: number): void {
  root?.querySelectorAll<HTMLElement>(".slot")[index]?.focus();
}

function perform(act: Slot["act"], actions: Actions, giveBack: () => void): void {
  switch (act) {
    case "pause": actions.pause(); break;
    case "abort": actions.abort(); break;
    case "resume": case "retry": case "lift": actions.resume(); break;
    case "keep": actions.keepGoing(); giveBack(); break;
    case "redirect": case "turn":
      if (actions.tray.value === "redirect") { actions.close(); giveBack(); } else actions.open("redirect");
      break;
    case "cancel":
      if (actions.isInstead.value) actions.close();
      else void actions.startCancel();
      break;
    case "confirm": actions.confirm(); break;
    case "force": actions.force(); break;
    case "undo":
      if (actions.tray.value === "undo") { actions.close(); giveBack(); } else actions.open("undo");
      break;
    case "none": break;
  }
}

interface SlotProps { slot: Slot; index: number; isOpen: boolean | undefined; act: (slot: Slot, index: number) => void; watch: (index: number, meaning: string) => void }

function SlotButton({ slot, index, isOpen, act, watch }: SlotProps): JSX.Element {
  watch(index, slot.act);
  const pressedAt = useRef(0);
  // Pause acts when the finger comes down; everything else when it is lifted.
  const down = (event: PointerEvent): void => {
    if (slot.act !== "pause" || event.button !== 0) return;
    pressedAt.current = performance.now();
    act(slot, index);
  };
  const click = (): void => { if (performance.now() - pressedAt.current > 700) act(slot, index); };
  const shown: Record<string, string> = { Escape: "esc", Enter: "↵" };
  return (
    <button class={`slot ${slot.tone}`} part="slot" type="button" aria-disabled={slot.disabled || undefined} aria-expanded={isOpen}
      aria-keyshortcuts={slot.key || undefined} onPointerDown={down} onClick={click}>
      <Shape name={slot.shape} /><b>{slot.label}</b><kbd aria-hidden="true">{shown[slot.key] ?? (slot.key || "–")}</kbd>
      <em><span class="long">{slot.long}</span><span class="short">{slot.short}</span></em>
    </button>
  );
}
