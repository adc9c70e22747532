"""Stores whose commits a test can hold back, make fail and count, and whose answers it can hold back."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from midcourse.core.codec import Blob
from midcourse.core.fold import Row
from midcourse.core.ids import Epoch, Position, SessionId
from midcourse.errors import MidcourseError, StoreFull
from midcourse.ports.store import Append, Creation, Erasure, Store
from midcourse.testing.wrapped_store import WrappedStore

T = TypeVar("T")


class Faulty(WrappedStore):
    """Passes every call on, except those writes a test holds back or lets fail. Writes keep their order.

    ``holds`` and ``fails`` are looked at for each write: given its name, say whether.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.holds: Callable[[str], bool] = lambda _: False
        self.fails: Callable[[str], bool] = lambda _: False
        self.error: Callable[[], MidcourseError] = lambda: StoreFull("No space is left; free some and try again.")
        self.held: list[str] = []
        self.bytes_written = 0
        self.snapshots_saved = 0
        self.reads: list[int] = []
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, Callable[[], None], asyncio.Future[Any]]] = []

    def let_through(self) -> None:
        """Hold nothing back any more; what waited is written in its order."""
        with self._lock:
            self.holds = lambda _: False
            self.held.clear()
        self._write_next()

    def _write_next(self) -> None:
        """Have the first that waits written, on its own loop, and the others behind it, one by one."""
        with self._lock:
            if not self._waiting:
                return
            loop, write, _ = self._waiting[0]

        def write_and_go_on() -> None:
            write()
            with self._lock:
                self._waiting.pop(0)
            self._write_next()

        loop.call_soon_threadsafe(write_and_go_on)

    def fail_what_waits(self) -> None:
        """Hold nothing back any more; what waited fails, late."""
        with self._lock:
            self.holds = lambda _: False
            self.held.clear()
            waiting, self._waiting = self._waiting, []
        for loop, _, later in waiting:
            loop.call_soon_threadsafe(_fail, later, self.error())

    def work_again(self) -> None:
        """Let no write fail any more."""
        self.fails = lambda _: False

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        if self.fails(call):
            failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            failed.set_exception(self.error())
            return failed
        with self._lock:
            if not self._waiting and not self.holds(call):
                return make()
            self.held.append(call)
            loop = asyncio.get_running_loop()
            later: asyncio.Future[T] = loop.create_future()
            self._waiting.append((loop, lambda: _pipe(asyncio.ensure_future(make()), later), later))
            return later

    # ---- what is counted, or has another name

    async def close(self) -> None:
        """Write what was held back, and close."""
        self.let_through()
        await super().close()

    def create(self, creation: Creation) -> Awaitable[Epoch]:
        """See the port."""
        self._count(creation.rows, creation.blobs)
        return super().create(creation)

    def append(self, append: Append) -> Awaitable[None]:
        """See the port. To ``holds`` and ``fails`` it is an ``append``, a ``decide`` or a ``release``."""
        self._count(append.rows, append.blobs)
        name = "decide" if append.deciding else "release" if append.release else "append"
        return self._write(name, lambda: self.inner.append(append))

    def save_snapshot(
        self, session_id: SessionId, position: Position, content: bytes, *, epoch: Epoch, blobs: Sequence[Blob] = ()
    ) -> Awaitable[None]:
        """See the port. To ``holds`` and ``fails`` it is a ``snapshot``."""
        self.snapshots_saved += 1
        self._count((), blobs)
        self.bytes_written += len(content)
        save = self.inner.save_snapshot
        return self._write("snapshot", lambda: save(session_id, position, content, epoch=epoch, blobs=blobs))

    def erase(self, erasure: Erasure) -> Awaitable[None]:
        """See the port."""
        self.bytes_written += sum(len(row[1]) for row in erasure.rows)
        return super().erase(erasure)

    def shelve(self, shelf: str, items: Mapping[str, bytes | None], **rest: Any) -> Awaitable[None]:
        """See the port."""
        self.bytes_written += sum(len(value) for value in items.values() if value is not None)
        return super().shelve(shelf, items, **rest)

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """See the port."""
        self.reads.append(after)
        return await super().read(session_id, after, limit)

    def _count(self, rows: Sequence[Row], blobs: Sequence[Blob]) -> None:
        self.bytes_written += sum(len(row[1]) + len(row[2]) for row in rows) + sum(len(one.content) for one in blobs)


class Hanging(WrappedStore):
    """A store that does not answer a call while ``hangs``, given the call's name, says so; what waits is made then."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.hangs: Callable[[str], bool] = lambda _: False

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return self._call(call, make) if self.hangs(call) else make()

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        while self.hangs(call):
            await asyncio.sleep(0.002)
        return await make()


def _pipe(done: "asyncio.Future[Any]", later: "asyncio.Future[Any]") -> None:
    def hand_over(finished: "asyncio.Future[Any]") -> None:
        error = finished.exception()
        if later.done():
            return
        if error is None:
            later.set_result(finished.result())
        else:
            later.set_exception(error)

    done.add_done_callback(hand_over)


def _fail(later: "asyncio.Future[Any]", error: MidcourseError) -> None:
    if not later.done():
        later.set_exception(error)
