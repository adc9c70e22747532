"""Cancels and undos: what they roll back, how they become firmer, and what is held until the end. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.commands import outranks
from midcourse.core.effects import UndoChoice
from midcourse.core.pauses import finishes_first
from midcourse.core.receipt import held_line, line_key, line_of
from midcourse.core.rules import Arm, Changes, Events, Table, by_operator, refusal
from midcourse.core.session import ENDED, LIVE, Hold, Session, StandingCancel, StandingUndo, Status
from midcourse.core.turns import withdrawn
from midcourse.errors import ImpossibleEvent, Refused

FIRMNESS: Final[tuple[UndoChoice, ...]] = ("none", "in-flight", "all")

# ---- rules


def cancel(session: Session, command: cmd.Cancel) -> Events:
    """Cancel now; what is protected finishes its turn first, unless an operator forces it to end half-way."""
    if not finishes_first(session) or _is_forced(session, command):
        return _cancel_now(session, command)
    undo: UndoChoice = command.undo or "in-flight"
    standing = session.deferred
    if standing is not None and outranks(command.by, standing.by):
        standing = None  # an agent's, which this one replaces
    if standing is not None and standing.stop == "cancel" and FIRMNESS.index(undo) <= FIRMNESS.index(standing.undo):
        return ()
    return (ev.StopDeferred(stop="cancel", by=command.by, reason=command.reason, undo=undo),)


def _is_forced(session: Session, command: cmd.Cancel) -> bool:
    """Return True if protected work is ended half-way: the session's, or its children's, once it has begun."""
    if command.force and session.is_protected and command.role != "operate":
        why = "it is protected, and finishes first; to force it to end half-way is an operator's (role 'operate')"
        raise Refused(why, code="operator_only")
    return command.force and command.role == "operate" and session.status is not Status.QUEUED


def _cancel_now(session: Session, command: cmd.Cancel) -> Events:
    waits = session.deferred  # forced, a cancel that waited becomes firmer or stays as it was
    chosen: UndoChoice = command.undo or "in-flight"
    if waits is not None and waits.stop == "cancel":
        chosen = _firmest(waits.undo, command.undo or waits.undo)
    force = _is_forced(session, command)
    requested = _requested(command, command.grace, chosen, force=force, restart=command.restart and force)
    ends = (ev.SessionCancelled(),) if session.status is Status.QUEUED else ()
    return (requested, *withdrawn(session, command.by), *ends)


def _requested(
    command: cmd.Cancel,
    grace: float,
    undo: UndoChoice,
    *,
    force: bool,
    restart: bool,
    operates: bool = False,
) -> ev.CancelRequested:
    return ev.CancelRequested(
        by=command.by,
        grace=grace,
        reason=command.reason,
        undo=undo,
        force=force,
        restart=restart,
        operates=operates or command.role == "operate",
    )


def _firmer_cancel(session: Session, command: cmd.Cancel) -> Events:
    assert session.cancel is not None
    force = _is_forced(session, command)
    # Forced while it waits for a tool, it gives up what only that tool could undo.
    return _firmer(session.cancel, command, force=force, always=force and bool(session.needs))


def _firmer(standing: StandingCancel, command: cmd.Cancel, *, force: bool, always: bool = False) -> Events:
    """Apply a second cancel: it may give less time, roll more back and discard results, never the other way round."""
    grace = min(command.grace, standing.grace)
    undo = _firmest(standing.undo, command.undo or standing.undo)
    restart = (command.restart and force) or standing.restart
    force = force or standing.force
    if not always and (grace, undo, force, restart) == (
        standing.grace,
        standing.undo,
        standing.force,
        standing.restart,
    ):
        return ()
    return (_requested(command, grace, undo, force=force, restart=restart, operates=standing.operates),)


def _firmest(*choices: UndoChoice) -> UndoChoice:
    return max(choices, key=FIRMNESS.index)


def _cancel_ended(session: Session, command: cmd.Cancel) -> Events:
    """Return the existing receipt; forced by an operator, an undo gives up what needs a tool that no process has."""
    if not (command.force and command.role == "operate" and session.is_being_undone and session.needs):
        return ()
    return (ev.UndoRequested(by=command.by, reason=command.reason, force=True),)


def _cancel_halted(session: Session, command: cmd.Cancel) -> Events:
    if session.halted_from is not Status.CANCELLING or session.cancel is None:
        return _cancel_now(session, command)
    # It already has a cancel, which may only become firmer. Said again in any case: it takes it back to cancelling.
    firmer = _firmer(session.cancel, command, force=_is_forced(session, command), always=True)
    return (*firmer, *withdrawn(session, command.by))


def _undo(session: Session, command: cmd.Undo) -> Events:
    return () if session.is_being_undone else (ev.UndoRequested(by=command.by, reason=command.reason),)


_not_before_its_end = refusal("not_allowed", "it is {status}; cancel it with undo='all', which rolls it back as well")
TABLE: Final[Table] = {
    cmd.Cancel: {
        **dict.fromkeys(LIVE, cancel),
        Status.CANCELLING: _firmer_cancel,
        Status.HALTED: by_operator(_cancel_halted),
        **dict.fromkeys(ENDED, _cancel_ended),
    },
    cmd.Undo: {**dict.fromkeys(LIVE, _not_before_its_end), **dict.fromkeys(ENDED, _undo)},
}


# ---- what an event changes


def _cancelling(session: Session, event: ev.CancelRequested, at: float) -> Changes:
    standing = _cancelled_by(session, event, at)
    return {"cancel": standing, "pause": None, "halted_from": None, "deferred": None, "needs": ()}


def _cancelled_by(session: Session, event: ev.CancelRequested, at: float) -> StandingCancel:
    if session.cancel is not None:
        if event.grace > session.cancel.grace:
            raise ImpossibleEvent("a cancel only becomes firmer")
        return _made_firmer(session.cancel, event, at, gives_up=event.force and bool(session.needs))
    lines = {line_key(call.step, call.key): line_of(call) for call in session.calls.values() if call.effect != "read"}
    lines |= {f"hold {hold.name}": held_line(hold) for hold in session.holds.values()}
    return StandingCancel(
        event.by, at, event.grace, event.reason, event.undo, lines, event.force, event.operates, restart=event.restart
    )


def _made_firmer(standing: StandingCancel, event: ev.CancelRequested, at: float, *, gives_up: bool) -> StandingCancel:
    """Return a cancel that became firmer: calls in flight have no more time than before."""
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
        gives_up=standing.gives_up or gives_up,
        restart=standing.restart or event.restart,
    )


def _cancelled(session: Session, event: ev.SessionCancelled, _at: float) -> Changes:
    return {
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


def _undo_requested(session: Session, event: ev.UndoRequested, at: float) -> Changes:
    undo = StandingUndo(event.by, at, event.reason, gives_up=event.force)
    if session.undo is not None and event.force:
        undo = replace(undo, receipt=session.undo.receipt)
    return {"undo": undo, "needs": ()}


def _undo_finished(session: Session, _event: ev.UndoFinished, _at: float) -> Changes:
    if session.undo is None or session.undo.done:
        raise ImpossibleEvent("no undo is under way")
    return {"undo": replace(session.undo, done=True), "needs": ()}


def _tools_needed(session: Session, event: ev.ToolsNeeded, _at: float) -> Changes:
    if session.status in ENDED and not session.is_being_undone:
        raise ImpossibleEvent("nothing is rolled back")
    return {"needs": event.tools}


def _held(session: Session, event: ev.HoldTaken, _at: float) -> Changes:
    if event.name in session.holds:
        raise ImpossibleEvent(f"'{event.name}' is held already")
    return {"holds": {**session.holds, event.name: Hold(event.name, event.release, event.given)}}


def _released(session: Session, event: ev.HoldReleased, _at: float) -> Changes:
    if event.name not in session.holds:
        raise ImpossibleEvent(f"'{event.name}' is not held")
    others = {name: hold for name, hold in session.holds.items() if name != event.name}
    if event.error:
        others[event.name] = replace(session.holds[event.name], tries=event.number, error=event.error)
    return {"holds": others}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.CancelRequested: _cancelling,
    ev.SessionCancelled: _cancelled,
    ev.UndoRequested: _undo_requested,
    ev.UndoFinished: _undo_finished,
    ev.HoldTaken: _held,
    ev.HoldReleased: _released,
    ev.ToolsNeeded: _tools_needed,
}
