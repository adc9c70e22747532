"""Check what an acknowledged write survives: asked of the file system and of SQLite, never assumed."""

import logging
import sqlite3
import sys
from pathlib import Path
from typing import Final, Literal

from midcourse.errors import InvalidInput, StoreUnavailable

Wanted = Literal["process", "power"]

_FORGETFUL: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_SYNCHRONOUS: Final = {"process": 1, "power": 2}  # NORMAL: no fsync at COMMIT; FULL: one

_log = logging.getLogger(__name__)


def check_wanted(durability: str) -> Wanted:
    """Refuse a durability this store does not have.

    Raises:
        InvalidInput: it is neither ``process`` nor ``power``.
    """
    if durability == "power" or durability == "process":  # noqa: PLR1714 - in this form the type checker understands it
        return durability
    raise InvalidInput(f"durability is {durability!r}. Use 'power' or 'process'.", field="durability")


def set_durability(connection: sqlite3.Connection, path: Path, durability: Wanted) -> Wanted:
    """Set what is wanted, read it back, and say what it is worth where the file lies.

    Raises:
        StoreUnavailable: SQLite does not do as it was told.
    """
    expected = {"synchronous": _SYNCHRONOUS[durability]}
    if sys.platform == "darwin":
        # There fsync leaves the data in the drive's cache; only F_FULLFSYNC empties it.
        expected |= {"fullfsync": int(durability == "power"), "checkpoint_fullfsync": int(durability == "power")}
    for pragma, value in expected.items():
        connection.execute(f"PRAGMA {pragma} = {value}")
        (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
        if found != value:
            raise StoreUnavailable(
                f"SQLite {sqlite3.sqlite_version} answers {pragma} = {found} where {value} was set: {path} would not "
                f"survive what it promises to ({durability}). Use another build of Python or SQLite.",
                code="store_not_durable",
                path=str(path),
            )
    if durability == "power" and (kind := forgetful_filesystem(path)) is not None:
        _log.warning(
            "%s lies on %s, which is empty after a power cut: its durability is 'process'. "
            "Put it on a disk, or open it with durability='process'.",
            path,
            kind,
        )
        return "process"
    return durability


def forgetful_filesystem(path: Path) -> str | None:
    """Return the kind of file system of ``path``, if that one is in memory; None also if it is unknown."""
    where = str(path)
    best, kind = "", ""
    for line in mounts().splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount = _unescaped(fields[4])
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        # `>=`: of two mounts on one place the later one is seen.
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split(" ")[0]
    return kind if kind in _FORGETFUL else None


def mounts() -> str:
    """Linux's list of mounts; empty elsewhere."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescaped(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
