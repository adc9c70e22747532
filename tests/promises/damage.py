"""Damages a closed store through its own tables, as a bad disk or a clumsy hand would."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

from tests.promises.harness import Place

Kind = Literal["flip", "drop", "swap", "truncate", "lengthen"]
KINDS: tuple[Kind, ...] = ("flip", "drop", "swap", "truncate", "lengthen")


def flipped(content: bytes, at: int = -3) -> bytes:
    """``content`` with one bit turned over."""
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def shortened(content: bytes) -> bytes:
    """``content`` without its last byte."""
    return content[:-1]


def emptied(_content: bytes) -> bytes:
    """Nothing."""
    return b""


def damage_journal(place: Place, session: str, kind: Kind, position: int) -> None:
    """Damage the journal of a session at a position (for ``truncate``: from there on)."""
    with place.tables() as connection:
        _damage(connection, session, kind, position)


def _damage(connection: sqlite3.Connection, session: str, kind: Kind, position: int) -> None:
    (key,) = connection.execute("SELECT key FROM sessions WHERE id = ?", (session,)).fetchone()
    place = key * 2**32 + position
    (content, digest) = connection.execute("SELECT record, digest FROM journal WHERE place = ?", (place,)).fetchone()
    write = "UPDATE journal SET record = ?, digest = ? WHERE place = ?"
    match kind:
        case "flip":
            connection.execute(write, (flipped(content), digest, place))
        case "lengthen":
            connection.execute(write, (content + b" ", digest, place))
        case "drop":
            connection.execute("DELETE FROM journal WHERE place = ?", (place,))
        case "swap":
            read = "SELECT record, digest FROM journal WHERE place = ?"
            following = connection.execute(read, (place + 1,)).fetchone()
            connection.execute(write, (*following, place))
            connection.execute(write, (content, digest, place + 1))
        case "truncate":
            connection.execute("DELETE FROM journal WHERE place >= ? AND place < ?", (place, (key + 1) * 2**32))


def damage_snapshots(place: Place, session: str, change: Callable[[bytes], bytes], *, newest: int = 2) -> int:
    """Change the newest snapshots of a session; how many there were."""
    with place.tables() as connection:
        (key,) = connection.execute("SELECT key FROM sessions WHERE id = ?", (session,)).fetchone()
        found = connection.execute(
            "SELECT place, content FROM snapshots WHERE place / 4294967296 = ? ORDER BY place DESC", (key,)
        ).fetchall()
        for where, content in found[:newest]:
            connection.execute("UPDATE snapshots SET content = ? WHERE place = ?", (change(content), where))
        return len(found)


def damage_blobs(place: Place, change: Callable[[bytes], bytes] | None) -> int:
    """Change (None: remove) every blob; how many there were."""
    with place.tables() as connection:
        blobs = connection.execute("SELECT digest, content FROM blobs").fetchall()
        for digest, content in blobs:
            if change is None:
                connection.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
            else:
                connection.execute("UPDATE blobs SET content = ? WHERE digest = ?", (change(content), digest))
        return len(blobs)


def damage_head(place: Place, session: str) -> None:
    """Turn one bit of a session's head over."""
    with place.tables() as connection:
        (head,) = connection.execute("SELECT head FROM sessions WHERE id = ?", (session,)).fetchone()
        connection.execute("UPDATE sessions SET head = ? WHERE id = ?", (flipped(head), session))


def damage_id(file: Path, session: str, byte: int) -> None:
    """Change the first letter of a session's id in its row of a closed file, and not in the index."""
    with closing(sqlite3.connect(file)) as connection:
        (agent,) = connection.execute("SELECT agent FROM sessions WHERE id = ?", (session,)).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    row = f"{session}{agent}".encode()
    assert content.count(row) == 1
    content[content.index(row)] = byte
    file.write_bytes(content)


def damage_command(place: Place, session: str, command: str) -> None:
    """Turn one bit of a command in the inbox over."""
    with place.tables() as connection:
        (content,) = connection.execute("SELECT content FROM inbox WHERE id = ?", (command,)).fetchone()
        connection.execute("UPDATE inbox SET content = ? WHERE id = ?", (flipped(content), command))
