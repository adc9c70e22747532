"""The kill switch's halt of one session: what halts it and what lifts that, both an operator's. Pure."""

from collections.abc import Mapping
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.rules import Arm, Changes, Events, Table, by_operator, changes_nothing, ended, not_while
from midcourse.core.session import ENDED, LIVE, Session, Status
from midcourse.core.turns import withdrawn

# ---- rules


def _halt(_session: Session, command: cmd.Halt) -> Events:
    return (ev.SessionHalted(by=command.by, reason=command.reason, switch=command.switch),)


def lift(session: Session, command: cmd.Lift | cmd.Resume) -> Events:
    """Take the session back to where the halt found it."""
    # A call that the halt aborted may have asked after the cancel had withdrawn the asks it found.
    late = withdrawn(session, command.by) if session.halted_from is Status.CANCELLING else ()
    return (ev.HaltLifted(by=command.by), *late)


TABLE: Final[Table] = {
    cmd.Halt: {
        **dict.fromkeys(LIVE - {Status.HALTED}, by_operator(_halt)),
        Status.HALTED: by_operator(changes_nothing),
        **dict.fromkeys(ENDED, ended),
    },
    cmd.Lift: {
        **dict.fromkeys(Status, not_while),
        Status.HALTED: by_operator(lift),
        **dict.fromkeys(ENDED, ended),
    },
}


# ---- what an event changes


def _halted(session: Session, event: ev.SessionHalted, at: float) -> Changes:
    return {
        "halted_from": session.status,
        "halted_by": event.by,
        "halted_at": at,
        "halt_reason": event.reason,
        "switch": event.switch,
        "halts": session.halts + 1,
    }


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.SessionHalted: _halted,
    ev.HaltLifted: lambda _session, _event, _at: {"halted_from": None},
}
