"""The reads, as the reader's thread runs them."""

import contextlib
import sqlite3
from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from midcourse.core.audit import AuditRow, check_end
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Position, SessionId, WorkerId
from midcourse.core.tenants import MARK
from midcourse.errors import Damaged
from midcourse.ports.store import Head, HeadQuery, InboxRow, Owned
from midcourse.stores import store_errors
from midcourse.stores.sqlite.rows import (
    PLACES,
    damaged_row,
    place,
    places,
    position_of,
    read_command,
    read_head,
    read_item,
    read_ownership,
    snapshot_seal,
    unpacked,
)
from midcourse.stores.sqlite.statements import READ

IsAlive = Callable[[WorkerId], bool]
Heartbeat = Callable[[WorkerId], float | None]
"""The time of a live worker's last heartbeat; None: unknown."""
"""Tells whether the process of a worker lives."""

_KEY = READ["session_key"]
_BEYOND = b""  # to SQLite every blob is greater than every text: no key lies beyond it


def key_of(connection: sqlite3.Connection, session_id: SessionId) -> int | None:
    row = connection.execute(_KEY, (session_id,)).fetchone()
    return None if row is None else row[0]


def head(
    connection: sqlite3.Connection, session_id: SessionId, is_alive: IsAlive, heartbeat: Heartbeat, store: str
) -> Owned:
    row = connection.execute(READ["session"], (session_id,)).fetchone()
    if row is None:
        raise store_errors.not_found(session_id, store)
    known = read_ownership(row)
    alive = known.owner is not None and is_alive(known.owner)
    return Owned(
        head=known.head,
        epoch=known.epoch,
        owner=known.owner,
        alive=alive,
        address=known.address if alive else "",
        heartbeat=heartbeat(known.owner) if alive and known.owner else None,
    )


def heads(connection: sqlite3.Connection, query: HeadQuery) -> list[Head]:
    """Return the heads that a query finds, without the damaged ones."""
    found: list[Head] = []
    values = {
        "before": query.before,
        "agent": query.agent,
        "tenant": query.tenant and query.tenant + MARK,
        "any_status": not query.statuses,
        "statuses": msgspec.json.encode(list(query.statuses)).decode(),
    }
    # Closed: an unfinished statement would hold its view of the file, and the log could never be reset.
    with contextlib.closing(connection.execute(READ["newest_sessions"], values)) as cursor:
        for session_id, *columns, content, seal in cursor:
            if len(found) >= query.limit:
                break
            try:
                head = read_head(session_id, columns, content, seal)
            except Damaged:
                continue
            if query.fits(head):
                found.append(head)
    return found


def below(connection: sqlite3.Connection, session_id: SessionId, statuses: Sequence[str]) -> list[Head]:
    """Return the children of a session, and theirs, without the damaged ones."""
    values = {"session": session_id, "statuses": msgspec.json.encode(list(statuses)).decode()}
    found: list[Head] = []
    for name, *columns, content, seal in connection.execute(READ["sessions_below"], values).fetchall():
        with contextlib.suppress(Damaged):
            found.append(read_head(name, columns, content, seal))
    return found


def records(connection: sqlite3.Connection, session_id: SessionId, after: Position, limit: int) -> list[Row]:
    """Journal rows after a position."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    rows = connection.execute(READ["records"], (place(key, after), place(key, PLACES - 1), limit)).fetchall()
    return [(position, unpacked(record), digest) for position, record, digest in rows]


def snapshots(connection: sqlite3.Connection, session_id: SessionId) -> list[bytes]:
    """Return the kept snapshots that match their seals, newest first."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    return [
        unpacked(content)
        for position, content, seal in connection.execute(READ["snapshots"], places(key)).fetchall()
        if isinstance(content, bytes) and snapshot_seal(session_id, position, content) == seal
    ]


def blobs(connection: sqlite3.Connection, digests: Sequence[str]) -> list[bytes | None]:
    rows = (connection.execute(READ["blob"], (digest,)).fetchone() for digest in digests)
    return [None if row is None else row[0] for row in rows]


def undecided(connection: sqlite3.Connection, session_id: SessionId) -> list[InboxRow]:
    """Return the undecided commands, in order; a damaged one without content."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    found: list[InboxRow] = []
    for row in connection.execute(READ["undecided_commands"], (key,)).fetchall():
        if row[5] is not None:
            raise store_errors.damaged_inbox(session_id)  # the index names a decided one, so it hides an undecided one
        try:
            found.append(read_command(session_id, row))
        except Damaged:
            found.append(damaged_row(row))
    return found


def check_inbox(connection: sqlite3.Connection, session_id: SessionId, key: int) -> None:
    """Refuse an inbox that hides a command: one that was put must be decided, or be found undecided.

    Raises:
        Damaged: rows are missing, or the index does not name them.
    """
    first, last = places(key)
    values = {"first": first, "last": last, "key": key}
    rows, undecided_rows, undecided_named, newest = connection.execute(READ["inbox_counts"], values).fetchone()
    if rows != position_of(newest or 0) or undecided_rows != undecided_named:
        raise store_errors.damaged_inbox(session_id)


def command(connection: sqlite3.Connection, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
    key = key_of(connection, session_id)
    row = None if key is None else connection.execute(READ["command"], (key, command_id)).fetchone()
    return None if row is None else read_command(session_id, row)


def shelved(
    connection: sqlite3.Connection, shelf: str, first: str, last: str, *, newest: bool, limit: int | None
) -> list[tuple[str, bytes]]:
    query = READ["shelved_newest"] if newest else READ["shelved"]
    values = (shelf, first, last or _BEYOND, -1 if limit is None else limit)
    return [read_item(shelf, row) for row in connection.execute(query, values).fetchall()]


def shelf_keys(connection: sqlite3.Connection, shelf: str, first: str, last: str) -> list[str]:
    return [key for (key,) in connection.execute(READ["shelf_keys"], (shelf, first, last or _BEYOND)).fetchall()]


def shelves(connection: sqlite3.Connection, prefix: str) -> list[str]:
    return [name for (name,) in connection.execute(READ["shelves"], {"prefix": prefix}).fetchall()]


def audit_end(connection: sqlite3.Connection) -> int:
    (ends,) = connection.execute(READ["audit_highest"]).fetchone()
    (last,) = connection.execute(READ["audit_last"]).fetchone()
    return max(ends or 0, last or 0)


def audit(connection: sqlite3.Connection, after: int, limit: int) -> list[AuditRow]:
    """Rows of the audit log after a sequence number."""
    # First where it ends: it only grows, so that rows read afterwards reach at least that far.
    (ends,) = connection.execute(READ["audit_highest"]).fetchone()
    found = [AuditRow(*row) for row in connection.execute(READ["audit"], (after, limit)).fetchall()]
    if len(found) < limit:
        check_end(found, ends or 0, after=after)
    return found


def unattended(
    connection: sqlite3.Connection,
    statuses: Sequence[str],
    now: float,
    limit: int,
    is_alive: IsAlive,
    heartbeat: Heartbeat,
    silent_before: float | None,
) -> list[Owned]:
    """Sessions without a live owner that need one, those with a command first; and those of silent owners."""
    # Liveness is looked up once for each owner, not for each session.
    owners: list[WorkerId] = [owner for (owner,) in connection.execute(READ["owners"]).fetchall()]
    dead = [owner for owner in owners if not is_alive(owner)]
    beats = {} if silent_before is None else {one: heartbeat(one) for one in owners if one not in dead}
    silent = {owner: at for owner, at in beats.items() if at is not None and at < (silent_before or 0.0)}
    wanted = {None, *dead, *silent}
    found: dict[SessionId, Owned] = {}
    with contextlib.closing(_candidates(connection, statuses, now, [*dead, *silent])) as candidates:
        for row, addressed in candidates:
            if len(found) >= limit:
                break
            if row[0] in found or row[2] not in wanted:
                continue
            try:
                known = read_ownership(row)
            except Damaged:
                continue  # a read by its id raises the error
            found[known.head.id] = Owned(
                head=known.head,
                epoch=known.epoch,
                owner=known.owner,
                alive=known.owner in silent,
                heartbeat=silent.get(known.owner) if known.owner else None,
                pending=addressed,
            )
    return list(found.values())


def _candidates(
    connection: sqlite3.Connection, statuses: Sequence[str], now: float, owners: Sequence[WorkerId]
) -> Generator[tuple[Sequence[Any], bool], None, None]:
    queries: list[tuple[str, tuple[object, ...], bool]] = [
        (READ["addressed_sessions"], (), True),
        (READ["waking_sessions"], (now,), False),
        *((READ["owned_sessions_in_status"], (owner, status), False) for owner in owners for status in statuses),
        *((READ["free_sessions_in_status"], (status,), False) for status in statuses),
    ]
    for query, values, addressed in queries:
        with contextlib.closing(connection.execute(query, values)) as cursor:
            for row in cursor:
                yield row, addressed


def unanswered(connection: sqlite3.Connection, before: float, limit: int) -> list[tuple[SessionId, InboxRow]]:
    """Undecided commands of all sessions that were put before a time, oldest first, without the damaged ones."""
    found: list[tuple[SessionId, InboxRow]] = []
    for session_id, *row in connection.execute(READ["unanswered_commands"], (before, limit)).fetchall():
        with contextlib.suppress(Damaged):
            found.append((session_id, read_command(session_id, row)))
    return found


def pending(connection: sqlite3.Connection, worker: WorkerId) -> list[SessionId]:
    """Sessions of ``worker`` that have an undecided command."""
    return [session_id for (session_id,) in connection.execute(READ["pending_sessions"], (worker,)).fetchall()]


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when any other connection, of this process or another, has written."""
    return connection.execute(READ["data_version"]).fetchone()[0]
