"""Turns: what opens one, what waits for the next, how one ends, and who has the session meanwhile. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import calls
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import queued_id
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.rules import Arm, Changes, Events, offered_if
from midcourse.core.session import Failure, Message, OpenAsk, QueuedMessage, Session
from midcourse.errors import ImpossibleEvent, Refused

# ---- rules


def can_go_on(session: Session) -> bool:
    """Return whether a session that has ended may work again."""
    return not _is_damaged(session) and not session.is_being_undone and not session.discarded


def _is_damaged(session: Session) -> bool:
    return session.failure is not None and session.failure.code == "damaged"


def check_can_go_on(session: Session) -> None:
    """Refuse another turn, or another try, where :func:`can_go_on` says no."""
    if session.failure is not None and _is_damaged(session):
        raise Refused(f"its journal is damaged: {session.failure.message}", code="session_damaged")
    if session.discarded:
        anew = f"continue in '{session.restarted_as}'" if session.restarted_as else "start a new session"
        raise Refused(
            f"it was forced to end half-way, and what it had reached is discarded; {anew}", code="session_discarded"
        )
    if session.is_being_undone:  # what it would do now would be rolled back with the rest
        raise Refused(f"it has ended, {session.status}, and is being undone; wait for that", code="not_allowed")


def closed(asks: Iterable[OpenAsk], end: ev.AskEnd) -> Events:
    """Close asks that can no longer be answered."""
    return tuple(ev.AskClosed(ask=ask.id, step=ask.step, end=end) for ask in asks)


def withdrawn(session: Session, by: str) -> Events:
    """Withdraw the open asks and what waits for its turn: no turn comes after this."""
    queue = (ev.MessageWithdrawn(message=one.id, by=by) for one in session.queue)
    return (*closed(session.asks, "withdrawn"), *queue)


@offered_if(lambda session, _role: can_go_on(session))
def new_turn(session: Session, command: cmd.Redirect) -> Events:
    """Let a redirect open a new turn of a session that has ended."""
    check_can_go_on(session)
    opened = ev.TurnOpened(text=command.text, level=command.level, by=command.by)
    return (*closed(session.asks, "superseded"), opened)


@offered_if(lambda session, _role: can_go_on(session))
def message_ended(session: Session, command: cmd.Message) -> Events:
    """Let a message open a new turn of an ended session, after those that were queued before."""
    check_can_go_on(session)
    superseded = closed(session.asks, "superseded")
    if not session.queue:
        return (*superseded, ev.TurnOpened(text=command.text, level="goal", by=command.by))
    return (*superseded, queued(session, command), next_turn(session))


def queued(session: Session, command: cmd.Message) -> ev.MessageQueued:
    """Return the message, as one that waits for its turn."""
    return ev.MessageQueued(message=queued_id(session.queued + 1), text=command.text, by=command.by)


def next_turn(session: Session) -> ev.TurnOpened:
    """Return the turn that the oldest queued message opens."""
    oldest = session.queue[0]
    return ev.TurnOpened(text=oldest.text, level="goal", by=oldest.by, queued=oldest.id)


# ---- what an event changes


def _taken(session: Session, event: ev.SessionTaken, at: float) -> Changes:
    lost = {
        step: calls.lost(session.calls[step], at, silent=event.silent) for step in event.lost if step in session.calls
    }
    return {"calls": {**session.calls, **lost}}


def _forked(session: Session, _event: ev.SessionForked, _at: float) -> Changes:
    changes: Changes = {
        "calls": {},
        "children": {},
        "child_asks": (),
        "unreached": (),
        "holds": {},
        "loose_keys": {},
        "has_spawned": False,
        "needs": (),
        "asks": tuple(ask for ask in session.asks if ask.reason != DID_IT_HAPPEN),
        "deferred": None,  # meant for its source, as a force is
    }
    return changes if session.cancel is None else {**changes, "cancel": replace(session.cancel, force=False)}


def _turn_opened(session: Session, event: ev.TurnOpened, at: float) -> Changes:
    if event.queued is not None and (not session.queue or session.queue[0].id != event.queued):
        raise ImpossibleEvent(f"'{event.queued}' is not the next in the queue")
    if session.asks:
        raise ImpossibleEvent("an ask is open")
    turn = session.turn + 1
    said = _said_before(session, event.repeats)
    return {
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


def _said_before(session: Session, repeats: int) -> tuple[Message, ...]:
    """Return the messages before a turn's first one, which replaces the last ``repeats`` and has the last's place.

    The others stay where they are, withdrawn: a message's id is its place, and means no other message later.
    """
    if not repeats:
        return session.messages
    first = len(session.messages) - repeats
    others = (replace(one, withdrawn=True) for one in session.messages[first:-1])
    return (*session.messages[:first], *others)


def _queued(session: Session, event: ev.MessageQueued, at: float) -> Changes:
    expected = queued_id(session.queued + 1)
    if event.message != expected:
        raise ImpossibleEvent(f"the next queued message is '{expected}', not '{event.message}'")
    waits = QueuedMessage(event.message, event.text, event.by, at)
    return {"queue": (*session.queue, waits), "queued": session.queued + 1}


def _checkpoint_taken(session: Session, event: ev.CheckpointTaken, _at: float) -> Changes:
    if event.scope != session.next_scope:  # a name from before would give old results to new steps
        raise ImpossibleEvent(f"the next scope is '{session.next_scope}', not '{event.scope}'")
    if session.running:
        raise ImpossibleEvent(f"not ended: {', '.join(session.running)}")
    if session.asks:
        raise ImpossibleEvent("an ask is open")
    return {
        "scope": event.scope,
        "cuts": {},
        "checkpoints": session.checkpoints + 1,
        "scope_messages": len(session.messages),
        # What is not done again by its name may be by its arguments.
        **calls.loosened(session, session.calls.values()),
        "calls": {step: call for step, call in session.calls.items() if not call.end},
    }


def _completed(_session: Session, event: ev.SessionCompleted, _at: float) -> Changes:
    return {"result": event.result, "calls": {}, "cuts": {}, "deferred": None}


def _failed(_session: Session, event: ev.SessionFailed, _at: float) -> Changes:
    return {"failure": Failure(event.code, event.message, event.step), "pause": None, "deferred": None}


def _erased(session: Session, _event: ev.SessionErased, at: float) -> Changes:
    if session.is_being_undone:
        raise ImpossibleEvent("an undo is under way")
    # The ids of children came from those of their steps, which are others now.
    return {"erased_at": at, "children": {}, "child_asks": (), "queue": ()}


def _reported(_session: Session, event: ev.ReportMade, _at: float) -> Changes:
    changes: Changes = {} if event.progress is None else {"progress": event.progress}
    return {**changes, "hypothesis": event.hypothesis} if event.hypothesis else changes


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.SessionTaken: _taken,
    ev.SessionForked: _forked,
    ev.TurnOpened: _turn_opened,
    ev.MessageQueued: _queued,
    ev.CheckpointTaken: _checkpoint_taken,
    ev.SessionCompleted: _completed,
    ev.SessionFailed: _failed,
    ev.SessionErased: _erased,
    ev.AgentChanged: lambda _session, event, _at: {"agent_version": event.now},
    ev.WorldChanged: lambda _session, event, _at: {"changes": event.changes},
    ev.PlanChanged: lambda _session, event, _at: {"plan": event.items},
    ev.ReportMade: _reported,
}
