"""Maintain a store's file: compact it, copy it while it is used, check it as a whole.

Each of these works on a connection of its own, beside other programs that have the store open.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, NamedTuple

from midcourse.errors import Damaged, InvalidInput, StoreUnavailable
from midcourse.stores.sqlite import locks
from midcourse.stores.sqlite.connection import APPLICATION_ID, SCHEMA_VERSION, workers_folder
from midcourse.stores.sqlite.errors import FAILURES, explained
from midcourse.stores.sqlite.rows import owner_seal, read_ownership
from midcourse.stores.sqlite.statements import READ, WRITE
from midcourse.stores.sqlite.write_lock import patiently

Progress = Callable[[int, int], None]
"""Told how many pages are done, of how many."""
BACKUP_AT: Final = "backup_at"
"""Under which a backup says when it was made, in its ``meta``."""

_PAGES: Final = 1024
_PATIENCE: Final = 30.0


class Compacted(NamedTuple):
    """The size of the file before and after, in bytes."""

    before: int
    after: int


class File(NamedTuple):
    """The state of a store's file, as far as it can be told without following it."""

    schema: int
    bytes: int
    log_bytes: int
    problems: tuple[str, ...]
    workers: tuple[tuple[str, int, bool], ...]
    """Each worker's id and process, and whether it lives."""
    damaged: tuple[str, ...]
    """Sessions whose head or owner does not match its checksum."""


def compact(path: Path, *, patience: float = _PATIENCE) -> Compacted:
    """Write the file anew, and empty its log: what was erased is in neither any more.

    Programs that have the store open continue; their writes wait until it is done.

    Raises:
        StoreUnavailable: another program reads or writes all the time; the text may still be in the log.
    """
    path = _existing(path)
    before = path.stat().st_size + _log(path)
    with _opened(path, wait=0) as connection:  # the waiting is done here
        connection.execute("PRAGMA secure_delete = ON")
        patiently(lambda: connection.execute("VACUUM"), path, patience)
        try:
            patiently(lambda: _truncate(connection), path, patience)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{path} was written anew, and its log could not be emptied for {patience:g} s: another program "
                f"reads it all the time{_readers(connection)}. What was erased may still be in the log. End that "
                "program, or try again.",
                code="store_busy",
                path=str(path),
            ) from error
    return Compacted(before, path.stat().st_size + _log(path))


def _readers(connection: sqlite3.Connection) -> str:
    processes = [str(pid) for _, pid in connection.execute(READ["worker_processes"])]
    return f" (workers of this store: process {', '.join(processes)})" if processes else ""


class _Busy(sqlite3.OperationalError):
    """Another program still reads the log."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


def _truncate(connection: sqlite3.Connection) -> None:
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise _Busy("the log is in use")


def back_up(path: Path, to: Path, at: float, progress: Progress = lambda _done, _all: None) -> int:
    """Copy the store as it is now to a new file, while others write, check the copy, and return its bytes.

    Raises:
        InvalidInput: there is such a file already. StoreUnavailable: there is no such store, or it cannot be copied.
        Damaged: the copy is not whole.
    """
    path = _existing(path)
    to = to.absolute()
    if to.exists():
        raise InvalidInput(f"There is a file {to} already. Name another one; nothing was overwritten.", field="file")
    part = to.with_name(f".{to.name}.part")
    with _new(part):
        _copy(path, part, progress)
        with _opened(part) as copy:
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, that can be carried elsewhere
            copy.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (BACKUP_AT, repr(at)))
            copy.commit()
            _check_whole(copy, part)
        _put_in_place(part, to)
    return to.stat().st_size


def backup_time(path: Path) -> float:
    """Return when the backup at ``path`` was made; for another copy of a store, when the file was last written.

    Raises:
        StoreUnavailable: it is no store.
        Damaged: it is not whole.
    """
    path = _existing(path)
    with _opened(path, read_only=True) as connection:
        _check_whole(connection, path)
        row = connection.execute("SELECT value FROM meta WHERE name = ?", (BACKUP_AT,)).fetchone()
    try:
        return float(row[0]) if row else path.stat().st_mtime
    except ValueError:
        return path.stat().st_mtime


def unpack(backup: Path, to: Path, progress: Progress = lambda _done, _all: None) -> None:
    """Copy a backup to where a store is to be, with no worker of its old life in it.

    Raises:
        StoreUnavailable: it cannot be copied. Damaged: the backup is not whole.
    """
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _copy(_existing(backup), to, progress)
    with _opened(to) as connection:
        connection.execute("DELETE FROM workers")
        for key, session_id, epoch in connection.execute("SELECT key, id, epoch FROM sessions").fetchall():
            # An owner elsewhere holds an epoch of the past here.
            connection.execute(WRITE["update_owner"], (epoch + 1, None, owner_seal(session_id, epoch + 1, None), key))
        connection.execute("DELETE FROM meta WHERE name = ?", (BACKUP_AT,))
        connection.commit()


def staging_path(to: Path) -> Path:
    """Return the place where a store for ``to`` is made, cleared of what an interrupted restore left there.

    Raises:
        InvalidInput: there is a store already.
        StoreUnavailable: there is no folder for it.
    """
    to = to.absolute()
    if to.exists() or to.with_name(f"{to.name}-wal").exists():
        raise InvalidInput(
            f"There is a store at {to} already. Restore into another place; nothing was changed.", field="into"
        )
    try:
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"{to.parent} cannot be made ({error.strerror}). Name another place.", path=str(to)
        ) from error
    part = to.with_name(f".{to.name}.restoring")
    remove_staged(part)
    return part


def settle(path: Path, to: Path) -> None:
    """Give a restored store, which no program has open, its name. Never that of another file.

    Raises:
        InvalidInput: there is such a file by now.
    """
    with _opened(path) as connection:
        _truncate(connection)
    _put_in_place(path, to.absolute())
    remove_staged(path)


def remove_staged(path: Path) -> None:
    """Remove a store that was only made on the way, with what lies beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.rmtree(workers_folder(path), ignore_errors=True)


def examine(path: Path, *, deep: bool) -> File:
    """Check a store's file. ``deep``: read all of it, which takes a while for a large one.

    Raises:
        StoreUnavailable: there is none, or it is no store.
        Damaged: it cannot be read.
    """
    path = _existing(path)
    with _opened(path, read_only=True) as connection:
        try:
            schema = int(connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0])
            check = "integrity_check" if deep else "quick_check"
            problems = tuple(str(row[0]) for row in connection.execute(f"PRAGMA {check}(20)") if row[0] != "ok")
            known = connection.execute(READ["worker_processes"]).fetchall()
            damaged = tuple(_damaged(connection)) if not problems else ()
        except FAILURES as error:
            raise explained(error, path) from error
    folder = workers_folder(path)
    workers = tuple((worker, int(pid), locks.is_alive(folder, worker)) for worker, pid in known)
    return File(schema, path.stat().st_size, _log(path), problems, workers, damaged)


def _damaged(connection: sqlite3.Connection) -> Generator[str]:
    query = "SELECT id, epoch, owner, seal, status, agent, created_at, wake_at, head, head_seal, '' FROM sessions"
    for row in connection.execute(query):
        try:
            read_ownership(row)
        except Damaged:
            yield str(row[0])


def _existing(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    if not path.is_file():
        raise StoreUnavailable(f"There is no store at {path}.", code="store_not_found", path=str(path))
    return path


def _log(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _opened(path: Path, *, read_only: bool = False, wait: float = 5) -> Generator[sqlite3.Connection]:
    """Open a connection, and turn its errors into ours."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=wait, isolation_level=None)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION_ID:
                raise StoreUnavailable(f"{path} is not a Midcourse store.", code="not_a_store", path=str(path))
            if read_only:
                connection.execute("PRAGMA query_only = 1")
            yield connection
    except FAILURES as error:
        raise explained(error, path) from error


@contextlib.contextmanager
def _new(part: Path) -> Generator[None]:
    """Remove the file being made if the block fails."""
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(
            f"{part.parent} cannot be written to ({error.strerror}). Name another place.", path=str(part)
        ) from error
    try:
        yield
    finally:
        remove_staged(part)


def _copy(path: Path, to: Path, progress: Progress) -> None:
    try:
        with _opened(path, read_only=True) as source, contextlib.closing(sqlite3.connect(to)) as copy:
            # One view of the file for all pages: else each write of another process would begin the copy anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM meta").fetchone()
            source.backup(copy, pages=_PAGES, progress=lambda _, left, every: progress(every - left, every), sleep=0.0)
            source.execute("ROLLBACK")
    except FAILURES as error:
        raise explained(error, to) from error


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    if problems != ["ok"]:
        raise Damaged(f"{path} is not whole: {problems[0]}. It is not used.", path=str(path))
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if row is None or not str(row[0]).isdigit():
        raise Damaged(f"{path} has not the tables of a Midcourse store.", path=str(path))
    if int(row[0]) > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"{path} was written by a newer Midcourse (schema {row[0]}; this one knows {SCHEMA_VERSION}). "
            "Upgrade midcourse here.",
            code="store_newer",
            path=str(path),
        )


def _put_in_place(part: Path, to: Path) -> None:
    """Give a finished file its name, durably, and never that of another file."""
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(part, to)
    except FileExistsError:
        raise InvalidInput(f"There is a file {to} already. Nothing was overwritten.", field="file") from None
    descriptor = os.open(to.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
