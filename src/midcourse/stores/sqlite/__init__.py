"""Sessions in SQLite: in a file that several programs of one machine share, or in the memory of one."""

import sys

if sys.platform != "win32":  # it needs POSIX locks; the store in memory does not
    from midcourse.stores.sqlite.file import SqliteStore

    __all__ = ["SqliteStore"]
