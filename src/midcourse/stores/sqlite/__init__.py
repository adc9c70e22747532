"""Sessions in a SQLite file: several programs on one machine, each driving sessions of its own."""

import sys

if sys.platform != "win32":  # it needs POSIX locks; the store in memory does not
    from midcourse.stores.sqlite.file import SqliteStore

    __all__ = ["SqliteStore"]
