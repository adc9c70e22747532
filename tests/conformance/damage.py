"""Changes what a SQLite database keeps, in a file or in memory, behind the back of its store."""

import sqlite3

from midcourse.core.ids import SessionId
from midcourse.testing.store_conformance import Kept

NEWEST = {
    "head": "UPDATE sessions SET head = :spoiled WHERE id = :id",
    "snapshot": """UPDATE snapshots SET content = :spoiled
                   WHERE place = (SELECT max(place) FROM snapshots
                                  WHERE place / 4294967296 = (SELECT key FROM sessions WHERE id = :id))""",
    "command": """UPDATE inbox SET content = :spoiled
                  WHERE place = (SELECT max(place) FROM inbox
                                 WHERE session = (SELECT key FROM sessions WHERE id = :id))""",
    "audit": "UPDATE audit SET entry = :spoiled WHERE seq = (SELECT max(seq) FROM audit)",
    "audit_end": "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
    "shelf": "UPDATE shelves SET value = :spoiled WHERE (shelf, key) = (SELECT max(shelf), max(key) FROM shelves)",
}


def spoil(connection: sqlite3.Connection, what: Kept, session_id: SessionId) -> None:
    """Change a byte of it."""
    assert connection.execute(NEWEST[what], {"spoiled": b"?", "id": session_id}).rowcount == 1
