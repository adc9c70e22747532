"""A session from its store: the newest snapshot that can be trusted, and the journal after it, every digest checked."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from midcourse.core.codec import GENESIS, Value, check_blob, is_tombstone, remains_of
from midcourse.core.erasure import is_erased
from midcourse.core.events import AnyEvent, Recorded, decode_record
from midcourse.core.fold import Fold, Row, damaged_journal, fold, read_row
from midcourse.core.ids import Position, SessionId
from midcourse.core.snapshot import Snapshot, decode_snapshot, restore_results, rows_outside
from midcourse.errors import Damaged
from midcourse.ports.store import Head, Store

_PAGE = 1000


class JournalGrowth(msgspec.Struct, frozen=True):
    """The growth of a journal since its last snapshot: bytes, ended calls, tokens. Never too low."""

    bytes: int = 0
    calls: int = 0
    tokens: int = 0


class LoadedSession(msgspec.Struct, frozen=True):
    """A fold, and the size of the snapshot it began with (0: none could be used, so one is due)."""

    state: Fold
    snapshot_size: int
    since: JournalGrowth = JournalGrowth()


async def load(store: Store, head: Head) -> LoadedSession:
    """Return the session by its journal.

    Raises:
        Damaged: the journal does not match its digests, or does not end where the head says.
    """
    while True:
        try:
            return await _load(store, head)
        except Damaged:
            now = (await store.head(head.id)).head
            if now.erased_at == head.erased_at:
                raise
            head = now  # it was erased while it was read


async def _load(store: Store, head: Head) -> LoadedSession:
    snapshot, size = await newest_snapshot(store, head.id)
    rows = [
        row async for page in _pages(store, head.id, snapshot.position if snapshot else Position(0)) for row in page
    ]
    if snapshot is not None and not rows:
        state = Fold(snapshot.session, snapshot.log, snapshot.digest)
    else:
        state = fold(head.id, snapshot, rows)
        is_erased(head.id, rows)  # all of them, if there are tombstones: erasing takes snapshots away
    if state.session.position < head.position or (
        state.session.position == head.position and state.digest != head.digest
    ):
        raise damaged_journal(head.id, head.position)
    return LoadedSession(state, size, _since(snapshot, state, rows))


def _since(snapshot: Snapshot | None, state: Fold, rows: Sequence[Row]) -> JournalGrowth:
    """Counted without reading the rows again: each may end a call, and each sign of an open stream be a token."""
    before = snapshot.session.tokens if snapshot else 0
    open_streams = sum(state.log.steps[step].length for step in state.session.calls if step in state.log.steps)
    return JournalGrowth(
        bytes=sum(len(content) for _, content, _ in rows),
        calls=len(rows),
        tokens=state.session.tokens - before + open_streams if rows else 0,
    )


async def _pages(
    store: Store, session_id: SessionId, after: Position
) -> AsyncIterator[list[tuple[Position, bytes, bytes]]]:
    while True:
        page = list(await store.read(session_id, after, _PAGE))
        if page:
            yield page
        if len(page) < _PAGE:
            return
        after = page[-1][0]


async def newest_snapshot(
    store: Store, session_id: SessionId, at: Position | None = None
) -> tuple[Snapshot | None, int]:
    """Return the newest snapshot that can be used, ``at`` a position or before, and its size with all it names."""
    for content in await store.snapshots(session_id):
        try:
            snapshot = decode_snapshot(content)
            # A snapshot counts only if the journal agrees with it at its position.
            if snapshot.session.id != session_id or (at is not None and snapshot.position > at):
                continue
            if await digest_at(store, session_id, snapshot.position) == snapshot.digest:
                return snapshot, len(content) + await _restore_results(store, snapshot)
        except Damaged:
            continue
    return None, 0


async def _restore_results(store: Store, snapshot: Snapshot) -> int:
    wanted = frozenset(rows_outside(snapshot))
    events: dict[Position, AnyEvent] = {}
    after = Position(min(wanted, default=1) - 1)
    while len(events) < len(wanted):
        page = await store.read(snapshot.session.id, after, _PAGE)
        if not page:
            break
        after = page[-1][0]
        for position, content, _ in page:
            if position in wanted:
                events[position] = decode_record(remains_of(content)).event
    return restore_results(snapshot, events)


async def digest_at(store: Store, session_id: SessionId, position: Position) -> bytes | None:
    """Return the running digest stored at a position; None if there is no such row."""
    found = await store.read(session_id, Position(position - 1), 1) if position > 0 else ()
    return found[0][2] if found and found[0][0] == position else None


async def every_event(store: Store, session_id: SessionId) -> AsyncIterator[Recorded]:
    """Yield the events of a session, checked, a page at a time.

    Raises:
        Damaged: a row does not match its digest.
    """
    after = Position(0)
    while page := await read_events(store, session_id, after):
        for record in page:
            yield record
        after = page[-1].position


async def read_events(
    store: Store,
    session_id: SessionId,
    after: Position,
    limit: int = _PAGE,
    *,
    most_bytes: int | None = None,
    live: bool = False,
) -> list[Recorded]:
    """Checked events after a position, in order, at most ``limit``; and of those one, or what ``most_bytes`` hold.

    ``live``: the session was not erased, so nothing in it can be.

    Raises:
        Damaged: a row does not match its digest.
    """
    before = GENESIS if after <= 0 else await digest_at(store, session_id, after)
    if before is None:
        return []
    events: list[Recorded] = []
    size = 0
    for row in await store.read(session_id, after, limit):
        size += len(row[1])
        if events and most_bytes is not None and size > most_bytes:
            break
        if live and is_tombstone(row[1]):
            raise damaged_journal(session_id, row[0], "it looks erased, and the session was not")
        record = read_row(session_id, before, after + 1, row)
        after, before = row[0], row[2]
        events.append(Recorded(after, record.at, record.event))
    return events


async def names_blob(store: Store, session_id: SessionId, digest: str) -> bool:
    """Return True if the journal of a session names a blob. Only rows that hold the digest are read as events."""
    wanted, after = digest.encode(), Position(0)
    while page := await store.read(session_id, after, _PAGE):
        found = (decode_record(content).event for _, content, _ in page if wanted in content)
        if any(value.blob == digest for event in found for value in _values(event)):
            return True
        after = page[-1][0]
    return False


def _values(part: object) -> Iterator[Value]:
    """Yield the values of users in an event, at any place."""
    if isinstance(part, Value):
        yield part
    elif isinstance(part, msgspec.Struct):
        for name in part.__struct_fields__:
            yield from _values(getattr(part, name))
    elif isinstance(part, Mapping):
        for inner in cast("Mapping[str, object]", part).values():
            yield from _values(inner)
    elif isinstance(part, tuple | list):
        for inner in cast("Sequence[object]", part):
            yield from _values(inner)


async def content_of(store: Store, value: Value) -> bytes:
    """Return the bytes of a journaled value, in the journal or outside.

    Raises:
        Damaged: its blob is missing or was changed.
    """
    (content,) = await contents_of(store, (value,))
    return content


async def contents_of(store: Store, values: Sequence[Value]) -> list[bytes]:
    """Return the bytes of several, with one question to the store for those outside the journal.

    Raises:
        Damaged: a blob is missing or was changed.
    """
    outside = [value.blob for value in values if value.blob]
    found = dict(zip(outside, await store.blobs(outside), strict=True)) if outside else {}
    return [check_blob(value.blob, found[value.blob]) if value.blob else bytes(value.raw) for value in values]
