"""Calls in flight: what each event makes of one that has begun and has no outcome, and of its session. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from midcourse.core import events as ev
from midcourse.core.budget import spent, usual
from midcourse.core.children import childless
from midcourse.core.ids import child_id
from midcourse.core.rules import Arm, Changes
from midcourse.core.session import OpenCall, Session
from midcourse.errors import ImpossibleEvent

K = TypeVar("K")
T = TypeVar("T")
GIVEN_UP: Final = "UndoFailed"
"""The kind of the error an agent sees when a call was interrupted and its undo failed."""
Ended = ev.StepFinished | ev.StepFailed | ev.StepRetrying | ev.StepCut | ev.StepClosed | ev.SegmentWritten
"""The events that end an open attempt."""

# ---- one call; folds of sessions and receipts share this


def begun(event: ev.StepBegun, at: float, *, before: OpenCall | None, inherited: bool = False) -> OpenCall:
    """Return a new attempt. The facts of the one ``before`` count again if this one does not begin."""
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
    """Return a call whose body a stop ended. None: it did nothing, or reports that it has not done it yet."""
    if event.asked or call.effect == "read":
        return call.before  # what the attempt before may have done stays as it was
    return replace(call, end="aborted", ended_at=at)


def failed(call: OpenCall, event: ev.StepRetrying, at: float) -> OpenCall:
    """Return a call that raised, and is tried again. It was answered and need not settle: it ended by itself."""
    settle = call.settle if event.unanswered else 0.0
    return replace(call, end="failed", ended_at=at, settle=settle, raised=event.kind, again_at=event.again_at)


def lost(call: OpenCall, at: float, *, silent: bool) -> OpenCall:
    """Return a call whose process is gone, or the process of its undo: the settling time begins here."""
    if call.end and call.undo != "running":
        return call
    undo = "lost" if call.undo == "running" else call.undo
    return replace(call, end=call.end or "lost", ended_at=at, undo=undo, silent=call.silent or silent)


def settled(call: OpenCall, event: ev.StepSettled) -> OpenCall:
    """Return a call whose outcome a probe or a person gave."""
    return replace(call, probed=True, told="no" if event.happened is False else call.told)


def undoing(call: OpenCall, event: ev.UndoBegun | ev.UndoEnded, at: float) -> OpenCall:
    """Return a call whose undo began or ended. An undo with an unknown end must settle like any other request."""
    if isinstance(event, ev.UndoBegun):
        return replace(call, undo="running", undos=event.number)
    if event.lost:
        return replace(call, undo="lost", ended_at=at)
    return replace(call, undo="failed" if event.error else "done")


# ---- what an event changes in the session


def _open_call(session: Session, event: Ended | ev.StepNotBegun | ev.StepAborted | ev.StepSettled) -> OpenCall:
    call = session.calls.get(event.step)
    if call is None or call.attempt != event.attempt:
        raise ImpossibleEvent(f"attempt {event.attempt} at step '{event.step}' is not open")
    return call


def _alive(session: Session, event: ev.StepFinished | ev.StepFailed | ev.SegmentWritten, *, told: bool) -> OpenCall:
    """Refuse an outcome of a call that is not alive, except by a probe, a person, or an abandoned undo."""
    call = _open_call(session, event)
    if call.end and not told:
        raise ImpossibleEvent(f"step '{event.step}' does not run any more, and no outcome was reported")
    return call


def _with(session: Session, call: OpenCall) -> Changes:
    return {"calls": {**session.calls, call.step: call}}


def _without(known: Mapping[K, T], name: K) -> Mapping[K, T]:
    return {one: value for one, value in known.items() if one != name}


def loose_key(tool: str, digest: str) -> str:
    """Under which the key of a call that may have happened is kept for a later call of the same tool and arguments."""
    return f"{tool} {digest}"


def _still_loose(call: OpenCall, session: Session) -> Changes:
    """Keep an inherited key unsettled: its next user may be the one that did it."""
    if not call.inherited:
        return {}
    return {"loose_keys": {**session.loose_keys, loose_key(call.tool, call.digest): call.key}}


def loosened(session: Session, calls: Iterable[OpenCall]) -> Changes:
    """Keep the keys of calls that may have happened and are not done again by their names."""
    keys = {loose_key(call.tool, call.digest): call.key for call in calls if call.end and call.effect == "idempotent"}
    return {"loose_keys": {**session.loose_keys, **keys}} if keys else {}


def _check_again(before: OpenCall) -> None:
    """Refuse to begin a step again that may have happened: nothing is done twice."""
    if not before.end:
        raise ImpossibleEvent(f"step '{before.step}' has begun and has not ended")
    if before.effect == "reversible" and before.undo != "done":
        raise ImpossibleEvent(f"the attempt before at step '{before.step}' was not undone")
    if before.effect == "irreversible" and before.told != "no":
        raise ImpossibleEvent(f"no report says that the earlier attempt at step '{before.step}' did not happen")


def _begun(session: Session, event: ev.StepBegun, at: float) -> Changes:
    before = session.calls.get(event.step)
    if before is not None:
        _check_again(before)
    loose = loose_key(event.tool, event.digest) if session.loose_keys else ""
    was_loose = loose in session.loose_keys
    inherited = was_loose or (before is not None and before.inherited and before.key == event.key)
    call = begun(event, at, before=before, inherited=inherited)
    changes = _with(session, replace(call, said=len(session.messages)))
    if event.step in session.cuts:
        changes["cuts"] = _without(session.cuts, event.step)
    if event.kind == "child":
        changes["children"] = {**session.children, event.step: child_id(session.id, event.step)}
        changes["has_spawned"] = True
    if was_loose:
        changes["loose_keys"] = _without(session.loose_keys, loose)
    return changes


def _not_begun(session: Session, event: ev.StepNotBegun, _at: float) -> Changes:
    call = _open_call(session, event)
    changes = _ended(session, event) if call.before is None else _with(session, call.before)
    return changes | _still_loose(call, session)


def _ended(session: Session, event: ev.StepNotBegun | ev.StepAborted | Ended) -> Changes:
    return {"calls": _without(session.calls, event.step)}


def _finished(session: Session, event: ev.StepFinished, _at: float) -> Changes:
    call = _alive(session, event, told=bool(event.told_by))
    changes = _ended(session, event) | spent(session, call, event) | childless(session, event.step)
    changes["finished_steps"] = session.finished_steps + 1
    return changes | usual(session, event) if call.kind == "model" else changes


def _written(session: Session, event: ev.SegmentWritten, _at: float) -> Changes:
    call = _alive(session, event, told=False)
    if not event.cost and not event.tokens:
        return {}
    so_far = max(call.spent, event.cost)
    changes = _with(session, replace(call, spent=so_far, written=event.tokens, free=event.free))
    changes["cost"] = session.cost + so_far - call.spent
    return changes


def _cut(session: Session, event: ev.StepCut, _at: float) -> Changes:
    changes = spent(session, _open_call(session, event), event) | _ended(session, event)
    changes["cuts"] = {**session.cuts, event.step: event.continues}
    return changes


def _failed(session: Session, event: ev.StepFailed, _at: float) -> Changes:
    call = _alive(session, event, told=event.kind == GIVEN_UP)
    changes = _still_loose(call, session) | _ended(session, event)
    return changes | spent(session, call, event) | childless(session, event.step)


def _retrying(session: Session, event: ev.StepRetrying, at: float) -> Changes:
    call = _open_call(session, event)
    if call.end:
        raise ImpossibleEvent(f"step '{call.step}' does not run any more")
    if call.effect == "irreversible":
        raise ImpossibleEvent("what cannot be undone is not done again by itself")
    return _with(session, failed(call, event, at)) | spent(session, call, event)


def _closed(session: Session, event: ev.StepClosed, _at: float) -> Changes:
    # What was aborted or cut before may be closed, too.
    changes = loosened(session, [_open_call(session, event)]) if event.step in session.calls else {}
    changes |= _ended(session, event) | childless(session, event.step)
    changes["cuts"] = _without(session.cuts, event.step)
    changes["seen"] = max(session.seen, min(event.message + 1, len(session.messages)))
    return changes


def _aborted(session: Session, event: ev.StepAborted, at: float) -> Changes:
    """Note that a child that was stopped with its parent continues with it."""
    call = _open_call(session, event)
    after = aborted(call, event, at)
    changes = _ended(session, event) if after is None else _with(session, after)
    return changes | _still_loose(call, session) if event.asked else changes


def _settled(session: Session, event: ev.StepSettled, _at: float) -> Changes:
    return _with(session, settled(_open_call(session, event), event))


def _undoing(session: Session, event: ev.UndoBegun | ev.UndoEnded, at: float) -> Changes:
    call = session.calls.get(event.step)
    if call is not None and not call.end and isinstance(event, ev.UndoBegun):
        raise ImpossibleEvent(f"step '{event.step}' has not ended: nothing is undone while it lives")
    changes: Changes = {"needs": ()}
    if call is not None and call.key == event.key:  # else: of a call that had ended before
        changes |= _with(session, undoing(call, event, at))
    if isinstance(event, ev.UndoEnded) and not event.error and not event.lost:
        kept = {name: key for name, key in session.loose_keys.items() if key != event.key}
        changes["loose_keys"] = kept  # what was undone is done again under a new key
    return changes


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.StepBegun: _begun,
    ev.StepNotBegun: _not_begun,
    ev.StepFinished: _finished,
    ev.StepFailed: _failed,
    ev.StepRetrying: _retrying,
    ev.StepAborted: _aborted,
    ev.StepSettled: _settled,
    ev.StepCut: _cut,
    ev.StepClosed: _closed,
    ev.SegmentWritten: _written,
    ev.UndoBegun: _undoing,
    ev.UndoEnded: _undoing,
}
