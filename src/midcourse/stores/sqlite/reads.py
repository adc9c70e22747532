"""The reads, as the reader's thread runs them."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Position, SessionId, WorkerId
from midcourse.errors import Damaged
from midcourse.ports.store import Head, InboxRow, Owned
from midcourse.stores import refusals
from midcourse.stores.sqlite import locks
from midcourse.stores.sqlite.rows import (
    PLACES,
    damaged_row,
    place,
    places,
    read_command,
    read_head,
    read_ownership,
    snapshot_seal,
)
from midcourse.stores.sqlite.statements import READ

_KEY = READ["session_key"]
_EVER = float("inf")


def key_of(connection: sqlite3.Connection, session_id: SessionId) -> int | None:
    """The compact key of a session."""
    row = connection.execute(_KEY, (session_id,)).fetchone()
    return None if row is None else row[0]


def head(connection: sqlite3.Connection, session_id: SessionId, folder: Path, store: str) -> Owned:
    """A session's head and owner."""
    row = connection.execute(READ["session"], (session_id,)).fetchone()
    if row is None:
        raise refusals.not_found(session_id, store)
    known = read_ownership(row)
    alive = known.owner is not None and locks.is_alive(folder, known.owner)
    return Owned(
        head=known.head,
        epoch=known.epoch,
        owner=known.owner,
        alive=alive,
        address=known.address if alive else "",
    )


def heads(
    connection: sqlite3.Connection, statuses: Sequence[str], agent: str | None, limit: int, before: float | None
) -> list[Head]:
    """Sessions, newest first, without the damaged ones."""
    found: list[Head] = []
    cursor = connection.execute(
        READ["newest_sessions"],
        {
            "before": _EVER if before is None else before,
            "agent": agent,
            "any_status": not statuses,
            "statuses": _json(statuses),
        },
    )
    for session_id, *columns, content, seal in cursor:
        if len(found) >= limit:
            break
        try:
            found.append(read_head(session_id, columns, content, seal))
        except Damaged:
            continue
    cursor.close()  # an unfinished statement would hold its view of the file, and the log could not be reset
    return found


def records(connection: sqlite3.Connection, session_id: SessionId, after: Position, limit: int) -> list[Row]:
    """Journal rows after a position."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    return connection.execute(READ["records"], (place(key, after), place(key, PLACES - 1), limit)).fetchall()


def digest_at(connection: sqlite3.Connection, session_id: SessionId, position: Position) -> bytes | None:
    """The running digest at a position."""
    found = records(connection, session_id, Position(position - 1), 1) if position > 0 else []
    return found[0][2] if found and found[0][0] == position else None


def snapshots(connection: sqlite3.Connection, session_id: SessionId) -> list[bytes]:
    """The kept snapshots that match their seals, newest first."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    return [
        content
        for position, content, seal in connection.execute(READ["snapshots"], places(key)).fetchall()
        if isinstance(content, bytes) and snapshot_seal(session_id, position, content) == seal
    ]


def blob(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """The blob of that digest."""
    row = connection.execute(READ["blob"], (digest,)).fetchone()
    return None if row is None else row[0]


def undecided(connection: sqlite3.Connection, session_id: SessionId) -> list[InboxRow]:
    """The undecided commands, in order; a damaged one without content."""
    key = key_of(connection, session_id)
    if key is None:
        return []
    found: list[InboxRow] = []
    for row in connection.execute(READ["undecided_commands"], (key,)).fetchall():
        try:
            found.append(read_command(session_id, row))
        except Damaged:
            found.append(damaged_row(row))
    return found


def command(connection: sqlite3.Connection, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
    """The inbox row of that id."""
    key = key_of(connection, session_id)
    row = None if key is None else connection.execute(READ["command"], (key, command_id)).fetchone()
    return None if row is None else read_command(session_id, row)


def unattended(
    connection: sqlite3.Connection, statuses: Sequence[str], now: float, limit: int, folder: Path
) -> list[Owned]:
    """Sessions without a live owner that need one. Liveness is looked up once for each owner, not for each session."""
    owners: list[WorkerId] = [owner for (owner,) in connection.execute(READ["owners"]).fetchall()]
    dead = [owner for owner in owners if not locks.is_alive(folder, owner)]
    found: list[Owned] = []
    cursor = connection.execute(
        READ["unattended_sessions"], {"dead": _json(dead), "statuses": _json(statuses), "now": now}
    )
    for row in cursor:
        if len(found) >= limit:
            break
        try:
            known = read_ownership(row)
        except Damaged:
            continue  # whoever asks for it by its id is told
        found.append(Owned(head=known.head, epoch=known.epoch, owner=known.owner, alive=False))
    cursor.close()
    return found


def data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when any other connection, of this process or another, has written."""
    return connection.execute(READ["data_version"]).fetchone()[0]


def _json(values: Sequence[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
