"""A store whose commits a test can hold back, make fail and count."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from midcourse.core.audit import AuditEntry, AuditRow
from midcourse.core.codec import Blob
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.errors import StoreError, StoreFull
from midcourse.ports.store import Deciding, Head, InboxRow, Owned, Store

T = TypeVar("T")


class Faulty:
    """Passes every call on, except those writes a test holds back or lets fail. Writes keep their order.

    ``holds`` and ``fails`` are looked at for each write: given its name, say whether.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.holds: Callable[[str], bool] = lambda _: False
        self.fails: Callable[[str], bool] = lambda _: False
        self.error: Callable[[], StoreError] = lambda: StoreFull("No space is left; free some and try again.")
        self.held: list[str] = []
        self.bytes_written = 0
        self.snapshots_saved = 0
        self.reads: list[int] = []
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []

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
            loop, write = self._waiting[0]

        def write_and_go_on() -> None:
            write()
            with self._lock:
                self._waiting.pop(0)
            self._write_next()

        loop.call_soon_threadsafe(write_and_go_on)

    def work_again(self) -> None:
        """Let no write fail any more."""
        self.fails = lambda _: False

    def _write(self, name: str, write: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        if self.fails(name):
            failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            failed.set_exception(self.error())
            return failed
        with self._lock:
            if not self._waiting and not self.holds(name):
                return write()
            self.held.append(name)
            loop = asyncio.get_running_loop()
            later: asyncio.Future[T] = loop.create_future()
            self._waiting.append((loop, lambda: _pipe(asyncio.ensure_future(write()), later)))
            return later

    # ---- the port

    @property
    def durability(self) -> Durability:
        """Of the store inside."""
        return self.inner.durability

    @property
    def name(self) -> str:
        """Of the store inside."""
        return self.inner.name

    async def close(self) -> None:
        """Write what was held back, and close."""
        self.let_through()
        await self.inner.close()

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """See the port."""
        await self.inner.enlist(worker, address)

    def create(
        self, head: Head, rows: Sequence[Row], *, worker: WorkerId | None, blobs: Sequence[Blob] = ()
    ) -> Awaitable[Epoch]:
        """See the port."""
        self._count(rows, blobs)
        return self._write("create", lambda: self.inner.create(head, rows, worker=worker, blobs=blobs))

    def append(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        epoch: Epoch,
        deciding: Deciding | None = None,
        blobs: Sequence[Blob] = (),
        release: bool = False,
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """See the port. To ``holds`` and ``fails`` it is an ``append``, a ``decide`` or a ``release``."""
        self._count(rows, blobs)
        name = "decide" if deciding else "release" if release else "append"
        return self._write(
            name,
            lambda: self.inner.append(
                head, rows, epoch=epoch, deciding=deciding, blobs=blobs, release=release, audit=audit
            ),
        )

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """See the port."""
        return self._write("put", lambda: self.inner.put(session_id, command_id, content, at))

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """See the port."""
        return self._write("take", lambda: self.inner.take(session_id, worker))

    def release(self, session_id: SessionId, epoch: Epoch) -> Awaitable[None]:
        """See the port."""
        return self._write("release", lambda: self.inner.release(session_id, epoch))

    def save_snapshot(
        self,
        session_id: SessionId,
        position: Position,
        content: bytes,
        *,
        epoch: Epoch,
        blobs: Sequence[Blob] = (),
    ) -> Awaitable[None]:
        """See the port."""
        self.snapshots_saved += 1
        self._count((), blobs)
        self.bytes_written += len(content)
        return self._write(
            "snapshot",
            lambda: self.inner.save_snapshot(session_id, position, content, epoch=epoch, blobs=blobs),
        )

    def erase(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        epoch: Epoch,
        outcome: bytes,
        shelves: Mapping[str, Mapping[str, bytes | None]],
        forgotten: Sequence[AuditRow] = (),
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """See the port."""
        self.bytes_written += sum(len(row[1]) for row in rows)
        return self._write(
            "erase",
            lambda: self.inner.erase(
                head, rows, epoch=epoch, outcome=outcome, shelves=shelves, forgotten=forgotten, audit=audit
            ),
        )

    def shelve(
        self,
        shelf: str,
        items: Mapping[str, bytes | None],
        *,
        owner: tuple[SessionId, Epoch] | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """See the port."""
        self.bytes_written += sum(len(value) for value in items.values() if value is not None)
        return self._write("shelve", lambda: self.inner.shelve(shelf, items, owner=owner, audit=audit))

    async def head(self, session_id: SessionId) -> Owned:
        """See the port."""
        return await self.inner.head(session_id)

    async def heads(
        self,
        *,
        statuses: Sequence[str] = (),
        agent: str | None = None,
        search: str = "",
        tenant: str | None = None,
        asking: bool = False,
        task_class: str | None = None,
        label: str | None = None,
        limit: int = 100,
        before: SessionId | None = None,
    ) -> Sequence[Head]:
        """See the port."""
        return await self.inner.heads(
            statuses=statuses,
            agent=agent,
            search=search,
            tenant=tenant,
            asking=asking,
            task_class=task_class,
            label=label,
            limit=limit,
            before=before,
        )

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """See the port."""
        self.reads.append(after)
        return await self.inner.read(session_id, after, limit)

    async def digest_at(self, session_id: SessionId, position: Position) -> bytes | None:
        """See the port."""
        return await self.inner.digest_at(session_id, position)

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """See the port."""
        return await self.inner.snapshots(session_id)

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """See the port."""
        return await self.inner.blobs(digests)

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """See the port."""
        return await self.inner.undecided(session_id)

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """See the port."""
        return await self.inner.row(session_id, command_id)

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """See the port."""
        return await self.inner.shelved(shelf, first=first, last=last, newest=newest, limit=limit)

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """See the port."""
        return await self.inner.shelf_keys(shelf, first=first, last=last)

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """See the port."""
        return await self.inner.shelves(prefix)

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """See the port."""
        return await self.inner.audit(after, limit)

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """See the port."""
        return self._write("trim_audit", lambda: self.inner.trim_audit(before, telling, limit=limit))

    async def unattended(self, statuses: Sequence[str], now: float, limit: int = 100) -> Sequence[Owned]:
        """See the port."""
        return await self.inner.unattended(statuses, now, limit)

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """See the port."""
        return await self.inner.pending(worker)

    async def changed(self) -> bool:
        """See the port."""
        return await self.inner.changed()

    def _count(self, rows: Sequence[Row], blobs: Sequence[Blob]) -> None:
        self.bytes_written += sum(len(row[1]) + len(row[2]) for row in rows) + sum(len(one.content) for one in blobs)


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
