"""Sessions in a SQLite file: several programs on one machine, each driving sessions of its own."""

from midcourse.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
