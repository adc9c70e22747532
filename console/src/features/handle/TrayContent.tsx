/** The one tray: everything that needs a decision opens here, above the bar, in place. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import { isCapped } from "../../model/allowed";
import { silentWords } from "../../model/contact";
import { count, timeOfDay, who } from "../../ui/format";
import type { Actions } from "./actions";
import { AskTray } from "./AskTray";
import { mayAnswer } from "./asking";
import { ReviewTray } from "./ReviewTray";
import { isReview } from "../../model/interventions";
import { Composer } from "./Composer";
import { KeptPresses } from "../KeptPresses";
import { ForceTray } from "./ForceTray";
import { Halted } from "./Halted";
import { CapReached, changesOf, Difference, Reason } from "./PauseTray";
import { PreviewTable } from "./PreviewTable";
import { ReceiptTray } from "./ReceiptTray";
import { isAsked, isEnded, type View } from "./view";

interface Props { live: Live; actions: Actions; view: View; me: string; role: string; giveBack: (index: number) => void }

export function TrayContent(props: Props): JSX.Element | null {
  const { actions } = props;
  const refusal = actions.refusal.value;
  const parts = content(props);
  const kept = props.live.outbox.kept.value;
  if (!parts && !refusal && !kept.length) return null;
  return (
    <div class="tray" part="tray">
      <KeptPresses outbox={props.live.outbox} connection={props.live.connection.value} />
      {refusal && (
        <div class="row refusal">
          <span class={refusal.isCalm ? "sub" : "still"}>{refusal.words}</span>
          <button class="plain" type="button" onClick={() => { actions.refusal.value = null; }}>close</button>
        </div>
      )}
      {parts}
    </div>
  );
}

function content(props: Props): JSX.Element | null {
  const { live, actions, view, me, role, giveBack } = props;
  const session = live.run.session!;
  const close = (): void => { actions.close(); giveBack(1); };
  if (view.tray === "redirect") {
    const isTurn = isEnded(view.status);
    return <Composer view={view} isTurn={isTurn} close={close} send={(text, level) => { actions.send(text, level, isTurn); giveBack(1); }} />;
  }
  if (view.tray === "preview") {
    return <PreviewTable live={live} preview={actions.preview.value} choice={actions.choice.value} choose={(choice) => { actions.choice.value = choice; }} />;
  }
  if (view.tray === "undo") return <UndoTray {...props} />;
  if (view.tray === "force") return <ForceTray live={live} view={view} close={() => { actions.close(); giveBack(2); }} />;
  switch (view.status) {
    case "halted":
      return (
        <>
          <Halted session={session} me={me} stillRuns={view.still.length > 0} mayLift={view.mayLift} />
          <Asks {...props} />
        </>
      );
    case "cancelling": case "cancelled": return live.receipt.value && <ReceiptTray live={live} me={me} />;
    case "pausing": case "paused": {
      const reason = actions.wantsReason.value && session.pause !== null && !session.pause.reason && role !== "watch";
      const hasAsks = session.asks.length + session.child_asks.length > 0;
      if (!reason && !hasAsks && !changesOf(live).length && !isCapped(session)) return null;
      return (
        <>
          <CapReached live={live} role={role} raise={(budget) => actions.raise(budget)} />
          <Difference live={live} who={(by) => who(by, me)} edit={(id, text) => actions.edit(id, text)} withdraw={(id) => actions.withdraw(id)} />
          <Asks {...props} />
          {reason && <Reason give={(words) => actions.reason(words)} skip={() => { actions.wantsReason.value = false; }} />}
        </>
      );
    }
    case "waiting": case "running":
      if (!isCapped(session) && session.asks.length + session.child_asks.length === 0) return null;
      return <><CapReached live={live} role={role} raise={(budget) => actions.raise(budget)} /><Asks {...props} /></>;
    default: return null;
  }
}

function Asks({ live, actions, view, role }: Props): JSX.Element {
  const session = live.run.session!;
  const asks = [...session.asks, ...session.child_asks];
  const press = live.outbox.kept.value.find((one) => one.verb === "answer");
  // Said once: it stays open in the journal until the worker has decided the answer.
  if (asks.length === 1 && press) return <></>;
  if (asks.length === 1 && isAsked(view, "answer") && view.asking !== "answer") {
    return <p class="sub">An answer is stored. {view.silentSince == null ? "Its worker has not decided it yet." : `${silentWords(timeOfDay(view.silentSince))}.`}</p>;
  }
  return (
    <>
      {asks.map((ask) => ("id" in ask && isReview(ask.step) ? (
        <ReviewTray key={ask.id} live={live} ask={ask} isOnly={asks.length === 1} mayAnswer={mayAnswer(role, ask.reason, true)}
          answer={(value, name) => actions.answer(value, name)} cancel={() => void actions.startCancel()} />
      ) : (
        <AskTray key={"id" in ask ? ask.id : `${ask.child}/${ask.ask}`} live={live} ask={ask} isOnly={asks.length === 1} takesFocus={false}
          mayAnswer={mayAnswer(role, ask.reason, false)}
          answer={(value, name) => actions.answer(value, name)} />
      )))}
      {view.status === "paused" && asks.some((ask) => !("id" in ask) || !isReview(ask.step)) && <p class="dim">An answer given now is used after the resume.</p>}
    </>
  );
}

function UndoTray({ live, actions, view, me, giveBack }: Props): JSX.Element {
  return (
    <>
      <ReceiptTray live={live} me={me} />
      <div class="row">
        <button class="btn solid big" type="button" ref={(button) => { if (button && !button.dataset.seen) { button.dataset.seen = "1"; button.focus(); } }} onClick={() => actions.undo()}>Undo {count(view.undoable ?? 0, "effect")}, newest first</button>
        <span class="sub">The receipt shows the result of each.</span>
        <span class="end"><button class="plain" type="button" onClick={() => { actions.close(); giveBack(2); }}>close <kbd aria-hidden="true">esc</kbd></button></span>
      </div>
    </>
  );
}
