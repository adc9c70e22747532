"""Turn SQLite's errors into errors of Midcourse that say what to do."""

import errno
import shutil
import sqlite3
from pathlib import Path

from midcourse.errors import Damaged, MidcourseError, StoreError, StoreFull, StoreUnavailable

Failure = sqlite3.Error | UnicodeDecodeError
"""The exceptions of Python's sqlite3. The latter when the text of a damaged file, or of an error, is no text."""
FAILURES = (sqlite3.Error, UnicodeDecodeError)

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_SOME_ROOM = 1024 * 1024


def code_of(error: Failure) -> int:
    """SQLite's primary result code; 0 where Python's own module raised the error."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: Failure) -> bool:
    """Return True if another connection was in the way, so that a retry may help."""
    return code_of(error) in _BUSY


def explained(error: Failure, path: Path) -> MidcourseError:
    """Return ``error`` in a form for people and programs, with the original as its cause."""
    explanation = _explained(error, path)
    explanation.__cause__ = error
    return explanation


def _explained(error: Failure, path: Path) -> MidcourseError:
    code = code_of(error)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _no_room(path)):
        return StoreFull(
            f"No space is left for {path}; nothing was written. Free some space there and try again.", path=str(path)
        )
    no_text = isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error)
    if no_text or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Damaged(
            f"{path} is damaged ({error}). Stop using it and restore it from a backup; nothing of it is followed.",
            path=str(path),
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(
            f"{path} cannot be written ({error}). Make the file and its folder writable for this user.",
            code="store_read_only",
            path=str(path),
        )
    if code == sqlite3.SQLITE_TOOBIG:
        return StoreError(
            f"A value is too big for {path}: SQLite takes up to 1 GB. Keep it elsewhere and store where it is.",
            code="too_big",
            path=str(path),
        )
    if code in _BUSY:
        return StoreUnavailable(f"{path} is held by another program. Try again; nothing was written.", path=str(path))
    return StoreUnavailable(
        f"{path} could not be used ({error}); nothing was written. Check the disk and the permissions, then try again.",
        path=str(path),
    )


def file_failed(error: OSError, path: str) -> StoreError:
    """Return the error for a file beside the store."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"No space is left for {path}. Free some space there and try again.", path=path)
    return StoreUnavailable(
        f"{path} could not be made ({error.strerror}). Check its folder and the permissions, then try again.", path=path
    )


def _no_room(path: Path) -> bool:
    """SQLite calls a full disk an I/O error when it meets it outside of an ordinary write."""
    try:
        return shutil.disk_usage(path.parent).free < _SOME_ROOM
    except OSError:
        return False
