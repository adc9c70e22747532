"""A worker lives as long as its process holds the lock on the worker's file: nothing to renew, and no clock.

The lock is a POSIX record lock. It ends with the process however the process ends, is kept while the process is
stopped, and is not inherited by forked children. Two of its rules shape this module: it does not conflict within one
process, and closing ANY descriptor of a file drops the process's lock on it. So what this process holds is remembered
in ``_held``, and a file in there is never opened a second time.
"""

import contextlib
import fcntl
import os
import threading
from pathlib import Path
from urllib.parse import quote

from midcourse.core.ids import WorkerId
from midcourse.stores import store_errors
from midcourse.stores.sqlite.errors import file_failed

_SUFFIX = ".lock"

_held: set[str] = set()
_guard = threading.Lock()


def _in_child() -> None:
    """Reset the locks in a forked child, which holds none; a thread that is gone may have held the guard."""
    global _guard  # noqa: PLW0603 - a lock of the parent's threads is useless here
    _guard = threading.Lock()
    _held.clear()


os.register_at_fork(after_in_child=_in_child)


class WorkerLock:
    """The lock that makes a worker of this process alive."""

    def __init__(self, path: str, descriptor: int, started_at: float) -> None:
        self._path = path
        self._descriptor = descriptor
        self.started_at = started_at

    @classmethod
    def acquire(cls, folder: Path, worker: WorkerId) -> "WorkerLock":
        """Create the worker's file and lock it.

        Raises:
            StoreError: code ``worker_exists`` if there is such a file.
        """
        path = _file_of(folder, worker)
        with _guard:
            while True:
                try:
                    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                except FileExistsError:
                    raise store_errors.worker_exists(worker) from None
                except OSError as error:
                    raise file_failed(error, path) from error
                fcntl.lockf(descriptor, fcntl.LOCK_EX)  # waits at most for a glance of another process
                status = os.fstat(descriptor)
                if status.st_nlink:
                    break
                os.close(descriptor)  # `remove_orphans` of another process saw it before it was locked
            _held.add(path)
            return cls(path, descriptor, status.st_mtime)

    def beat(self) -> None:
        """Mark the file with the present time: a heartbeat, without a write to the store."""
        with _guard, contextlib.suppress(OSError):
            if self._path in _held:
                os.utime(self._descriptor)

    def drop(self, *, remove: bool) -> None:
        """End the worker's life. ``remove`` its file, or leave it as the end of the process would."""
        with _guard:
            if self._path not in _held:
                return
            if remove:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)
            _held.discard(self._path)
            os.close(self._descriptor)


def is_alive(folder: Path, worker: WorkerId) -> bool:
    """Return True if the worker's process lives. The file of a dead one is removed."""
    return _look(_file_of(folder, worker))


def heartbeat(folder: Path, worker: WorkerId) -> float | None:
    """Return the time of the worker's last heartbeat; None if it has no file."""
    try:
        return os.stat(_file_of(folder, worker)).st_mtime
    except OSError:
        return None


def remove_orphans(folder: Path) -> None:
    """Remove the files of workers that died before anybody knew them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(_SUFFIX):
                _look(os.path.join(folder, name))


def _file_of(folder: Path, worker: WorkerId) -> str:
    return os.path.join(folder, quote(worker, safe="") + _SUFFIX)


def _look(path: str) -> bool:
    with _guard:
        if path in _held:
            return True
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # not readable for us: unknown is not dead
        try:
            # Shared: two processes that check at the same time must not take each other for the worker.
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return False
        finally:
            os.close(descriptor)
