"""Opens a SQLite file as a store: every way this can fail has a sentence that says what to do."""

import contextlib
import logging
import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from midcourse.core.audit import decode_entry, encode_entry, follow
from midcourse.core.codec import GENESIS, follows, named_blobs
from midcourse.errors import Damaged, MidcourseError, StoreUnavailable
from midcourse.stores.sqlite.durability import Wanted, set_durability
from midcourse.stores.sqlite.errors import FAILURES, Failure, code_of, explained
from midcourse.stores.sqlite.rows import PLACES, columns_of, whole_head
from midcourse.stores.sqlite.statements import SCHEMA, WRITE
from midcourse.stores.sqlite.write_lock import WriteLock, patiently

APPLICATION_ID: Final = int.from_bytes(b"MDCS", "big")
"""The mark of a Midcourse store in the file's header."""
SCHEMA_VERSION: Final = 4
OLDEST_SQLITE: Final = (3, 31, 0)

_CHECKED_AT_OPEN: Final = 64 * 1024 * 1024
"""Bytes of a file whose indexes are compared with their tables whenever it is opened: a few milliseconds."""
_CHECKS_ONE_TABLE: Final = (3, 33, 0)
log = logging.getLogger("midcourse")
_LOG_LIMIT: Final = 64 * 1024 * 1024


class Opened(NamedTuple):
    """A store's file, its two connections, and what its writes are worth."""

    path: Path
    writer: sqlite3.Connection
    reader: sqlite3.Connection
    turn: WriteLock
    durability: Wanted


def workers_folder(path: Path) -> Path:
    """Return the folder of the lock files of the store's workers."""
    return path.with_name(path.name + "-workers")


def open_store(
    path: str | os.PathLike[str], durability: Wanted, *, pragmas: Mapping[str, int], patience: float
) -> Opened:
    """Open the store at ``path``, and make it if there is none. ``pragmas`` are set for the writer, by tests.

    Raises:
        StoreUnavailable: it cannot be opened; the code and the sentence say why.
        Damaged: it is a store that cannot be read.
    """
    # One spelling: the locks that this process holds are remembered by it.
    path = Path(os.path.realpath(path))
    _check_platform()
    _check_place(path)
    with contextlib.ExitStack() as undo:
        try:
            writer = _connect(path, undo)
            # As a whole: another process making the store at the same time would be in the way of every single step.
            patiently(lambda: _prepare(writer, path), path)
            durability = set_durability(writer, path, durability)
            writer.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten, not only forgotten
            for pragma, value in pragmas.items():
                writer.execute(f"PRAGMA {pragma} = {value}")
            reader = _connect(path, undo)
            reader.execute("PRAGMA query_only = 1")
            patiently(lambda: reader.execute("SELECT count(*) FROM meta").fetchone(), path)
            turn = WriteLock(path, workers_folder(path) / "turn", patience)
        except FAILURES as error:
            raise _unusable(error, path) from error
        except OSError as error:
            raise _forbidden(path, f"{workers_folder(path)} cannot be used ({error.strerror})") from error
        undo.pop_all()
    return Opened(path, writer, reader, turn, durability)


def usable_version() -> str:
    """Return the version of SQLite in this Python.

    Raises:
        StoreUnavailable: it is too old.
    """
    _check_platform()
    return sqlite3.sqlite_version


def _check_platform() -> None:
    if sys.platform == "win32":
        raise StoreUnavailable("Midcourse runs on Linux and macOS; on Windows, use it inside WSL.", code="platform")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnavailable(
            f"This Python brings SQLite {sqlite3.sqlite_version}; Midcourse needs 3.31 or newer. Use a newer Python.",
            code="sqlite_too_old",
        )


def _check_place(path: Path) -> None:
    """Make the file (for this user's eyes only) and its folder of locks, or say why that cannot be."""
    if path.is_dir():
        raise _refused(path, "is_directory", f"{path} is a folder. Name a file in it, such as {path / 'midcourse.db'}.")
    folder = path.parent
    if not folder.is_dir():
        raise _refused(path, "folder_missing", f"There is no folder {folder}. Make it, or name a file somewhere else.")
    try:
        # O_EXCL: never opens a file that is there. Closing a descriptor of it would drop SQLite's own locks on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _sync(folder)
    except FileExistsError:
        pass
    except OSError as error:
        raise _forbidden(path, f"{path} cannot be made ({error.strerror})") from error
    if not os.access(path, os.R_OK | os.W_OK):
        raise _forbidden(path, f"{path} cannot be read and written by this user")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _forbidden(path, f"{folder} cannot be written by this user, and SQLite keeps its log beside the file")
    try:
        workers_folder(path).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _forbidden(path, f"{workers_folder(path)} cannot be made ({error.strerror})") from error


def _sync(folder: Path) -> None:
    """Make a new file durable: it is once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _text(content: bytes) -> str:
    """Decode a text. A damaged one makes its own row differ from its seal, and not the whole query fail."""
    return content.decode(errors="replace")


def _connect(path: Path, undo: contextlib.ExitStack) -> sqlite3.Connection:
    # timeout=0: the waiting is done in write_lock.py. isolation_level=None: transactions are begun and ended by hand.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
    undo.callback(connection.close)
    connection.text_factory = _text
    connection.execute("PRAGMA cell_size_check = 1")
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_kind(connection, path)
    _use_log(connection, path)
    _check_schema(connection, path)
    _mend_indexes(connection, path)


def _mend_indexes(connection: sqlite3.Connection, path: Path) -> None:
    """Rebuild an index that does not match its table: it would hide sessions and commands.

    The tables are the truth, and each row has its own checksum. ``midcourse doctor`` checks larger files.
    """
    if path.stat().st_size > _CHECKED_AT_OPEN or sqlite3.sqlite_version_info < _CHECKS_ONE_TABLE:
        return
    for table in ("sessions", "inbox"):
        problems = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({table})")]
        if problems != ["ok"]:
            connection.execute(f"REINDEX {table}")
            log.warning("%s: an index of '%s' was damaged (%s) and was built again", path, table, problems[0])
            if table == "sessions":
                _mend_sessions(connection, path)


def _mend_sessions(connection: sqlite3.Connection, path: Path) -> None:
    """Repeat in each row of a session what its sealed head says: without its id it would be begun a second time."""
    rows = connection.execute("SELECT key, id, status, agent, created_at, wake_at, head, head_seal FROM sessions")
    for key, *found, content, seal in rows.fetchall():
        head = whole_head(content, seal)
        if head is not None and columns_of(head) != tuple(found):
            columns = "id = ?, status = ?, agent = ?, created_at = ?, wake_at = ?"
            connection.execute(f"UPDATE OR IGNORE sessions SET {columns} WHERE key = ?", (*columns_of(head), key))
            log.warning("%s: the row of session '%s' was damaged and was mended from its head", path, head.id)


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """Check, before anything is written, that the file is empty, or a store of ours."""
    # In this order: another maker of the store writes both at once, so what is read later is not older.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID and tables:
        raise _refused(
            path, "not_a_store", f"{path} is the database of another program. Name another file; nothing was changed."
        )


def _use_log(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise _refused(
            path,
            "no_wal",
            f"SQLite cannot keep a write-ahead log beside {path} (it offers '{mode}'). Use a disk of this machine, "
            "not a network drive.",
        )
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version is None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)  # another program may have been first
            if version is None:
                version = SCHEMA_VERSION
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO meta (name, value) VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if version in (1, 2, 3):
        version = _brought_up(connection, path)
    if version > SCHEMA_VERSION:
        raise _refused(
            path,
            "store_newer",
            f"{path} was written by a newer Midcourse (schema {version}; this one knows {SCHEMA_VERSION}). "
            "Upgrade midcourse here, or name another file; nothing was changed.",
        )
    # Word by word: one changed letter in a CREATE TABLE makes another column the key, and SQLite takes its word for it.
    if version < SCHEMA_VERSION or _tables(connection) != set(SCHEMA):
        raise _no_store(path)


def _brought_up(connection: sqlite3.Connection, path: Path) -> int:
    """Version 2 has shelves, version 3 knows who names a blob, version 4 compresses. What there was stays as it is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        there, version = _tables(connection), _version(connection)  # another program may have been first
        if not there <= set(SCHEMA) and version != SCHEMA_VERSION:
            raise _no_store(path)
        for statement in SCHEMA:
            if statement not in there:
                connection.execute(statement)
        if version in (1, 2):
            _note_blobs(connection)
            _chain_audit(connection)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION),))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return SCHEMA_VERSION


def _note_blobs(connection: sqlite3.Connection) -> None:
    """Note which session names which blob, by journals and snapshots. Once, for an older store."""
    for query in (
        "SELECT place, CAST(record AS BLOB) FROM journal WHERE instr(record, '\"blob\":')",
        "SELECT place, CAST(content AS BLOB) FROM snapshots WHERE instr(content, '\"blob\":')",
    ):
        for place, content in connection.execute(query).fetchall():
            uses = [(place // PLACES, digest) for digest in named_blobs(content)]
            connection.executemany(WRITE["use_blob"], uses)


def _chain_audit(connection: sqlite3.Connection) -> None:
    """Compute the audit log's digests over those of its entries, so that details can be erased.

    It ends at the first that does not match: an earlier change stays visible.
    """
    digest = GENESIS
    contents: list[bytes] = []
    query = "SELECT seq, CAST(entry AS BLOB), CAST(digest AS BLOB) FROM audit ORDER BY seq"
    for seq, entry, stored in connection.execute(query).fetchall():
        if seq != len(contents) + 1 or not follows(digest, seq, entry, stored):
            break
        digest = stored
        contents.append(encode_entry(decode_entry(entry)))
    rows = follow(None, 0, contents)
    connection.executemany(
        "UPDATE audit SET entry = ?, digest = ? WHERE seq = ?", ((row.content, row.digest, row.seq) for row in rows)
    )


def _tables(connection: sqlite3.Connection) -> set[str]:
    # sqlite_sequence is made by SQLite itself, for the audit log.
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_sequence'"
    return {sql for (sql,) in connection.execute(query)}


def _version(connection: sqlite3.Connection) -> int | None:
    """Return the version of the schema; None for an empty file, 0 for an impossible one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "meta" not in tables:
        return 0 if tables else None
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    try:
        return int(row[0]) if row else 0
    except (TypeError, ValueError):
        return 0


def _no_store(path: Path) -> Damaged:
    return Damaged(
        f"{path} has not the tables of a Midcourse store. Restore it from a backup; nothing was changed.",
        path=str(path),
    )


def _refused(path: Path, code: str, sentence: str) -> StoreUnavailable:
    return StoreUnavailable(sentence, code=code, path=str(path))


def _forbidden(path: Path, what: str) -> StoreUnavailable:
    return _refused(path, "no_permission", f"{what}. Change the permissions or the owner, or name another file.")


def _unusable(error: Failure, path: Path) -> MidcourseError:
    if code_of(error) == sqlite3.SQLITE_NOTADB:
        return _refused(
            path,
            "not_a_store",
            f"{path} is not a Midcourse store, or its beginning is damaged. Name another file, or restore this one "
            "from a backup; nothing was changed.",
        )
    return explained(error, path)
