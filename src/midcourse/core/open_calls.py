"""What each event makes of a call that has begun and has no outcome. Pure; folds of sessions and receipts share it."""

import msgspec

from midcourse.core import events as ev
from midcourse.core.session import OpenCall

replace = msgspec.structs.replace


def begun(event: ev.StepBegun, at: float, *, before: OpenCall | None, inherited: bool = False) -> OpenCall:
    """A new attempt. What is known of the one ``before`` counts again if this one does not begin."""
    return OpenCall(
        step=event.step,
        name=event.name,
        kind=event.kind,
        attempt=event.attempt,
        since=at,
        effect=event.effect,
        key=event.key,
        tool=event.tool,
        digest=event.digest if event.effect == "idempotent" else "",
        given=event.given,
        settle=event.settle,
        can_undo=event.can_undo,
        can_probe=event.can_probe,
        asks_if_silent=event.asks_if_silent,
        inherited=inherited,
        before=None if before is None else replace(before, before=None),
    )


def aborted(call: OpenCall, event: ev.StepAborted, at: float) -> OpenCall | None:
    """A stop ended its body. None: it did nothing, or says that it has not done it yet."""
    if event.asked or call.effect == "read":
        return call.before  # what the attempt before may have done stays as it was
    return replace(call, end="aborted", ended_at=at)


def failed(call: OpenCall, event: ev.StepRetrying, at: float) -> OpenCall:
    """It raised, and is tried again. What was answered need not settle: it ended by itself."""
    settle = call.settle if event.unanswered else 0.0
    return replace(call, end="failed", ended_at=at, settle=settle, raised=event.kind, again_at=event.again_at)


def lost(call: OpenCall, at: float, *, silent: bool) -> OpenCall:
    """Its process is gone, or the one its undo ran in: settle counts from here."""
    if call.end and call.undo != "running":
        return call
    undo = "lost" if call.undo == "running" else call.undo
    return replace(call, end=call.end or "lost", ended_at=at, undo=undo, silent=call.silent or silent)


def settled(call: OpenCall, event: ev.StepSettled) -> OpenCall:
    """A probe or a person was asked about it."""
    return replace(call, probed=True, told="no" if event.happened is False else call.told)


def undoing(call: OpenCall, event: ev.UndoBegun | ev.UndoEnded, at: float) -> OpenCall:
    """Its undo began or ended. One that nobody can tell the end of must settle like any other request."""
    if isinstance(event, ev.UndoBegun):
        return replace(call, undo="running", undos=event.number)
    if event.lost:
        return replace(call, undo="lost", ended_at=at)
    return replace(call, undo="failed" if event.error else "done")
