"""A store around another: it passes every call on, through two methods that a test's own store writes anew."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from midcourse.core.audit import AuditEntry, AuditRow
from midcourse.core.codec import Blob
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.ports.store import NEWEST, Append, Creation, Erasure, Head, HeadQuery, InboxRow, Owned, Store

T = TypeVar("T")


class WrappedStore:
    """Does what ``inner`` does. ``_write`` makes each write, ``_call`` everything else, given the call's name."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return make()

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        return await make()

    @property
    def durability(self) -> Durability:
        return self.inner.durability

    @property
    def name(self) -> str:
        return self.inner.name

    # ---- writes: they take their place when they are called

    def create(self, creation: Creation) -> Awaitable[Epoch]:
        """See the port."""
        return self._write("create", lambda: self.inner.create(creation))

    def append(self, append: Append) -> Awaitable[None]:
        """See the port."""
        return self._write("append", lambda: self.inner.append(append))

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """See the port."""
        return self._write("put", lambda: self.inner.put(session_id, command_id, content, at))

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """See the port."""
        return self._write("take", lambda: self.inner.take(session_id, worker))

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
        return self._write(
            "save_snapshot",
            lambda: self.inner.save_snapshot(session_id, position, content, epoch=epoch, blobs=blobs),
        )

    def erase(self, erasure: Erasure) -> Awaitable[None]:
        """See the port."""
        return self._write("erase", lambda: self.inner.erase(erasure))

    def shelve(
        self,
        shelf: str,
        items: Mapping[str, bytes | None],
        *,
        owner: tuple[SessionId, Epoch] | None = None,
        expecting: Mapping[str, bytes | None] | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """See the port."""
        return self._write(
            "shelve", lambda: self.inner.shelve(shelf, items, owner=owner, expecting=expecting, audit=audit)
        )

    # ---- the worker's life, and reads

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """See the port."""
        await self._call("enlist", lambda: self.inner.enlist(worker, address))

    async def close(self) -> None:
        """See the port."""
        await self._call("close", self.inner.close)

    async def head(self, session_id: SessionId) -> Owned:
        """See the port."""
        return await self._call("head", lambda: self.inner.head(session_id))

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        """See the port."""
        return await self._call("below", lambda: self.inner.below(session_id, statuses))

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """See the port."""
        return await self._call("read", lambda: self.inner.read(session_id, after, limit))

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """See the port."""
        return await self._call("snapshots", lambda: self.inner.snapshots(session_id))

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """See the port."""
        return await self._call("blobs", lambda: self.inner.blobs(digests))

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """See the port."""
        return await self._call("undecided", lambda: self.inner.undecided(session_id))

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """See the port."""
        return await self._call("row", lambda: self.inner.row(session_id, command_id))

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """See the port."""
        return await self._call(
            "shelved", lambda: self.inner.shelved(shelf, first=first, last=last, newest=newest, limit=limit)
        )

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """See the port."""
        return await self._call("shelf_keys", lambda: self.inner.shelf_keys(shelf, first=first, last=last))

    # ---- lists and polls

    async def heads(self, query: HeadQuery = NEWEST) -> Sequence[Head]:
        """See the port."""
        return await self._call("heads", lambda: self.inner.heads(query))

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """See the port."""
        return await self._call("shelves", lambda: self.inner.shelves(prefix))

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """See the port."""
        return await self._call("audit", lambda: self.inner.audit(after, limit))

    async def audit_end(self) -> int:
        """See the port."""
        return await self._call("audit_end", self.inner.audit_end)

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """See the port."""
        return self._write("trim_audit", lambda: self.inner.trim_audit(before, telling, limit=limit))

    async def unattended(
        self, statuses: Sequence[str], now: float, limit: int = 100, *, silent_before: float | None = None
    ) -> Sequence[Owned]:
        """See the port."""
        return await self._call(
            "unattended", lambda: self.inner.unattended(statuses, now, limit, silent_before=silent_before)
        )

    async def unanswered(self, before: float, limit: int = 1000) -> Sequence[tuple[SessionId, InboxRow]]:
        """See the port."""
        return await self._call("unanswered", lambda: self.inner.unanswered(before, limit))

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """See the port."""
        return await self._call("pending", lambda: self.inner.pending(worker))

    async def changed(self) -> bool:
        """See the port."""
        return await self._call("changed", self.inner.changed)
