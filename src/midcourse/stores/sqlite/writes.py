"""The writes, each inside a transaction of the writer: all of it happens, or an error and nothing."""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from midcourse.core.audit import AuditEntry, AuditRow, encode_entry, follow, prunable, pruned
from midcourse.core.codec import Blob, named_blobs
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.ports.store import Append, Change, Creation, Deciding, Erasure, Head, InboxRow, Owned
from midcourse.stores import store_errors
from midcourse.stores.sqlite.reads import IsAlive, check_inbox, key_of
from midcourse.stores.sqlite.rows import (
    Encoded,
    check_owner,
    command_seal,
    item_seal,
    outcome_seal,
    owner_seal,
    packed,
    place,
    places,
    position_of,
    read_command,
    read_ownership,
    snapshot_seal,
)
from midcourse.stores.sqlite.statements import READ, WRITE

FIRST_EPOCH: Final = Epoch(1)

_FENCE = WRITE["session_fence"]
_INSERT_SESSION = WRITE["insert_session"]
_UPDATE_HEAD = WRITE["update_head"]
_UPDATE_OWNER = WRITE["update_owner"]
_INSERT_RECORD = WRITE["insert_record"]
_INSERT_BLOB = WRITE["insert_blob"]
_USE_BLOB = WRITE["use_blob"]
_REPLACE_RECORD = WRITE["replace_record"]
_LAST_COMMAND = WRITE["last_command"]
_INSERT_COMMAND = WRITE["insert_command"]
_COMMAND_TO_DECIDE = WRITE["command_to_decide"]
_DECIDE_COMMAND = WRITE["decide_command"]
_ANY_UNDECIDED = WRITE["any_undecided"]
_INSERT_SNAPSHOT = WRITE["insert_snapshot"]
_DELETE_OLDER_SNAPSHOTS = WRITE["delete_older_snapshots"]
_SHELF_ITEM = WRITE["shelf_item"]
_SHELVE = WRITE["shelve"]
_UNSHELVE = WRITE["unshelve"]
_AUDIT_END = WRITE["audit_end"]
_INSERT_AUDIT = WRITE["insert_audit"]
_TRIM_AUDIT = WRITE["trim_audit"]
_ANCHOR_AUDIT = WRITE["anchor_audit"]
_WORKER_IS_KNOWN = WRITE["worker_is_known"]
_INSERT_WORKER = WRITE["insert_worker"]
_DELETE_WORKER = WRITE["delete_worker"]
_SESSION = READ["session"]
_COMMAND = READ["command"]


def create(connection: sqlite3.Connection, creation: Creation, encoded: Encoded) -> Epoch:
    head = creation.head
    if connection.execute(_FENCE, (head.id,)).fetchone() is not None:
        raise store_errors.session_exists(head.id)
    store_errors.check_order(head, creation.rows, 0)
    cursor = connection.execute(
        _INSERT_SESSION,
        (
            head.id,
            head.agent,
            head.created_at,
            FIRST_EPOCH,
            creation.worker,
            encoded.owner,
            head.status,
            head.wake_at,
            head.position,
            encoded.head,
            encoded.head_seal,
        ),
    )
    key = cursor.lastrowid
    assert key is not None  # an INSERT has one
    _insert(connection, key, creation.rows, creation.blobs)
    _write_beside(connection, creation, encoded)
    return FIRST_EPOCH


def append(connection: sqlite3.Connection, append: Append, encoded: Encoded, store: str) -> None:
    """Append all of the rows, the new head, and the decision."""
    head = append.head
    key, position = _fenced(connection, head.id, append.epoch, encoded.owner, store)
    store_errors.check_order(head, append.rows, position)
    _insert(connection, key, append.rows, append.blobs)
    if append.deciding is not None:
        _decide(connection, key, head.id, append.deciding)
    _update_head(connection, key, head, encoded)
    if append.release:
        _release_session(connection, key, head.id, append.epoch)
    _write_beside(connection, append, encoded)


def _update_head(connection: sqlite3.Connection, key: int, head: Head, encoded: Encoded) -> None:
    values = (head.status, head.wake_at, head.position, encoded.head, encoded.head_seal, key)
    connection.execute(_UPDATE_HEAD, values)


def _write_beside(connection: sqlite3.Connection, change: Change, encoded: Encoded) -> None:
    for shelf, items in change.shelves.items():
        _put_on(connection, shelf, items)
    if encoded.audit:
        _audit(connection, encoded.audit)


def put(
    connection: sqlite3.Connection, session_id: SessionId, command_id: CommandId, content: bytes, at: float, store: str
) -> InboxRow:
    """Put a command, or return the row that holds its id."""
    key = key_of(connection, session_id)
    if key is None:
        raise store_errors.not_found(session_id, store)
    known = connection.execute(_COMMAND, (key, command_id)).fetchone()
    if known is not None:
        return read_command(session_id, known)
    (last,) = connection.execute(_LAST_COMMAND, places(key)).fetchone()
    seq = position_of(last or 0) + 1
    seal = command_seal(session_id, seq, command_id, at, content)
    connection.execute(_INSERT_COMMAND, (place(key, seq), key, command_id, at, content, seal))
    return InboxRow(seq=seq, id=command_id, put_at=at, content=content)


def take(
    connection: sqlite3.Connection,
    session_id: SessionId,
    worker: WorkerId,
    *,
    address: str,
    is_alive: IsAlive,
    store: str,
) -> Owned:
    """Acquire the session for ``worker``, under the next epoch, if its owner is dead or there is none."""
    row = connection.execute(_SESSION, (session_id,)).fetchone()
    if row is None:
        raise store_errors.not_found(session_id, store)
    before = read_ownership(row)
    if before.owner is not None:
        if is_alive(before.owner):
            raise store_errors.owner_alive(session_id, before.owner)
        connection.execute(_DELETE_WORKER, (before.owner,))
    key = key_of(connection, session_id)
    assert key is not None  # it was just read
    check_inbox(connection, session_id, key)
    epoch = Epoch(before.epoch + 1)
    connection.execute(_UPDATE_OWNER, (epoch, worker, owner_seal(session_id, epoch, worker), key))
    return Owned(head=before.head, epoch=epoch, owner=worker, alive=True, address=address)


def save_snapshot(
    connection: sqlite3.Connection,
    session_id: SessionId,
    position: Position,
    content: bytes,
    blobs: Sequence[Blob],
    *,
    epoch: Epoch,
    store: str,
) -> None:
    """Save a snapshot; the two newest stay."""
    row = connection.execute(_FENCE, (session_id,)).fetchone()
    if row is None:
        raise store_errors.not_found(session_id, store)
    key, _, seal, current, owner = row
    check_owner(session_id, current, owner, seal)
    # Of a released session the last owner may still write one: it is no truth, and saves the next one reading.
    if current != epoch:
        raise store_errors.stale_epoch(session_id, epoch, current, owner)
    content = packed(content)
    connection.execute(_INSERT_SNAPSHOT, (place(key, position), content, snapshot_seal(session_id, position, content)))
    first, last = places(key)
    connection.execute(_DELETE_OLDER_SNAPSHOTS, {"first": first, "last": last})
    _insert(connection, key, (), blobs)


def erase(connection: sqlite3.Connection, erasure: Erasure, encoded: Encoded, store: str) -> None:
    """Put the rows in the place of the journal, and remove all other texts of the session."""
    head, rows = erasure.head, erasure.rows
    key, position = _fenced(connection, head.id, erasure.epoch, encoded.owner, store)
    store_errors.check_whole(head, rows, position)
    _release_session(connection, key, head.id, erasure.epoch)
    connection.executemany(
        _REPLACE_RECORD, ((packed(record), digest, place(key, where)) for where, record, digest in rows[:position])
    )
    connection.execute(WRITE["delete_snapshots"], places(key))
    _empty_inbox(connection, key, head.id, erasure.outcome)
    connection.execute(WRITE["delete_blobs"], {"session": key})
    connection.execute(WRITE["forget_blobs"], (key,))
    connection.executemany(WRITE["replace_audit"], ((row.content, row.seq) for row in erasure.forgotten))
    _insert(connection, key, rows[position:], erasure.blobs)
    _update_head(connection, key, head, encoded)
    _write_beside(connection, erasure, encoded)


def _empty_inbox(connection: sqlite3.Connection, key: int, session_id: SessionId, outcome: bytes) -> None:
    for command in connection.execute(WRITE["commands_of"], places(key)).fetchall():
        _empty_command(connection, session_id, command, outcome)


def _empty_command(
    connection: sqlite3.Connection, session_id: SessionId, command: tuple[int, str, float], outcome: bytes
) -> None:
    where, command_id, put_at = command
    seal = command_seal(session_id, position_of(where), CommandId(command_id), put_at, b"")
    connection.execute(WRITE["empty_command"], (seal, outcome, outcome_seal(seal, outcome), where))


def shelve(
    connection: sqlite3.Connection,
    shelf: str,
    items: Mapping[str, bytes | None],
    *,
    owner: tuple[SessionId, Epoch, bytes] | None,
    expecting: Mapping[str, bytes | None],
    audit: Sequence[bytes],
    store: str,
) -> None:
    """Put all of ``items`` on a shelf. ``owner``: the session, the epoch and the expected seal of the owner."""
    if owner is not None:
        _fenced(connection, *owner, store)
    for key, value in expecting.items():
        found = connection.execute(_SHELF_ITEM, (shelf, key)).fetchone()
        if found != (None if value is None else (value, item_seal(shelf, key, value))):
            raise store_errors.shelf_changed(shelf, key)
    _put_on(connection, shelf, items)
    if audit:
        _audit(connection, audit)


def _put_on(connection: sqlite3.Connection, shelf: str, items: Mapping[str, bytes | None]) -> None:
    kept = [(shelf, key, value, item_seal(shelf, key, value)) for key, value in items.items() if value is not None]
    connection.executemany(_SHELVE, kept)
    connection.executemany(_UNSHELVE, [(shelf, key) for key, value in items.items() if value is None])


def add_worker(connection: sqlite3.Connection, worker: WorkerId, address: str, started_at: float) -> None:
    """Add a worker whose process holds its lock already."""
    if connection.execute(_WORKER_IS_KNOWN, {"id": worker}).fetchone()[0]:
        raise store_errors.worker_exists(worker)
    connection.execute(_INSERT_WORKER, (worker, os.getpid(), address, started_at))


def remove_worker(connection: sqlite3.Connection, worker: WorkerId) -> None:
    connection.execute(_DELETE_WORKER, (worker,))


def _fenced(
    connection: sqlite3.Connection, session_id: SessionId, epoch: Epoch, expected: bytes, store: str
) -> tuple[int, int]:
    """Return the session's key and position, if its owner's seal is the ``expected`` one.

    The seal covers id, epoch and owner, so that one comparison shows that none of them was changed.
    """
    row: tuple[Any, ...] | None = connection.execute(_FENCE, (session_id,)).fetchone()
    if row is None:
        raise store_errors.not_found(session_id, store)
    key, position, seal, current, owner = row
    if seal != expected:
        check_owner(session_id, current, owner, seal)
        raise store_errors.stale_epoch(session_id, epoch, current, owner)
    return key, position


def _insert(connection: sqlite3.Connection, key: int, rows: Sequence[Row], blobs: Sequence[Blob]) -> None:
    first = place(key, 0)
    for position, record, digest in rows:
        connection.execute(_INSERT_RECORD, (first + position, packed(record), digest))
        for name in named_blobs(record):
            connection.execute(_USE_BLOB, (key, name))
    for blob in blobs:
        connection.execute(_INSERT_BLOB, (blob.digest, blob.content))
        connection.execute(_USE_BLOB, (key, blob.digest))


def _decide(connection: sqlite3.Connection, key: int, session_id: SessionId, deciding: Deciding) -> None:
    row = connection.execute(_COMMAND_TO_DECIDE, (key, deciding.id)).fetchone()
    if row is None:
        raise store_errors.no_such_command(session_id, deciding.id)
    where, seal, decided = row
    if decided:
        raise store_errors.already_decided(session_id, deciding.id)
    if deciding.forgets:
        command = connection.execute(WRITE["commands_of"], (where, where)).fetchone()
        _empty_command(connection, session_id, command, deciding.outcome)
        return
    connection.execute(_DECIDE_COMMAND, (deciding.outcome, outcome_seal(seal, deciding.outcome), where))


def _audit(connection: sqlite3.Connection, entries: Sequence[bytes]) -> None:
    # Looked up each time: another process may have written since, and this transaction keeps it from writing now.
    seq, digest, ends = connection.execute(_AUDIT_END).fetchone()
    last = None if seq is None else AuditRow(seq, b"", digest or b"")
    for row in follow(last, ends, entries):
        connection.execute(_INSERT_AUDIT, (row.seq, row.content, row.digest))


def trim_audit(connection: sqlite3.Connection, before: float, telling: AuditEntry, limit: int) -> int:
    """Remove the oldest rows of the audit log, all but the last one's number and digest."""
    rows = [AuditRow(*row) for row in connection.execute(READ["audit"], (0, limit + 1)).fetchall()]
    gone = prunable(rows, before, limit, telling.at)
    if gone.entries:
        last = rows[gone.rows - 1].seq
        connection.execute(_TRIM_AUDIT, (last,))
        connection.execute(_ANCHOR_AUDIT, (last,))
        _audit(connection, [encode_entry(pruned(telling, last, gone.entries))])
    return gone.entries


def _release_session(connection: sqlite3.Connection, key: int, session_id: SessionId, epoch: Epoch) -> None:
    if connection.execute(_ANY_UNDECIDED, (key,)).fetchone() is not None:
        raise store_errors.inbox_not_empty(session_id)
    connection.execute(_UPDATE_OWNER, (epoch, None, owner_seal(session_id, epoch, None), key))
