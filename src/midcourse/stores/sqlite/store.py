"""The calls of the store port on a SQLite database: each becomes one job for its writer or for its reader."""

import asyncio
import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from midcourse.core.audit import AuditEntry, AuditRow, encode_entry
from midcourse.core.codec import Blob
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.errors import MidcourseError, StoreError
from midcourse.ports.store import NEWEST, Append, Creation, Erasure, Head, HeadQuery, InboxRow, Owned
from midcourse.stores import store_errors
from midcourse.stores.sqlite import reads, writes
from midcourse.stores.sqlite.rows import encode, owner_seal

T = TypeVar("T")


class Jobs(Protocol):
    """Does jobs on a connection, in the order in which they are submitted."""

    def submit(self, work: Callable[[sqlite3.Connection], T], /) -> "asyncio.Future[T]":
        """Do ``work``, and return a future of its result for the calling loop."""
        ...

    async def close(self) -> None:
        """Finish what was submitted, and refuse what comes now."""
        ...


class DatabaseStore(ABC):
    """A store in a SQLite database, in a file or in memory."""

    def __init__(self, writer: Jobs, reader: Jobs) -> None:
        self._worker: WorkerId | None = None
        self._enlisted = False
        self._address = ""
        self._seen = -1
        self._writes = writer
        self._reads = reader

    @property
    @abstractmethod
    def durability(self) -> Durability:
        """The events that an acknowledged write survives."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's URL."""

    @abstractmethod
    def abandon(self, *, remove: bool = False) -> None:
        """End the worker's liveness and release no session, as the end of its process would. Tests call it too."""

    @abstractmethod
    def _come_alive(self, worker: WorkerId) -> float:
        """Make the worker live, and return since when."""

    @abstractmethod
    def _is_alive(self, worker: WorkerId) -> bool:
        """Return whether the process of a worker lives."""

    @abstractmethod
    def _heartbeat(self, worker: WorkerId) -> float | None:
        """Return when a worker that lives sent its last heartbeat; None if that is not known."""

    @abstractmethod
    def _beat(self) -> None:
        """Send the heartbeat of this object's worker, if it has one."""

    @abstractmethod
    def _version(self, connection: sqlite3.Connection) -> int:
        """Return a number that changes with every write of any store object."""

    async def close(self) -> None:
        """Finish what was enqueued, give up the liveness of this store's worker, and close."""
        if self._worker is not None:
            # A full disk, a second close: what counts is the worker's lock, and the next owner removes the row.
            with contextlib.suppress(StoreError):
                await self._writes.submit(partial(writes.remove_worker, worker=self._worker))
        await self._writes.close()
        self.abandon(remove=True)
        await self._reads.close()

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """Make this store object the worker ``worker``; see the port."""
        if self._worker is not None:
            await self._refuse(store_errors.already_enlisted(self._worker))
        self._worker = worker  # before the first await: of two calls at once, one is refused
        try:
            # Alive before it is known: a process that sees the worker must find it alive.
            started_at = await self._reads.submit(lambda _: self._come_alive(worker))
            await self._writes.submit(partial(writes.add_worker, worker=worker, address=address, started_at=started_at))
        except MidcourseError:
            self.abandon(remove=True)
            self._worker = None
            raise
        self._address = address
        self._enlisted = True

    def create(self, creation: Creation) -> Awaitable[Epoch]:
        """Store a new session; see the port."""
        if creation.worker is not None and not self._is_mine(creation.worker):
            return self._refuse(store_errors.not_enlisted(creation.worker))
        seal = owner_seal(creation.head.id, writes.FIRST_EPOCH, creation.worker)
        return self._writes.submit(partial(writes.create, creation=creation, encoded=encode(creation, seal)))

    def append(self, append: Append) -> Awaitable[None]:
        """Append all of the rows or none; see the port."""
        encoded = encode(append, self._seal(append.head.id, append.epoch))
        return self._writes.submit(partial(writes.append, append=append, encoded=encoded, store=self.name))

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """Put a command into the inbox, or return the row that holds this id; see the port."""
        return self._writes.submit(
            partial(writes.put, session_id=session_id, command_id=command_id, content=content, at=at, store=self.name)
        )

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """Make ``worker`` the owner under the next epoch; see the port."""
        if not self._is_mine(worker):
            return self._refuse(store_errors.not_enlisted(worker))
        return self._writes.submit(
            partial(
                writes.take,
                session_id=session_id,
                worker=worker,
                address=self._address,
                is_alive=self._is_alive,
                store=self.name,
            )
        )

    def save_snapshot(
        self,
        session_id: SessionId,
        position: Position,
        content: bytes,
        *,
        epoch: Epoch,
        blobs: Sequence[Blob] = (),
    ) -> Awaitable[None]:
        """Keep a snapshot with its checksum; see the port."""
        return self._writes.submit(
            partial(
                writes.save_snapshot,
                session_id=session_id,
                position=position,
                content=content,
                blobs=blobs,
                epoch=epoch,
                store=self.name,
            )
        )

    def erase(self, erasure: Erasure) -> Awaitable[None]:
        """Replace the whole journal, and take away all other texts; see the port."""
        encoded = encode(erasure, self._seal(erasure.head.id, erasure.epoch))
        return self._writes.submit(partial(writes.erase, erasure=erasure, encoded=encoded, store=self.name))

    def shelve(
        self,
        shelf: str,
        items: Mapping[str, bytes | None],
        *,
        owner: tuple[SessionId, Epoch] | None = None,
        expecting: Mapping[str, bytes | None] | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Awaitable[None]:
        """Put all of ``items`` on a shelf, or none; see the port."""
        fence = None if owner is None else (*owner, self._seal(*owner))
        entries = tuple(map(encode_entry, audit))
        return self._writes.submit(
            partial(
                writes.shelve,
                shelf=shelf,
                items=dict(items),
                owner=fence,
                expecting=dict(expecting or {}),
                audit=entries,
                store=self.name,
            )
        )

    async def head(self, session_id: SessionId) -> Owned:
        return await self._reads.submit(
            partial(
                reads.head,
                session_id=session_id,
                is_alive=self._is_alive,
                heartbeat=self._heartbeat,
                store=self.name,
            )
        )

    async def heads(self, query: HeadQuery = NEWEST) -> Sequence[Head]:
        """Return the heads that a query finds; see the port."""
        return await self._reads.submit(partial(reads.heads, query=query))

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        return await self._reads.submit(partial(reads.below, session_id=session_id, statuses=statuses))

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """Journal rows after a position; see the port."""
        return await self._reads.submit(partial(reads.records, session_id=session_id, after=after, limit=limit))

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        return await self._reads.submit(partial(reads.snapshots, session_id=session_id))

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        return await self._reads.submit(partial(reads.blobs, digests=digests))

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        return await self._reads.submit(partial(reads.undecided, session_id=session_id))

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        return await self._reads.submit(partial(reads.command, session_id=session_id, command_id=command_id))

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        return await self._reads.submit(
            partial(reads.shelved, shelf=shelf, first=first, last=last, newest=newest, limit=limit)
        )

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        return await self._reads.submit(partial(reads.shelf_keys, shelf=shelf, first=first, last=last))

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        return await self._reads.submit(partial(reads.shelves, prefix=prefix))

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """Rows of the audit log; see the port."""
        return await self._reads.submit(partial(reads.audit, after=after, limit=limit))

    async def audit_end(self) -> int:
        return await self._reads.submit(reads.audit_end)

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """Take the oldest rows of the audit log away; see the port."""
        return self._writes.submit(partial(writes.trim_audit, before=before, telling=telling, limit=limit))

    async def unattended(
        self, statuses: Sequence[str], now: float, limit: int = 100, *, silent_before: float | None = None
    ) -> Sequence[Owned]:
        """Sessions without a live owner that need one; see the port."""
        return await self._reads.submit(
            partial(
                reads.unattended,
                statuses=tuple(statuses),
                now=now,
                limit=limit,
                is_alive=self._is_alive,
                heartbeat=self._heartbeat,
                silent_before=silent_before,
            )
        )

    async def unanswered(self, before: float, limit: int = 1000) -> Sequence[tuple[SessionId, InboxRow]]:
        """Undecided commands of all sessions that were put before a time; see the port."""
        return await self._reads.submit(partial(reads.unanswered, before=before, limit=limit))

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """Sessions of ``worker`` that have an undecided command."""
        return await self._reads.submit(partial(reads.pending, worker=worker))

    async def changed(self) -> bool:
        """Return True if anything may have been written since the last call. This store's own writes count too."""
        version = await self._reads.submit(self._version)
        self._beat()
        before, self._seen = self._seen, version
        return version != before

    def _seal(self, session_id: SessionId, epoch: Epoch) -> bytes:
        """Return the owner's seal that must be found if this worker holds the epoch indeed."""
        return owner_seal(session_id, epoch, self._worker or "")

    def _is_mine(self, worker: WorkerId) -> bool:
        return self._enlisted and worker == self._worker

    def _refuse(self, error: Exception) -> "asyncio.Future[Any]":
        def refuse(_: sqlite3.Connection) -> None:
            raise error

        return self._writes.submit(refuse)
