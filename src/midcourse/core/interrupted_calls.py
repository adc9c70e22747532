"""Decide about a tool call that a stop, a redirect or a crash finds in flight. Pure.

``TABLE`` is the table of the design. ``next_act`` reads it for one call that is open in the journal and not alive: it
returns the one thing to do now, and the runtime does it, journals it and asks again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from midcourse.core.effects import Effect

if TYPE_CHECKING:
    from midcourse.core.session import OpenCall, Session

Column = Literal["pause", "redirect", "cancel", "died"]
Then = Literal["again", "again_same_key", "undo", "undo_then_again", "undo_then_close", "close", "find_out"]

UNDO_TRIES: Final = 3
DID_IT_HAPPEN: Final = "did_it_happen"
"""The reason of the ask about a call with an unknown outcome."""

NO_EFFECT: Final = "interrupted by a redirect; no effect"
MAY_HAVE_HAPPENED: Final = "interrupted by a redirect; it may have happened"
UNDONE: Final = "interrupted by a redirect; undone"
UNDO_FAILED: Final = "interrupted by a redirect; its undo failed, so it may have happened"
DID_NOT_HAPPEN: Final = "interrupted by a redirect; it did not happen"


class Treatment(NamedTuple):
    """If a call may be aborted when its grace is over, and what follows once it is no longer alive."""

    aborts: bool
    then: Then


TABLE: Final[Mapping[tuple[Effect, Column], Treatment]] = {
    ("read", "pause"): Treatment(aborts=True, then="again"),
    ("read", "redirect"): Treatment(aborts=True, then="close"),
    ("read", "cancel"): Treatment(aborts=True, then="close"),
    ("read", "died"): Treatment(aborts=True, then="again"),
    ("idempotent", "pause"): Treatment(aborts=True, then="again_same_key"),
    ("idempotent", "redirect"): Treatment(aborts=True, then="close"),
    ("idempotent", "cancel"): Treatment(aborts=True, then="undo"),
    ("idempotent", "died"): Treatment(aborts=True, then="again_same_key"),
    ("reversible", "pause"): Treatment(aborts=True, then="undo_then_again"),
    ("reversible", "redirect"): Treatment(aborts=True, then="undo_then_close"),
    ("reversible", "cancel"): Treatment(aborts=True, then="undo"),
    ("reversible", "died"): Treatment(aborts=True, then="undo_then_again"),
    # It finishes, whatever the grace: only the end of its process ends it, and then its fate must be found out.
    ("irreversible", "pause"): Treatment(aborts=False, then="find_out"),
    ("irreversible", "redirect"): Treatment(aborts=False, then="find_out"),
    ("irreversible", "cancel"): Treatment(aborts=False, then="find_out"),
    ("irreversible", "died"): Treatment(aborts=False, then="find_out"),
}


def may_abort(effect: Effect) -> bool:
    """Return True if a stop may abort a call of this effect once its grace is over."""
    return TABLE[effect, "pause"].aborts


def column_of(session: "Session", call: "OpenCall") -> Column | None:
    """Return the column for ``call``: by status, or by a redirect journaled since it began. None: halted."""
    match session.status:
        case "halted":
            return None
        case "cancelling" | "cancelled" | "completed" | "failed":
            return "cancel"
        case "pausing" | "paused":
            return "pause"
        case _:
            return "died" if call.redirected is None else "redirect"


Do = Literal["leave", "wait", "undo", "probe", "ask", "again", "close", "unknown", "give_up"]


class RecoveryAction(NamedTuple):
    """The one thing to do about a call now. ``until`` is when ``wait`` ends, ``truth`` what ``close`` says."""

    do: Do
    until: float = 0.0
    truth: str = ""


LEAVE: Final = RecoveryAction("leave")
AGAIN: Final = RecoveryAction("again")


def next_act(session: "Session", call: "OpenCall", now: float) -> RecoveryAction:
    """Return what to do about an open call whose body is not alive.

    ``leave`` it for a resume; ``wait`` until it is settled; ``undo`` or ``probe`` it; ``ask`` a person whether it
    happened; do it ``again``; ``close`` it with the truth; list it as ``unknown``; ``give_up``: its undo failed, and
    so does the step.
    """
    column = column_of(session, call)
    if column is None:
        return LEAVE  # halted: nothing is undone until the halt is lifted
    if column == "pause" and call.end in ("lost", "failed"):
        return LEAVE  # a call whose worker is gone, or that ended by itself, is dealt with at resume
    then = TABLE[call.effect, column].then
    if column == "cancel" and (session.undo_choice == "none" or not call.can_undo) and then == "undo":
        return RecoveryAction("unknown")
    match then:
        case "again" | "again_same_key":
            return AGAIN if not call.careful or call.told == "no" else _find_out(call, column, now)
        case "close":
            return RecoveryAction("close", truth=NO_EFFECT if call.effect == "read" else MAY_HAVE_HAPPENED)
        case "undo" | "undo_then_again" | "undo_then_close":
            return _undo(call, then, now)
        case "find_out":
            return _find_out(call, column, now)


def _undo(call: "OpenCall", then: Then, now: float) -> RecoveryAction:
    if call.undo == "done" and not call.careful:
        return {"undo": LEAVE, "undo_then_again": AGAIN}.get(then, RecoveryAction("close", truth=UNDONE))
    if call.undo != "done" and call.undos < UNDO_TRIES:
        return RecoveryAction("undo") if now >= call.settled_at else RecoveryAction("wait", until=call.settled_at)
    # Undone, but lost to a worker that may still send; or given up: it may exist.
    return {"undo": LEAVE, "undo_then_close": RecoveryAction("close", truth=UNDO_FAILED)}.get(
        then, RecoveryAction("give_up")
    )


def _find_out(call: "OpenCall", column: Column, now: float) -> RecoveryAction:
    """Ask a probe, or a person, about an unknown outcome. No "no" is used before it is settled."""
    settled = now >= call.settled_at
    if call.told == "no":
        if not settled:
            return RecoveryAction("wait", until=call.settled_at)
        return {"died": AGAIN, "redirect": RecoveryAction("close", truth=DID_NOT_HAPPEN)}.get(
            column, RecoveryAction("unknown")
        )
    if call.can_probe and not call.probed and not call.careful:
        # A "yes" counts at any time, but only a settled "no" does: one look, when it can be final.
        return RecoveryAction("probe") if settled else RecoveryAction("wait", until=call.settled_at)
    match column:
        case "died":
            return RecoveryAction("ask")
        case "redirect":
            return RecoveryAction("close", truth=MAY_HAVE_HAPPENED)
        case "pause":
            return LEAVE
        case "cancel":
            return RecoveryAction("unknown")
