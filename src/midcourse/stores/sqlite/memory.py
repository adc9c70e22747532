"""The store in the memory of one process: the same database without a file, a thread, a lock or an fsync."""

import asyncio
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from midcourse.core.ids import WorkerId
from midcourse.core.replies import Durability
from midcourse.stores import store_errors
from midcourse.stores.sqlite.errors import FAILURES, explained
from midcourse.stores.sqlite.statements import SCHEMA
from midcourse.stores.sqlite.store import DatabaseStore

T = TypeVar("T")

NAME: Final = "memory://"


class SharedMemory:
    """A database in memory, and the workers that live: what the store objects of one memory share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.alive: set[WorkerId] = set()
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
        )
        weakref.finalize(self, self.connection.close)
        for statement in SCHEMA:
            self.connection.execute(statement)

    def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``read`` finds."""
        with self.lock:
            return read(self.connection)

    def write(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``write`` in a transaction: all of it, or an error and nothing."""
        with self.lock:
            self.connection.execute("BEGIN")
            try:
                value = write(self.connection)
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
            return value


class Inline:
    """Does each job at once, in the thread of the caller."""

    def __init__(self, do: Callable[[Callable[[sqlite3.Connection], Any]], Any], *, later: bool) -> None:
        self._do = do
        self._later = later
        self._closed = False

    def submit(self, work: Callable[[sqlite3.Connection], T], /) -> "asyncio.Future[T]":
        """Do ``work``. ``later``: its future is settled by the loop, so that who waits for a write yields."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        value: Any = None
        failed: Exception | None = None
        try:
            if self._closed:
                raise store_errors.closed(NAME)
            value = self._do(work)
        except FAILURES as error:
            failed = explained(error, Path(":memory:"))
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            failed = error
        if self._later:
            loop.call_soon(_settle, future, value, failed)
        else:
            _settle(future, value, failed)
        return future

    async def close(self) -> None:
        """Refuse what comes now."""
        self._closed = True


def _settle(future: "asyncio.Future[Any]", value: Any, failed: Exception | None) -> None:
    if future.done():
        return
    if failed is None:
        future.set_result(value)
    else:
        future.set_exception(failed)


class MemoryStore(DatabaseStore):
    """A store in memory, for one process. ``peer()`` is another store object on the same memory."""

    def __init__(self, memory: SharedMemory | None = None) -> None:
        self.memory = memory or SharedMemory()
        self._alive: WorkerId | None = None
        super().__init__(Inline(self.memory.write, later=True), Inline(self.memory.read, later=False))

    @property
    def durability(self) -> Durability:
        """Nothing survives the process."""
        return "nothing"

    @property
    def name(self) -> str:
        return NAME

    def peer(self) -> "MemoryStore":
        """Another store object on the same memory, as another process would have on a file."""
        return MemoryStore(self.memory)

    def abandon(self, *, remove: bool = False) -> None:
        """End the worker's liveness and release no session, as the end of its process would. For tests."""
        del remove
        if self._alive is not None:
            self.memory.alive.discard(self._alive)
            self._alive = None

    def _come_alive(self, worker: WorkerId) -> float:
        if worker in self.memory.alive:
            raise store_errors.worker_exists(worker)
        self.memory.alive.add(worker)
        self._alive = worker
        return 0.0

    def _is_alive(self, worker: WorkerId) -> bool:
        return worker in self.memory.alive

    def _heartbeat(self, worker: WorkerId) -> float | None:
        del worker  # it lives as long as this process

    def _beat(self) -> None:
        pass

    def _version(self, connection: sqlite3.Connection) -> int:
        return connection.total_changes
