"""A session and one more record: what the journal's facts make of it. Pure.

An event that is in neither table of ``session``, or that contradicts what is known, cannot be folded.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from midcourse.core import events as ev
from midcourse.core import open_calls
from midcourse.core.budget import LAST_ANSWERS
from midcourse.core.commands import BY_PARENT, outranks
from midcourse.core.effects import DID_IT_HAPPEN
from midcourse.core.hypothesis import asked_by
from midcourse.core.ids import SessionId, StepId, ask_id, child_id, intervention_id, message_id, pause_id, queued_id
from midcourse.core.receipt import changed_receipt, held_line, line_key, line_of
from midcourse.core.session import (
    ALLOWED_IN,
    BACK,
    ENDED,
    TRANSITIONS,
    WORKS,
    ChildAsk,
    DeferredStop,
    Failure,
    Hold,
    Message,
    OpenAsk,
    OpenCall,
    QueuedMessage,
    Session,
    StandingCancel,
    StandingPause,
    StandingUndo,
    Status,
)
from midcourse.errors import Damaged, ImpossibleEvent

K = TypeVar("K")
T = TypeVar("T")
GIVEN_UP = "UndoFailed"
"""The kind of the error an agent sees when a call was interrupted and its undo failed."""

_NOT_WORKED_BEFORE = (ev.SessionTaken, ev.SessionForked)
"""Between the last word of an owner and the first of the next, nothing worked."""

replace = msgspec.structs.replace


def created(session_id: SessionId, record: ev.Recorded) -> Session:
    """The session its first record makes."""
    event = record.event
    if not isinstance(event, ev.SessionCreated):
        raise Damaged(
            f"The journal of session '{session_id}' does not begin with its creation. Restore it from a backup.",
            session_id=session_id,
        )
    return Session(
        id=session_id,
        agent=event.agent,
        agent_version=event.agent_version,
        mode=event.mode,
        origin=event.origin,
        resumable=event.resumable,
        parent=event.parent,
        forked_from=event.forked_from,
        restarts=event.restarts,
        terms=event.terms,
        created_at=record.at,
        at=record.at,
        position=record.position,
        messages=(Message(event.goal, "goal", 1, event.by, record.at),),
    )


def status_after(session: Session, event: ev.AnyEvent) -> Status:
    """The status ``event`` leads to.

    Raises:
        ImpossibleEvent: it cannot happen in the session's status.
    """
    target = TRANSITIONS.get((session.status, type(event)))
    if target is None:
        if session.status in ALLOWED_IN.get(type(event), ()):
            return session.status
        raise _impossible(session, event, "not in this status")
    if target != BACK:
        return Status(target)
    return _origin(session, event)


def _origin(session: Session, event: ev.AnyEvent) -> Status:
    if isinstance(event, ev.HaltLifted):
        return session.halted_from or Status.RUNNING
    return session.pause.origin if session.pause else Status.RUNNING


def _contradiction(session: Session, event: ev.AnyEvent) -> str:
    """Why ``event`` cannot be true of ``session`` although its status would allow it; empty if it can."""
    match event:
        case ev.StepBegun(step=step):
            return _not_again(session.calls.get(step))
        case ev.StepFinished() | ev.StepFailed() | ev.SegmentWritten():
            return _not_open(session, event.step, event.attempt) or _cannot_end(session, event)
        case ev.StepRetrying():
            return _not_open(session, event.step, event.attempt) or _cannot_retry(session.calls[event.step])
        case ev.StepNotBegun() | ev.StepAborted() | ev.StepCut() | ev.StepSettled():
            return _not_open(session, event.step, event.attempt)
        case ev.UndoBegun(step=step) if step in session.calls:
            alive = not session.calls[step].end
            return f"step '{step}' has not ended: nothing is undone while it lives" if alive else ""
        case ev.UndoFinished():
            return "" if session.is_being_undone else "no undo is under way"
        case ev.ToolsNeeded():
            return "" if session.status not in ENDED or session.is_being_undone else "nothing is rolled back"
        case ev.SessionErased():
            return "an undo is under way" if session.is_being_undone else ""
        case ev.HoldTaken(name=name):
            return f"'{name}' is held already" if name in session.holds else ""
        case ev.HoldReleased(name=name):
            return "" if name in session.holds else f"'{name}' is not held"
        case ev.StepClosed(step=step) if step in session.calls:  # what was aborted or cut before may be closed, too
            return _not_open(session, step, event.attempt)
        case ev.CheckpointTaken(scope=scope):
            if scope != session.next_scope:  # a name that stood before would give old results to new steps
                return f"the next scope is '{session.next_scope}', not '{scope}'"
            return _still_running(session) or ("an ask is open" if session.asks else "")
        case ev.SessionWaiting():
            return "" if session.asks else "no ask is open"
        case ev.AskOpened(ask=ask, step=step):
            if ask != ask_id(session.asks_opened + 1):
                return f"the next ask is '{ask_id(session.asks_opened + 1)}', not '{ask}'"
            return f"step '{step}' has an open ask" if any(one.step == step for one in session.asks) else ""
        case ev.AskAnswered(ask=ask, step=step) | ev.AskClosed(ask=ask, step=step):
            one = session.ask(ask)
            return "" if one is not None and one.step == step else f"step '{step}' has no open ask '{ask}'"
        case ev.PauseRequested(pause=pause, by=by):
            following = pause_id(session.pauses + 1)
            expected = session.pause.id if session.pause else following
            joins = session.pause is not None and joins_pause(session.pause, by) and pause == following
            return "" if joins or pause == expected else f"the pause is '{expected}', not '{pause}'"
        case ev.PauseRenewed(pause=pause):
            return "" if session.pause is not None and pause == session.pause.id else f"'{pause}' does not stand"
        case ev.PauseLifted(pause=pause):
            both = (
                () if session.pause is None or session.pause.beneath is None else (session.pause, session.pause.beneath)
            )
            return "" if any(pause == one.id for one in both) else f"'{pause}' is not one of two pauses that stand"
        case ev.SessionResumed(pause=pause):
            standing = session.pause.id if session.pause else None
            held = session.pause is not None and session.pause.beneath is not None
            return "" if pause == standing and not held else f"'{standing}' stands, not '{pause}'"
        case ev.StopDeferred():
            return "" if session.is_protected else "it is not protected"
        case ev.StopTakenBack():
            return "" if session.deferred is not None else "no stop waits for its end"
        case ev.CancelRequested(grace=grace):
            softer = session.cancel is not None and grace > session.cancel.grace
            return "a cancel only becomes firmer" if softer else ""
        case ev.InterventionMade(intervention=intervention):
            expected = intervention_id(session.interventions + 1)
            return "" if intervention == expected else f"the next intervention is '{expected}', not '{intervention}'"
        case ev.TurnOpened(queued=queued):
            if queued is not None and (not session.queue or session.queue[0].id != queued):
                return f"'{queued}' is not the next in the queue"
            return "an ask is open" if session.asks else ""
        case ev.MessageQueued(message=message):
            expected = queued_id(session.queued + 1)
            return "" if message == expected else f"the next queued message is '{expected}', not '{message}'"
        case ev.MessageEdited(message=message) | ev.MessageWithdrawn(message=message):
            return "" if message in session.amendable else f"'{message}' cannot be changed any more"
        case ev.MessagesSeen(count=count):
            known = session.seen < count <= len(session.messages)
            return "" if known else f"{session.seen} of {len(session.messages)} messages had been seen, not {count}"
        case _:
            return ""


def _not_open(session: Session, step: StepId, attempt: int) -> str:
    call = session.calls.get(step)
    return "" if call is not None and call.attempt == attempt else f"attempt {attempt} at step '{step}' is not open"


def _not_again(before: OpenCall | None) -> str:
    """Why a step cannot begin (again): what may have happened is not done twice."""
    if before is None:
        return ""
    if not before.end:
        return f"step '{before.step}' has begun and has not ended"
    if before.effect == "reversible" and before.undo != "done":
        return f"the attempt before at step '{before.step}' was not undone"
    if before.effect == "irreversible" and before.told != "no":
        return f"nobody said that the attempt before at step '{before.step}' did not happen"
    return ""


def _cannot_retry(call: OpenCall) -> str:
    """Why an attempt that is open is not tried again by itself."""
    if call.end:
        return f"step '{call.step}' does not run any more"
    return "what cannot be undone is not done again by itself" if call.effect == "irreversible" else ""


def _cannot_end(session: Session, event: ev.StepFinished | ev.StepFailed | ev.SegmentWritten) -> str:
    """A call that is not alive has an outcome only if somebody told it, or if its undo was given up."""
    if not session.calls[event.step].end:
        return ""
    told = event.told_by if isinstance(event, ev.StepFinished) else getattr(event, "kind", "") == GIVEN_UP
    return "" if told else f"step '{event.step}' does not run any more, and nobody told of it"


def _still_running(session: Session) -> str:
    return f"not ended: {', '.join(session.running)}" if session.running else ""


def _impossible(session: Session, event: ev.AnyEvent, why: str) -> ImpossibleEvent:
    return ImpossibleEvent(
        f"Session '{session.id}' is {session.status}; '{ev.event_type(event)}' cannot happen there: {why}.",
        session_id=session.id,
        status=str(session.status),
    )


def evolve(session: Session, record: ev.Recorded) -> Session:
    """The session after one more record. Pure.

    Raises:
        ImpossibleEvent: the event cannot happen in the session's status, or contradicts what is known of it.
    """
    event, at = record.event, record.at
    status = status_after(session, event)
    why_not = _contradiction(session, event)
    if why_not:
        raise _impossible(session, event, why_not)
    changes: dict[str, object] = {"status": status, "position": record.position, "at": at}
    if (status in WORKS) is (session.working_since is None) or isinstance(event, _NOT_WORKED_BEFORE):
        changes |= _worked(session, status, event, at)
    match event:
        case ev.StepBegun():
            changes["calls"] = _with(session, _begun(session, event, at))
            if event.step in session.cuts:
                changes["cuts"] = _without(session.cuts, event.step)
            if event.kind == "child":
                changes["children"] = {**session.children, event.step: child_id(session.id, event.step)}
                changes["has_spawned"] = True
            if session.loose_keys and loose_key(event.tool, event.digest) in session.loose_keys:
                changes["loose_keys"] = _without(session.loose_keys, loose_key(event.tool, event.digest))
        case ev.StepNotBegun():
            changes["calls"] = _not_begun(session, event.step)
            changes |= _still_loose(session.calls[event.step], session)
        case ev.StepFinished():
            changes["calls"] = _without(session.calls, event.step)
            changes["finished_steps"] = session.finished_steps + 1
            changes |= _spent(session, event) | _usual(session, event) | _childless(session, event.step)
        case ev.SegmentWritten() if event.cost or event.tokens:
            call = session.calls[event.step]
            spent = max(call.spent, event.cost)
            changes["cost"] = session.cost + spent - call.spent
            changes["calls"] = _with(session, replace(call, spent=spent, written=event.tokens, free=event.free))
        case ev.StepCut():
            changes["calls"] = _without(session.calls, event.step)
            changes["cuts"] = {**session.cuts, event.step: event.continues}
            changes |= _spent(session, event)
        case ev.StepFailed():
            changes |= _still_loose(session.calls[event.step], session)
            changes["calls"] = _without(session.calls, event.step)
            changes |= _spent(session, event) | _childless(session, event.step)
        case ev.StepRetrying():
            changes["calls"] = _with(session, open_calls.failed(session.calls[event.step], event, at))
            changes |= _spent(session, event)
        case ev.StepClosed():
            changes |= _loosened(session, [session.calls[event.step]] if event.step in session.calls else [])
            changes["calls"] = _without(session.calls, event.step)
            changes["cuts"] = _without(session.cuts, event.step)
            changes |= _childless(session, event.step)
            changes["seen"] = max(session.seen, min(event.message + 1, len(session.messages)))
        case ev.StepAborted():  # a child that was stopped with its parent goes on with it
            ended = open_calls.aborted(session.calls[event.step], event, at)
            if event.asked:
                changes |= _still_loose(session.calls[event.step], session)
            changes["calls"] = _without(session.calls, event.step) if ended is None else _with(session, ended)
        case ev.StepSettled():
            changes["calls"] = _with(session, open_calls.settled(session.calls[event.step], event))
        case ev.UndoBegun() | ev.UndoEnded():
            call = session.calls.get(event.step)
            if call is not None and call.key == event.key:  # else: of a call that had ended before
                changes["calls"] = _with(session, open_calls.undoing(call, event, at))
            if isinstance(event, ev.UndoEnded) and not event.error and not event.lost:
                kept = {name: key for name, key in session.loose_keys.items() if key != event.key}
                changes["loose_keys"] = kept  # what was undone is done again under a new key
            changes["needs"] = ()
        case ev.ToolsNeeded(tools=tools):
            changes["needs"] = tools
        case ev.UndoRequested():
            none: Mapping[str, ev.ReceiptLine] = {}
            lines = session.undo.receipt if session.undo is not None and event.force else none
            changes["undo"] = StandingUndo(event.by, at, event.reason, receipt=lines, gives_up=event.force)
            changes["needs"] = ()
        case ev.UndoFinished():
            assert session.undo is not None
            changes["undo"] = replace(session.undo, done=True)
            changes["needs"] = ()
        case ev.HoldTaken():
            changes["holds"] = {**session.holds, event.name: Hold(event.name, event.release, event.given)}
        case ev.HoldReleased():
            hold = session.holds[event.name]
            held = replace(hold, tries=event.number, error=event.error)
            others = _without(session.holds, event.name)
            changes["holds"] = {**others, event.name: held} if event.error else others
        case ev.WorldChanged():
            changes["changes"] = event.changes
        case ev.ChildAsked():
            asked = ChildAsk(event.child, event.ask, event.reason, event.prompt, at)
            changes["child_asks"] = (*session.child_asks, asked)
        case ev.ChildAskClosed(child=child, ask=ask):
            changes["child_asks"] = tuple(one for one in session.child_asks if (one.child, one.ask) != (child, ask))
        case ev.SessionPaused(unreached=unreached):
            changes["unreached"] = unreached
        case ev.SessionForked():
            changes |= {"calls": {}, "children": {}, "child_asks": (), "unreached": (), "holds": {}, "loose_keys": {}}
            changes["has_spawned"] = False
            changes["needs"] = ()
            changes["asks"] = tuple(ask for ask in session.asks if ask.reason != DID_IT_HAPPEN)
            changes["deferred"] = None  # meant for its source, as a force is
            if session.cancel is not None:
                changes["cancel"] = replace(session.cancel, force=False)
        case ev.SessionTaken(lost=lost, silent=silent):
            changes["calls"] = {
                step: open_calls.lost(call, at, silent=silent) if step in lost else call
                for step, call in session.calls.items()
            }
        case ev.AskOpened():
            changes["asks"] = (*session.asks, _opened(event, at))
            changes["asks_opened"] = session.asks_opened + 1
        case ev.AskAnswered(ask=ask) | ev.AskClosed(ask=ask):
            changes["asks"] = tuple(one for one in session.asks if one.id != ask)
            # The path that waited for it goes on once the stop is lifted, whatever other paths still wait for.
            if session.pause is not None and session.pause.origin is Status.WAITING:
                changes["pause"] = replace(session.pause, origin=Status.RUNNING)
            if session.halted_from is Status.WAITING:
                changes["halted_from"] = Status.RUNNING
        case ev.PauseRequested():
            changes["pause"] = _paused_by(session, event, at)
            changes["pauses"] = session.pauses + (event.pause == pause_id(session.pauses + 1))
        case ev.PauseRenewed():
            assert session.pause is not None
            changes["pause"] = replace(session.pause, renewals=session.pause.renewals + 1)
        case ev.PauseLifted(pause=pause):
            assert session.pause is not None
            assert session.pause.beneath is not None
            on_top = replace(session.pause, beneath=None)
            below = replace(session.pause.beneath, origin=on_top.origin)
            changes["pause"] = below if pause == on_top.id else on_top
        case ev.SessionResumed():
            changes |= {"pause": None, "failure": None, "unreached": ()}
            if session.unstated == "reviewed":
                changes["unstated"] = "allowed"
        case ev.SessionRedirected():
            changes["messages"] = (
                *session.messages,
                Message(event.text, event.level, session.turn, event.by, at, event.grace),
            )
            index = len(session.messages)
            changes["calls"] = {step: replace(call, redirected=index) for step, call in session.calls.items()}
            changes["cuts"] = dict.fromkeys(session.cuts, "")  # to what is asked now it was no answer
        case ev.MessageQueued():
            changes["queue"] = (*session.queue, QueuedMessage(event.message, event.text, event.by, at))
            changes["queued"] = session.queued + 1
        case ev.MessageEdited() | ev.MessageWithdrawn():
            changes |= _amended(session, event)
        case ev.MessagesSeen(count=count):
            changes["seen"] = count
        case ev.BudgetRaised(budget=budget):
            changes["terms"] = replace(session.terms, budget=budget)
        case ev.TurnOpened():
            turn = session.turn + 1
            said = _said_before(session, event.repeats)
            changes |= {
                "turn": turn,
                "scope": str(turn),
                "checkpoints": 0,
                "messages": (*said, Message(event.text, event.level, turn, event.by, at)),
                "scope_messages": len(said) + 1,
                "seen": len(said) + 1,  # what opens a turn is what it works on from the start
                "withdrawn": sum(message.withdrawn for message in said),
                "queue": session.queue if event.queued is None else session.queue[1:],
                "calls": {},
                "cuts": {},
                "children": {},
                "child_asks": (),
                "unreached": (),
                "pause": None,
                "cancel": None,
                "undo": None,
                "changes": (),
                "hypothesis": "",
                "unstated": "",
                "result": None,
                "failure": None,
                "receipt": (),
            }
        case ev.CheckpointTaken(scope=scope):
            changes["scope"] = scope
            changes["cuts"] = {}
            changes["checkpoints"] = session.checkpoints + 1
            changes["scope_messages"] = len(session.messages)
            # What is not done again by its name may be by its arguments.
            changes |= _loosened(session, session.calls.values())
            changes["calls"] = {step: call for step, call in session.calls.items() if not call.end}
        case ev.StopDeferred():
            changes["deferred"] = DeferredStop(event.stop, event.by, at, event.reason, event.undo, event.lapses)
        case ev.StopTakenBack():
            changes["deferred"] = None
        case ev.CancelRequested():
            changes["cancel"] = _cancelled_by(session, event, at)
            changes["pause"] = None
            changes["halted_from"] = None
            changes["deferred"] = None
            changes["needs"] = ()
        case ev.SessionCancelled():
            changes |= {
                "receipt": event.receipt,
                "unreached": event.unreached,
                "calls": {},
                "cuts": {},
                "children": {},
                "child_asks": (),
                "discarded": session.is_protected and session.cancel is not None and session.cancel.force,
                "restarted_as": event.restarted_as,
                "needs": (),
            }
        case ev.SessionHalted():
            changes |= {
                "halted_from": session.status,
                "halted_by": event.by,
                "halted_at": at,
                "halt_reason": event.reason,
                "switch": event.switch,
                "halts": session.halts + 1,
            }
        case ev.HaltLifted():
            changes["halted_from"] = None
        case ev.SessionCompleted(result=result):
            changes["result"] = result
            changes["calls"] = {}
            changes["cuts"] = {}
            changes["deferred"] = None
        case ev.SessionFailed():
            changes["failure"] = Failure(event.code, event.message, event.step)
            changes["pause"] = None
            changes["deferred"] = None
        case ev.AgentChanged(now=now):
            changes["agent_version"] = now
        case ev.InterventionMade(decision=decision):
            changes["interventions"] = session.interventions + 1
            if not session.hypothesis and (asked := asked_by(decision)):
                changes["unstated"] = asked
        case ev.InterventionLabelled(about=about, verdict=verdict):
            changes["labels"] = {**session.labels, about: verdict}
        case ev.SessionRated(score=score):
            changes["score"] = score
        case ev.SessionErased():
            # The ids of children came from those of their steps, which are others now.
            changes |= {"erased_at": at, "children": {}, "child_asks": (), "queue": ()}
        case ev.PlanChanged(items=items):
            changes["plan"] = items
        case ev.ReportMade():
            if event.progress is not None:
                changes["progress"] = event.progress
            if event.hypothesis:
                changes["hypothesis"] = event.hypothesis
        case _:
            pass
    after = replace(session, **changes)
    return after if after.cancel is None and after.undo is None else changed_receipt(session, after, event)


def _begun(session: Session, event: ev.StepBegun, at: float) -> OpenCall:
    before = session.calls.get(event.step)
    inherited = bool(session.loose_keys) and loose_key(event.tool, event.digest) in session.loose_keys
    inherited = inherited or (before is not None and before.inherited and before.key == event.key)
    call = open_calls.begun(event, at, before=before, inherited=inherited)
    return replace(call, said=len(session.messages))


def _said_before(session: Session, repeats: int) -> tuple[Message, ...]:
    """What was said before a turn's first message, which stands for the last ``repeats`` and takes the last's place.

    The others stay where they are, withdrawn: a message's id is its place, and means no other message later.
    """
    if not repeats:
        return session.messages
    first = len(session.messages) - repeats
    others = (replace(one, withdrawn=True) for one in session.messages[first:-1])
    return (*session.messages[:first], *others)


def _amended(session: Session, event: ev.MessageEdited | ev.MessageWithdrawn) -> dict[str, object]:
    """A message that nobody has acted on yet is said otherwise, or not at all."""
    changes: dict[str, object] = {"amended": session.amended + 1}
    text = None if isinstance(event, ev.MessageWithdrawn) else event.text
    waiting = [one for one in session.queue if one.id == event.message]
    if waiting:
        edited = [] if text is None else [replace(waiting[0], text=text)]
        queue = ((edited if one.id == event.message else [one]) for one in session.queue)
        return {**changes, "queue": tuple(one for ones in queue for one in ones)}
    index = next(one for one in range(len(session.messages)) if message_id(one + 1) == event.message)
    before = session.messages[index]
    after = replace(before, withdrawn=True) if text is None else replace(before, text=text)
    messages = (*session.messages[:index], after, *session.messages[index + 1 :])
    changes["messages"] = messages
    if text is None:
        changes["withdrawn"] = session.withdrawn + 1
        changes["calls"] = {step: _unredirected(call, index, messages) for step, call in session.calls.items()}
    return changes


def _unredirected(call: OpenCall, index: int, messages: tuple[Message, ...]) -> OpenCall:
    """A call that a withdrawn redirect would have closed goes on as if nobody had said it: another may still stand."""
    before = None if call.before is None else _unredirected(call.before, index, messages)
    if call.redirected != index:
        return call if before is call.before else replace(call, before=before)
    others = (place for place in range(index - 1, call.said - 1, -1) if not messages[place].withdrawn)
    return replace(call, redirected=next(others, None), before=before)


def _with(session: Session, call: OpenCall) -> Mapping[StepId, OpenCall]:
    return {**session.calls, call.step: call}


def loose_key(tool: str, digest: str) -> str:
    """Under which the key of a call that may have happened is kept for a later call of the same tool and arguments."""
    return f"{tool} {digest}"


def _still_loose(call: OpenCall, session: Session) -> dict[str, object]:
    """An inherited key is as loose as before: whoever has it next may be the one that did it."""
    if not call.inherited:
        return {}
    return {"loose_keys": {**session.loose_keys, loose_key(call.tool, call.digest): call.key}}


def _loosened(session: Session, calls: Iterable[OpenCall]) -> dict[str, object]:
    keys = {loose_key(call.tool, call.digest): call.key for call in calls if call.end and call.effect == "idempotent"}
    return {"loose_keys": {**session.loose_keys, **keys}} if keys else {}


def _worked(session: Session, status: Status, event: ev.AnyEvent, at: float) -> dict[str, object]:
    """How long it has worked, when the clock begins or stops."""
    since, worked = session.working_since, session.worked
    if since is not None:
        worked += max(0.0, (session.at if isinstance(event, _NOT_WORKED_BEFORE) else at) - since)
    return {"worked": worked, "working_since": at if status in WORKS else None}


def _spent(
    session: Session, event: ev.StepFinished | ev.StepFailed | ev.StepRetrying | ev.StepCut
) -> dict[str, object]:
    call = session.calls[event.step]
    is_known = event.cost or event.free
    # What its segments told of is counted already; the end knows better.
    added = event.cost - call.spent if is_known else 0.0
    spent: dict[str, object] = {"cost": max(0.0, session.cost + added), "tokens": session.tokens + event.tokens}
    if not is_known and not call.spent and _has_a_price(call, event):
        spent["unpriced"] = session.unpriced + 1
    return spent


def _usual(session: Session, event: ev.StepFinished) -> dict[str, object]:
    """What the last answers of models were like: by that the next one is priced."""
    if session.calls[event.step].kind != "model":
        return {}
    changes: dict[str, object] = {}
    if event.tokens:
        changes["outputs"] = (*session.outputs, event.tokens)[-LAST_ANSWERS:]
    if event.cost or event.free:
        changes["prices"] = (*session.prices, event.cost)[-LAST_ANSWERS:]
    return changes


def _has_a_price(call: OpenCall, event: ev.StepFinished | ev.StepFailed | ev.StepRetrying | ev.StepCut) -> bool:
    """Whether nothing is no answer to what it cost: a model was asked, here or by a child. What failed may be free."""
    return event.tokens > 0 or (call.kind == "model" and not isinstance(event, ev.StepFailed | ev.StepRetrying))


def _childless(session: Session, step: StepId) -> dict[str, object]:
    """The child of ``step``, if it had one, has ended: it has nothing to ask any more, nor have its own children."""
    if step not in session.children:
        return {}
    gone = session.children[step]
    return {
        "children": {one: child for one, child in session.children.items() if one != step},
        "child_asks": tuple(ask for ask in session.child_asks if not f"{ask.child}.".startswith(f"{gone}.")),
    }


def _not_begun(session: Session, step: StepId) -> Mapping[StepId, OpenCall]:
    call = session.calls.get(step)
    if call is not None and call.before is not None:
        return {**session.calls, step: call.before}
    return _without(session.calls, step)


def _without(known: Mapping[K, T], name: K) -> Mapping[K, T]:
    return {one: value for one, value in known.items() if one != name}


def _opened(event: ev.AskOpened, at: float) -> OpenAsk:
    return OpenAsk(
        event.ask,
        event.step,
        event.reason,
        event.prompt,
        at,
        event.options,
        event.expires_at,
        event.default,
        event.on_expiry,
    )


def _cancelled_by(session: Session, event: ev.CancelRequested, at: float) -> StandingCancel:
    if session.cancel is not None:
        firmer = _firmer(session.cancel, event, at)
        return replace(firmer, gives_up=True) if event.force and session.needs else firmer
    lines = {line_key(call.step, call.key): line_of(call) for call in session.calls.values() if call.effect != "read"}
    lines |= {f"hold {hold.name}": held_line(hold) for hold in session.holds.values()}
    return StandingCancel(
        event.by, at, event.grace, event.reason, event.undo, lines, event.force, event.operates, restart=event.restart
    )


def _firmer(standing: StandingCancel, event: ev.CancelRequested, at: float) -> StandingCancel:
    """A second cancel: what is in flight has no more time than it had."""
    since, grace = standing.since, standing.grace
    if event.grace != standing.grace:
        since, grace = at, min(event.grace, max(0.0, standing.since + standing.grace - at))
    return replace(
        standing,
        by=event.by,
        since=since,
        grace=grace,
        reason=event.reason,
        undo=event.undo,
        force=standing.force or event.force,
        operates=standing.operates or event.operates,
        restart=standing.restart or event.restart,
    )


def _paused_by(session: Session, event: ev.PauseRequested, at: float) -> StandingPause:
    lapses_at = None if event.lapses is None else at + event.lapses
    standing = session.pause
    if standing is not None and event.pause == standing.id:
        reason = event.reason or standing.reason
        budget = standing.budget if event.budget is None else event.budget
        # A person who pauses what its agent had paused holds it from then on: the agent does not lift that.
        by = event.by if outranks(event.by, standing.by) else standing.by
        return replace(standing, by=by, grace=event.grace, reason=reason, lapses_at=lapses_at, budget=budget)
    origin = session.status if standing is None else standing.origin
    pause = StandingPause(event.pause, event.by, at, origin, event.reason, event.grace, lapses_at, event.budget)
    if standing is None:
        return pause
    # The people's pause is on top: it is the one that people see, name and lift.
    if event.by.startswith(BY_PARENT):
        return replace(standing, grace=event.grace, beneath=pause)
    return replace(pause, renewals=standing.renewals, beneath=standing)


def joins_pause(standing: StandingPause, by: str) -> bool:
    """Whether a pause of ``by`` stands beside ``standing``: one is the parent's, the other one people's."""
    return standing.beneath is None and standing.by.startswith(BY_PARENT) != by.startswith(BY_PARENT)
