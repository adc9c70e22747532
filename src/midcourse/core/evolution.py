"""A session and one more record: what the journal's facts make of it. Pure.

What an event changes, and when it contradicts what is known, is in the module of its concept: here is the table of all.
An event that is in neither table of ``session`` cannot be folded, nor can one that contradicts.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import asks, calls, cancels, caps, children, halts, interventions, messages, pauses, turns
from midcourse.core import events as ev
from midcourse.core.ids import Position, SessionId
from midcourse.core.receipt import changed_receipt
from midcourse.core.rules import Arm, Changes
from midcourse.core.session import ALLOWED_IN, BACK, TRANSITIONS, WORKS, Message, Session, Status
from midcourse.errors import Damaged, ImpossibleEvent

ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    **calls.ARMS,
    **turns.ARMS,
    **pauses.ARMS,
    **messages.ARMS,
    **asks.ARMS,
    **cancels.ARMS,
    **halts.ARMS,
    **children.ARMS,
    **caps.ARMS,
    **interventions.ARMS,
}
"""The changes of each type of event, beside the status. One that is not here changes nothing else."""
_NOT_WORKED_BEFORE = (ev.SessionTaken, ev.SessionForked)
"""Between the last word of an owner and the first of the next, nothing worked."""


def created(session_id: SessionId, record: ev.Recorded) -> Session:
    """Return the session its first record makes."""
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
    """Return the status ``event`` leads to.

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


def _impossible(session: Session, event: ev.AnyEvent, why: str) -> ImpossibleEvent:
    return ImpossibleEvent(
        f"Session '{session.id}' is {session.status}; '{ev.event_type(event)}' cannot happen there: {why}.",
        session_id=session.id,
        status=str(session.status),
    )


def evolve(session: Session, record: ev.Recorded) -> Session:
    """Return the session after one more record. Pure.

    Raises:
        ImpossibleEvent: the event cannot happen in the session's status, or contradicts its state.
    """
    event, at = record.event, record.at
    status = status_after(session, event)
    changes: Changes = {"status": status, "position": record.position, "at": at}
    if (status in WORKS) is (session.working_since is None) or isinstance(event, _NOT_WORKED_BEFORE):
        changes |= _worked(session, status, event, at)
    arm = ARMS.get(type(event))
    if arm is not None:
        try:
            changes |= arm(session, event, at)
        except ImpossibleEvent as why_not:
            raise _impossible(session, event, why_not.message) from None
    after = replace(session, **changes)
    return after if after.cancel is None and after.undo is None else changed_receipt(session, after, event)


def with_events(session: Session, events: Iterable[ev.AnyEvent], at: float) -> Session:
    """Return the session as it would be with events that are not journaled yet."""
    for event in events:
        session = evolve(session, ev.Recorded(Position(session.position + 1), at, event))
    return session


def _worked(session: Session, status: Status, event: ev.AnyEvent, at: float) -> Changes:
    """Return how long it has worked, when the clock begins or stops."""
    since, worked = session.working_since, session.worked
    if since is not None:
        worked += max(0.0, (session.at if isinstance(event, _NOT_WORKED_BEFORE) else at) - since)
    return {"worked": worked, "working_since": at if status in WORKS else None}
