"""Pauses: what a pause and a resume do, and the stop that waits for the end of a protected turn. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import Outlay, needed
from midcourse.core.commands import BY_PARENT, outranks
from midcourse.core.halts import lift
from midcourse.core.ids import pause_id, was_given
from midcourse.core.money import money
from midcourse.core.rules import Arm, Changes, Events, Table, by_operator, ended, not_while, offered_if
from midcourse.core.session import ENDED, DeferredStop, Session, StandingPause, Status
from midcourse.core.turns import can_go_on, check_can_go_on, closed
from midcourse.errors import ImpossibleEvent, Refused

# ---- rules


def pause(session: Session, command: cmd.Pause) -> Events:
    """Pause now; protected work finishes its turn first, for any sender."""
    if not finishes_first(session):
        return pause_now(session, command)
    if session.deferred is not None and not outranks(command.by, session.deferred.by):  # a cancel that waits is firmer
        return ()
    return (ev.StopDeferred(stop="pause", by=command.by, reason=command.reason, lapses=command.lapses),)


def finishes_first(session: Session) -> bool:
    """Return True if a stop waits for the end of the turn: protected, and begun."""
    return session.is_protected and session.status in (Status.RUNNING, Status.WAITING)


def pause_now(session: Session, command: cmd.Pause) -> Events:
    """Pause, protected or not; where nothing runs, the pause is complete at once."""
    event = ev.PauseRequested(
        pause=pause_id(session.pauses + 1),
        by=command.by,
        reason=command.reason,
        grace=command.grace,
        lapses=command.lapses,
    )
    rests = session.status in (Status.QUEUED, Status.WAITING) and not session.running
    if rests and not session.may_have_children:  # children have to be reached first
        return (event, ev.SessionPaused(unknown=session.lost))
    return (event,)


def pause_again(session: Session, command: cmd.Pause) -> Events:
    """Apply a second pause: it may give less time, a reason, a later lapse or none: not the other way round.

    It goes down to the children again, which may have been resumed since. The parent's pause and the people's are two;
    people's are one, and its resume names the others who had paused it.
    """
    assert session.pause is not None
    standing = session.pause
    graces = [grace for grace in (standing.grace, command.grace) if grace is not None]
    grace = min(graces) if graces else None
    asked = ev.PauseRequested(pause=standing.id, by=command.by, reason=command.reason, grace=grace)
    renewed: Events = (ev.PauseRenewed(pause=standing.id, by=command.by),) if session.may_have_children else ()
    if joins_pause(standing, command.by):
        own = pause_id(session.pauses + 1)
        on_top = standing.id if command.by.startswith(BY_PARENT) else own
        renewed = (ev.PauseRenewed(pause=on_top, by=command.by),) if renewed else ()
        return (replace(asked, pause=own, lapses=command.lapses), *renewed)
    if outranks(command.by, standing.by):  # from now on it is a person's, or the parent's, and lapses as they say
        return (replace(asked, lapses=command.lapses), *renewed)
    is_said = command.reason in ("", standing.reason) and command.by in (standing.by, *standing.joined)
    if grace == standing.grace and is_said and standing.lapses_at is None:
        return renewed
    return (replace(asked, lapses=None if standing.lapses_at is None else command.lapses), *renewed)


def joins_pause(standing: StandingPause, by: str) -> bool:
    """Return True if a pause of ``by`` exists beside ``standing``: one is the parent's, the other one people's."""
    return standing.beneath is None and standing.by.startswith(BY_PARENT) != by.startswith(BY_PARENT)


def paused_by_others(session: Session, command: cmd.AnyCommand, events: Events) -> tuple[str, ...]:
    """Return who else has paused what ``command`` pauses again, or what its ``events`` resume."""
    standing = session.pause
    if standing is None:
        return ()
    joins = isinstance(command, cmd.Pause) and not joins_pause(standing, command.by)
    lifts = any(isinstance(one, ev.SessionResumed | ev.PauseLifted) and one.pause == standing.id for one in events)
    return tuple(name for name in (standing.by, *standing.joined) if name != command.by) if joins or lifts else ()


@offered_if(lambda session, _role: needed(session) is None)
def _resume(session: Session, command: cmd.Resume) -> Events:
    assert session.pause is not None
    beneath = session.pause.beneath
    if beneath is not None and command.pause == beneath.id:
        return (ev.PauseLifted(pause=beneath.id, by=command.by),)
    if command.pause is not None and command.pause != session.pause.id:
        _check_pause_was(session, command)
        why = f"'{command.pause}' was lifted before; it is paused again, by '{session.pause.id}'"
        raise Refused(why, code="already_resumed")
    return lifted(session, command.by)


def lifted(session: Session, by: str) -> Events:
    """Lift the pause: what a policy had opened for review has been decided that way.

    Raises:
        Refused: its cap is reached, so that whatever began would pass it.
    """
    assert session.pause is not None
    enough = needed(session)
    if enough is not None:
        said = spending(session, Outlay(session.cost)).removeprefix("It ").rstrip(".")
        how = "raise_budget, or midcourse resume --budget"
        why = f"it {said}. Raise the budget to {money(enough)} or more ({how}), which lifts the pause, too"
        raise Refused(why, code="budget_spent", raise_to=enough)
    reviews = closed((ask for ask in session.asks if ask.is_review), "superseded")
    return (*reviews, without_pause(session.pause, by))


def spending(session: Session, so_far: Outlay, price: float = 0.0) -> str:
    """Return how much of the budget is spent, as a sentence."""
    running = f", keeps {money(so_far.kept)} for calls that run" if price and so_far.kept else ""
    next_one = f"{running}, and its next call would cost about {money(price)}" if price else ""
    return f"It has spent {money(so_far.spent)} of its budget of {money(session.terms.budget or 0.0)}{next_one}."


def without_pause(standing: StandingPause, by: str) -> ev.SessionResumed | ev.PauseLifted:
    """Lift the pause on top; one that the parent still holds stays."""
    kind = ev.SessionResumed if standing.beneath is None else ev.PauseLifted
    return kind(pause=standing.id, by=by)


def _check_pause_was(session: Session, command: cmd.Resume) -> None:
    """Refuse a resume that names a pause which never was."""
    if command.pause is not None and not was_given(command.pause, pause_id, session.pauses):
        stands = f"; it is paused by '{session.pause.id}'" if session.pause else ""
        raise Refused(f"there was never a pause '{command.pause}'{stands}", code="checkpoint_not_found")


@offered_if(lambda session, _role: session.deferred is not None and not _is_parents_cancel(session.deferred))
def _resume_running(session: Session, command: cmd.Resume) -> Events:
    _check_pause_was(session, command)
    stop = session.deferred
    if stop is not None and command.pause is None:
        if _is_parents_cancel(stop) and not command.by.startswith(BY_PARENT):
            raise Refused("its parent is being cancelled, and waits for the end of this turn", code="not_allowed")
        return (ev.StopTakenBack(by=command.by),)
    if session.status is Status.WAITING and session.asks:
        asks = ", ".join(f"'{ask.id}'" for ask in session.asks)
        raise Refused(f"it is waiting, not paused; it continues once {asks} is answered", code="already_resumed")
    raise Refused(f"it is {session.status}", code="already_resumed")


def _is_parents_cancel(stop: DeferredStop) -> bool:
    return stop.stop == "cancel" and stop.by.startswith(BY_PARENT)


def _resume_halted(session: Session, command: cmd.Resume) -> Events:
    # A resume that names a pause was meant for that pause: a late one must not lift the kill switch.
    if command.pause is not None:
        _check_pause_was(session, command)
        why = f"the kill switch holds it, not '{command.pause}'; lift the halt first"
        raise Refused(why, code="not_allowed")
    return lift(session, command)


@offered_if(lambda session, _role: can_go_on(session) and session.undo is None)
def _retry(session: Session, command: cmd.Resume) -> Events:
    if command.pause is not None:  # a late resume of a pause is no request to retry what failed since
        _check_pause_was(session, command)
        raise Refused(f"'{command.pause}' does not stand any more, it has failed", code="already_resumed")
    check_can_go_on(session)
    if session.undo is not None:  # its finished steps would be given back as if they still counted
        why = "what it had done was rolled back; a redirect opens a new turn, which does it anew"
        raise Refused(why, code="not_allowed")
    return (ev.SessionResumed(by=command.by),)  # at its cap it is paused before its next call


TABLE: Final[Table] = {
    cmd.Pause: {
        **dict.fromkeys((Status.QUEUED, Status.RUNNING, Status.WAITING), pause),
        **dict.fromkeys((Status.PAUSING, Status.PAUSED), pause_again),
        **dict.fromkeys((Status.CANCELLING, Status.HALTED), not_while),
        **dict.fromkeys(ENDED, ended),
    },
    cmd.Resume: {
        **dict.fromkeys((Status.QUEUED, Status.RUNNING, Status.WAITING), _resume_running),
        **dict.fromkeys((Status.PAUSING, Status.PAUSED), _resume),
        Status.CANCELLING: not_while,
        Status.HALTED: by_operator(_resume_halted),
        **dict.fromkeys(ENDED, ended),
        Status.FAILED: _retry,
    },
}


# ---- what an event changes


def _requested(session: Session, event: ev.PauseRequested, at: float) -> Changes:
    following = pause_id(session.pauses + 1)
    is_new, stands = event.pause == following, session.pause
    joins = is_new and stands is not None and joins_pause(stands, event.by)
    expected = stands.id if stands is not None else following
    if event.pause != expected and not joins:
        raise ImpossibleEvent(f"the pause is '{expected}', not '{event.pause}'")
    return {"pause": _paused_by(session, event, at), "pauses": session.pauses + is_new}


def _paused_by(session: Session, event: ev.PauseRequested, at: float) -> StandingPause:
    lapses_at = None if event.lapses is None else at + event.lapses
    standing = session.pause
    if standing is not None and event.pause == standing.id:
        reason = event.reason or standing.reason
        budget = standing.budget if event.budget is None else event.budget
        # A person who pauses what its agent had paused holds it from then on: the agent does not lift that.
        by = event.by if outranks(event.by, standing.by) else standing.by
        joined = standing.joined if event.by in (by, *standing.joined) else (*standing.joined, event.by)
        changed = {"by": by, "grace": event.grace, "reason": reason, "lapses_at": lapses_at, "budget": budget}
        return replace(standing, **changed, joined=joined)
    origin = session.status if standing is None else standing.origin
    own = StandingPause(
        event.pause, event.by, at, origin, event.reason, event.grace, lapses_at, event.budget, wants=event.wants
    )
    if standing is None:
        return own
    # The people's pause is on top: it is the one that people see, name and lift.
    if event.by.startswith(BY_PARENT):
        return replace(standing, grace=event.grace, beneath=own)
    return replace(own, renewals=standing.renewals, beneath=standing)


def _renewed(session: Session, event: ev.PauseRenewed, _at: float) -> Changes:
    if session.pause is None or event.pause != session.pause.id:
        raise ImpossibleEvent(f"'{event.pause}' does not stand")
    return {"pause": replace(session.pause, renewals=session.pause.renewals + 1)}


def _one_lifted(session: Session, event: ev.PauseLifted, _at: float) -> Changes:
    both = session.pause
    if both is None or both.beneath is None or event.pause not in (both.id, both.beneath.id):
        raise ImpossibleEvent(f"'{event.pause}' is not one of two pauses that stand")
    below = replace(both.beneath, origin=both.origin)
    return {"pause": below if event.pause == both.id else replace(both, beneath=None)}


def _resumed(session: Session, event: ev.SessionResumed, _at: float) -> Changes:
    stands = session.pause.id if session.pause else None
    if event.pause != stands or (session.pause is not None and session.pause.beneath is not None):
        raise ImpossibleEvent(f"'{stands}' stands, not '{event.pause}'")
    unstated = "allowed" if session.unstated == "reviewed" else session.unstated
    return {"pause": None, "failure": None, "unreached": (), "unstated": unstated}


def _deferred(session: Session, event: ev.StopDeferred, at: float) -> Changes:
    if not session.is_protected:
        raise ImpossibleEvent("it is not protected")
    return {"deferred": DeferredStop(event.stop, event.by, at, event.reason, event.undo, event.lapses)}


def _taken_back(session: Session, _event: ev.StopTakenBack, _at: float) -> Changes:
    if session.deferred is None:
        raise ImpossibleEvent("no stop waits for its end")
    return {"deferred": None}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.PauseRequested: _requested,
    ev.PauseRenewed: _renewed,
    ev.PauseLifted: _one_lifted,
    ev.SessionPaused: lambda _session, event, _at: {"unreached": event.unreached},
    ev.SessionResumed: _resumed,
    ev.StopDeferred: _deferred,
    ev.StopTakenBack: _taken_back,
}
