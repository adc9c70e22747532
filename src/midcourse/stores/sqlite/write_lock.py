"""Whose turn it is to write: short waits for another process's transaction, and room for those that wait.

SQLite's own busy handler sleeps longer each time, so that a program that appends at full speed shuts all others out.
Here a waiting writer tries again within a millisecond or two, and says that it waits by a shared lock on a file; a
writer that sees it leaves a gap before its next transaction.
"""

import fcntl
import os
import random  # noqa: TID251 - jitter between processes; nothing that is replayed depends on it
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from midcourse.errors import StoreUnavailable
from midcourse.stores.sqlite.errors import is_busy
from midcourse.stores.sqlite.statements import READ

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds after which a writer that never got its turn gives up."""

_SHORTEST, _LONGEST = 0.0002, 0.002
_STOPPED = 1.0
"""The most seconds that one pause counts for, however late it ends."""
_GAP_STEP, _GAP_STEPS = 0.00025, 12
_DEAF_FIRST, _DEAF_MOST = 8, 256

_jitter = random.Random()


def patiently(attempt: Callable[[], T], path: Path, patience: float = PATIENCE) -> T:
    """Return the result of ``attempt``, tried again while another program holds the file.

    Raises:
        StoreUnavailable: it was held all the time.
    """
    waited = 0.0
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise
            if waited >= patience:
                raise _never_free(path, patience, "") from error
        waited += _wait(waited)


def _wait(waited: float) -> float:
    """Return the seconds that passed; no more than a few, should this process itself have been stopped meanwhile."""
    began = time.monotonic()  # noqa: TID251 - time that this thread really waits
    pause = _jitter.uniform(_SHORTEST, min(_LONGEST, _SHORTEST * 2 + waited / 4))
    time.sleep(pause)  # noqa: TID251 - waits for another process, which no clock of ours moves
    return min(time.monotonic() - began, _STOPPED)  # noqa: TID251


def _never_free(path: Path, patience: float, workers: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Another program has held {path} for {patience:g} s{workers}. If it hangs or was stopped, continue it or "
        "end it; then try again. Nothing was written.",
        code="store_busy",
        path=str(path),
    )


class WriteLock:
    """Begins the write transactions of one store object."""

    def __init__(self, path: Path, file: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        # flock and not a record lock: it also tells store objects of one process apart. It carries a hint, never truth.
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._deaf = 0
        self._deaf_next = _DEAF_FIRST

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a write transaction.

        Raises:
            StoreUnavailable: another program held the file all the time.
        """
        self._leave_room()
        waited, waiting = 0.0, False
        try:
            while True:
                try:
                    # IMMEDIATE: a deferred transaction would take the write lock only after the epoch check.
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.Error as error:
                    if not is_busy(error):
                        raise
                    if waited >= self._patience:
                        raise _never_free(self._path, self._patience, _workers(connection)) from error
                else:
                    return
                waiting = waiting or self._lock(fcntl.LOCK_SH)
                waited += _wait(waited)
        finally:
            if waiting:
                self._lock(fcntl.LOCK_UN)

    def _leave_room(self) -> None:
        if self._deaf:
            self._deaf -= 1
            return
        for _ in range(_GAP_STEPS):
            if self._lock(fcntl.LOCK_EX):
                self._lock(fcntl.LOCK_UN)
                self._deaf_next = _DEAF_FIRST
                return
            time.sleep(_GAP_STEP)  # noqa: TID251 - the gap is for another process
        # The gap was not used up: many wait, or one that was stopped while it waited. Do not stop for them every time.
        self._deaf, self._deaf_next = self._deaf_next, min(_DEAF_MOST, self._deaf_next * 2)

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _workers(connection: sqlite3.Connection) -> str:
    try:
        processes = [str(pid) for _, pid in connection.execute(READ["worker_processes"])]
    except sqlite3.Error:
        return ""
    return f" (workers of this store: process {', '.join(processes)})" if processes else ""
