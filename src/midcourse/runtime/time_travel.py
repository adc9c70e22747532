"""A session at any point of its journal: shown as it was, or forked into a new session that continues from there."""

import msgspec

from midcourse.core.codec import GENESIS, chain, decode
from midcourse.core.commands import Pause
from midcourse.core.events import (
    CheckpointTaken,
    PauseRequested,
    Record,
    Recorded,
    SessionCreated,
    SessionForked,
    SessionPaused,
    encode_record,
)
from midcourse.core.fold import Fold, Row, fold
from midcourse.core.ids import Position, SessionId, pause_id
from midcourse.core.inspection import Inspection, StepView
from midcourse.core.session import Status
from midcourse.errors import InvalidInput, Refused
from midcourse.ports.store import Head, Store
from midcourse.runtime.journal import head_of
from midcourse.runtime.run_history import load_run_history
from midcourse.runtime.session_loader import content_of, newest_snapshot, read_events

_PAGE = 1000


async def inspect(store: Store, head: Head, at: int | None) -> Inspection:
    """Return the session as it was at ``at``, or as it is.

    Raises:
        InvalidInput: there is no such position.
        Damaged: the journal up to there is damaged.
    """
    position = _checked(head, at)
    state = await _fold_to(store, head.id, position)
    steps = [
        StepView(
            id=step,
            name=record.name,
            arguments=record.arguments,
            attempt=record.attempt,
            outcome=record.outcome or ("running" if step in state.session.running else "open"),
            text=record.text,
            value=decode(await content_of(store, record.value)) if record.outcome == "finished" else None,
        )
        for step, record in state.log.steps.items()
    ]
    saved = decode(await content_of(store, state.log.state))
    gathered = await load_run_history(store, state.log)
    return Inspection(state.session, tuple(steps), saved, tuple(gathered))


async def _fold_to(store: Store, session_id: SessionId, position: Position) -> Fold:
    start, _ = await newest_snapshot(store, session_id, position)
    after = start.position if start else Position(0)
    rows: list[Row] = []
    while after < position:
        page = await store.read(session_id, after, min(_PAGE, position - after))
        if not page:
            break
        rows += page
        after = page[-1][0]
    if start is not None and not rows:
        return Fold(start.session, start.log, start.digest)
    return fold(session_id, start, rows)


async def forked(
    store: Store, head: Head, new: SessionId, at: int | None, pause: Pause | None, now: float
) -> tuple[Head, list[Row]]:
    """Return the journal of a new session that begins as ``head``'s was at ``at``, by default at its last checkpoint.

    What has begun and not ended is paused by ``pause`` before it is acquired, also protected work.

    Raises:
        InvalidInput: there is no such position.
        Refused: it was erased.
        Damaged: the journal up to there is damaged.
    """
    if head.erased_at is not None:
        raise Refused(
            f"Cannot fork session '{head.id}': what was said and done in it was erased (session_erased).",
            code="session_erased",
            session_id=head.id,
            status=head.status,
        )
    if head.discarded:
        raise Refused(
            f"Cannot fork session '{head.id}': it was forced to end half-way, and what it had reached is discarded "
            "(session_discarded).",
            code="session_discarded",
            session_id=head.id,
            status=head.status,
        )
    events = await _events_to(store, head.id, _checked(head, at))
    if at is None:
        checkpoints = [index for index, one in enumerate(events) if isinstance(one.event, CheckpointTaken)]
        events = events[: checkpoints[-1] + 1] if checkpoints else events
    rows: list[Row] = []
    digest = GENESIS
    source = f"{head.id}@{len(events)}"
    forked = Recorded(Position(len(events) + 1), events[-1].at, SessionForked(source=source))
    for position, recorded in enumerate((*events, forked), 1):
        event = recorded.event
        if isinstance(event, SessionCreated):
            event = msgspec.structs.replace(event, parent=None, forked_from=source, restarts=None)
        content = encode_record(Record(recorded.at, event))
        digest = chain(digest, position, content)
        rows.append((Position(position), content, digest))
    session = fold(new, None, rows).session
    if pause is None or session.status not in (Status.RUNNING, Status.WAITING):
        return head_of(session, digest), rows
    requested = PauseRequested(pause=pause_id(session.pauses + 1), by=pause.by, reason=pause.reason)
    for event in (requested, SessionPaused()):
        position = Position(len(rows) + 1)
        content = encode_record(Record(now, event))
        digest = chain(digest, position, content)
        rows.append((position, content, digest))
    return head_of(fold(new, None, rows).session, digest), rows


async def _events_to(store: Store, session_id: SessionId, position: Position) -> list[Recorded]:
    events: list[Recorded] = []
    while len(events) < position:
        count = min(_PAGE, position - len(events))
        page = await read_events(store, session_id, Position(len(events)), count, live=True)
        if not page:
            break
        events += page
    return events


def _checked(head: Head, at: int | None) -> Position:
    if at is None:
        return head.position
    if not isinstance(at, int) or not 1 <= at <= head.position:  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
        raise InvalidInput(
            f"Session '{head.id}' has positions 1 to {head.position}; {at!r} is none of them.",
            field="at",
            last=head.position,
        )
    return Position(at)
