"""The SQLite store: puts each call into the lane it belongs to, and holds the worker's life."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

from midcourse.core.audit import AuditEntry, AuditRow, encode_entry
from midcourse.core.codec import Blob
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.errors import MidcourseError, StoreError
from midcourse.ports.store import Deciding, Head, InboxRow, Owned
from midcourse.stores import refusals
from midcourse.stores.sqlite import locks, reads, writes
from midcourse.stores.sqlite.durability import check_wanted
from midcourse.stores.sqlite.opening import Opened, open_store, workers_folder
from midcourse.stores.sqlite.reader import Reader
from midcourse.stores.sqlite.rows import encode_head, owner_seal
from midcourse.stores.sqlite.turn import PATIENCE
from midcourse.stores.sqlite.writer import Writer


class SqliteStore:
    """A store in a SQLite file, for any number of processes of one machine. Made by ``open``.

    It may not be used in a forked child: open it again there.
    """

    def __init__(self, opened: Opened) -> None:
        self._name = f"sqlite:///{opened.path}"
        self._folder = workers_folder(opened.path)
        self._durability: Durability = opened.durability
        self._worker: WorkerId | None = None
        self._enlisted = False
        self._address = ""
        self._lock: locks.WorkerLock | None = None
        self._seen = -1
        self.writer = Writer(opened.writer, opened.turn, opened.path, self._name)
        self._reader = Reader(opened.reader, opened.path, self._name)
        self.writer.start()
        self._reader.start()

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: str = "power",
        _pragmas: Mapping[str, int] | None = None,
        _patience: float = PATIENCE,
    ) -> "SqliteStore":
        """Open the store at ``path``, and make it if there is none.

        ``power``: what is acknowledged survives a power cut. ``process``: it survives the process being killed.

        Raises:
            StoreUnavailable: it cannot be opened; the code and the sentence say why.
            Damaged: it is a store that cannot be read.
        """
        wanted = check_wanted(durability)
        opened = await asyncio.to_thread(open_store, path, wanted, pragmas=_pragmas or {}, patience=_patience)
        return cls(opened)

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives, as verified when the store was opened."""
        return self._durability

    @property
    def name(self) -> str:
        """The store's URL."""
        return self._name

    async def close(self) -> None:
        """Finish what was enqueued, give up the liveness of this store's worker, and close."""
        if self._worker is not None:
            # A full disk, a second close: what counts is the lock, and the next owner removes the row.
            with contextlib.suppress(StoreError):
                await self.writer.submit(partial(writes.remove_worker, worker=self._worker))
        await self.writer.close()
        self.abandon(remove=True)
        await self._reader.close()

    def abandon(self, *, remove: bool = False) -> None:
        """End the worker's liveness and let no session go, as the end of its process would. Tests call it too."""
        if self._lock is not None:
            self._lock.drop(remove=remove)

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """Make this store object the worker ``worker``; see the port."""
        if self._worker is not None:
            await self.writer.refuse(refusals.already_enlisted(self._worker))
        self._worker = worker  # before the first await: of two calls at once, one is refused
        try:
            # Locked before it is known: whoever learns of the worker must find it alive.
            started_at = await self._reader.submit(lambda _: self._come_alive(worker))
            await self.writer.submit(partial(writes.add_worker, worker=worker, address=address, started_at=started_at))
        except MidcourseError:
            self.abandon(remove=True)
            self._worker = self._lock = None
            raise
        self._address = address
        self._enlisted = True

    def _come_alive(self, worker: WorkerId) -> float:
        locks.remove_orphans(self._folder)
        # Kept here and not by whoever waits, who may be cancelled: close must find it.
        self._lock = locks.WorkerLock.acquire(self._folder, worker)
        return self._lock.started_at

    def create(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        worker: WorkerId | None,
        blobs: Sequence[Blob] = (),
        audit: Sequence[AuditEntry] = (),
        shelves: Mapping[str, Mapping[str, bytes | None]] | None = None,
    ) -> Awaitable[Epoch]:
        """Store a new session with its first rows; see the port."""
        if worker is not None and not self._is_mine(worker):
            return self.writer.refuse(refusals.not_enlisted(worker))
        seal = owner_seal(head.id, writes.FIRST_EPOCH, worker)
        encoded = encode_head(head)
        entries = tuple(map(encode_entry, audit))
        return self.writer.submit(
            partial(
                writes.create,
                head=encoded,
                rows=tuple(rows),
                blobs=blobs,
                worker=worker,
                seal=seal,
                audit=entries,
                shelves={shelf: dict(items) for shelf, items in (shelves or {}).items()},
            )
        )

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
        shelves: Mapping[str, Mapping[str, bytes | None]] | None = None,
    ) -> Awaitable[None]:
        """Append all of ``rows`` or none; see the port."""
        return self.writer.submit(
            partial(
                writes.append,
                head=encode_head(head),
                rows=tuple(rows),
                blobs=blobs,
                fence=self._fence(head.id, epoch),
                deciding=deciding,
                release=release,
                audit=tuple(map(encode_entry, audit)),
                shelves={shelf: dict(items) for shelf, items in (shelves or {}).items()},
                store=self._name,
            )
        )

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """Put a command into the inbox, or return the row that holds this id; see the port."""
        return self.writer.submit(
            partial(writes.put, session_id=session_id, command_id=command_id, content=content, at=at, store=self._name)
        )

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """Make ``worker`` the owner under the next epoch; see the port."""
        if not self._is_mine(worker):
            return self.writer.refuse(refusals.not_enlisted(worker))
        return self.writer.submit(
            partial(
                writes.take,
                session_id=session_id,
                worker=worker,
                address=self._address,
                folder=self._folder,
                store=self._name,
            )
        )

    def release(self, session_id: SessionId, epoch: Epoch) -> Awaitable[None]:
        """Let the session go, unchanged; see the port."""
        return self.writer.submit(
            partial(writes.release, session_id=session_id, fence=self._fence(session_id, epoch), store=self._name)
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
        return self.writer.submit(
            partial(
                writes.save_snapshot,
                session_id=session_id,
                position=position,
                content=content,
                blobs=blobs,
                epoch=epoch,
                store=self._name,
            )
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
        """Put ``rows`` in the place of the journal, and take away all other texts; see the port."""
        return self.writer.submit(
            partial(
                writes.erase,
                head=encode_head(head),
                rows=tuple(rows),
                fence=self._fence(head.id, epoch),
                outcome=outcome,
                shelves={shelf: dict(items) for shelf, items in shelves.items()},
                forgotten=tuple(forgotten),
                audit=tuple(map(encode_entry, audit)),
                store=self._name,
            )
        )

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
        fence = None if owner is None else (owner[0], *self._fence(*owner))
        entries = tuple(map(encode_entry, audit))
        return self.writer.submit(
            partial(
                writes.shelve,
                shelf=shelf,
                items=dict(items),
                owner=fence,
                expecting=dict(expecting or {}),
                audit=entries,
                store=self._name,
            )
        )

    async def head(self, session_id: SessionId) -> Owned:
        """The session's head and owner; see the port."""
        return await self._reader.submit(
            partial(reads.head, session_id=session_id, folder=self._folder, store=self._name)
        )

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
        """Sessions, newest first; see the port."""
        return await self._reader.submit(
            partial(
                reads.heads,
                statuses=tuple(statuses),
                agent=agent,
                tenant=tenant,
                fits=partial(Head.fits, words=search.casefold(), asking=asking, task_class=task_class, label=label),
                limit=limit,
                before=before,
            )
        )

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        """The children of a session, and theirs; see the port."""
        return await self._reader.submit(partial(reads.below, session_id=session_id, statuses=statuses))

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """Journal rows after a position; see the port."""
        return await self._reader.submit(partial(reads.records, session_id=session_id, after=after, limit=limit))

    async def digest_at(self, session_id: SessionId, position: Position) -> bytes | None:
        """The running digest stored at a position; see the port."""
        return await self._reader.submit(partial(reads.digest_at, session_id=session_id, position=position))

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """The kept snapshots that match their checksums, newest first."""
        return await self._reader.submit(partial(reads.snapshots, session_id=session_id))

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """The blobs of those digests, unchecked."""
        return await self._reader.submit(partial(reads.blobs, digests=digests))

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """The undecided commands, in order; see the port."""
        return await self._reader.submit(partial(reads.undecided, session_id=session_id))

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """The inbox row of that command id, decided or not."""
        return await self._reader.submit(partial(reads.command, session_id=session_id, command_id=command_id))

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """What lies on a shelf; see the port."""
        return await self._reader.submit(
            partial(reads.shelved, shelf=shelf, first=first, last=last, newest=newest, limit=limit)
        )

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """The keys on a shelf; see the port."""
        return await self._reader.submit(partial(reads.shelf_keys, shelf=shelf, first=first, last=last))

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """The shelves that hold something; see the port."""
        return await self._reader.submit(partial(reads.shelves, prefix=prefix))

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """Rows of the audit log; see the port."""
        return await self._reader.submit(partial(reads.audit, after=after, limit=limit))

    async def audit_end(self) -> int:
        """The number of the last row of the audit log; see the port."""
        return await self._reader.submit(reads.audit_end)

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """Take the oldest rows of the audit log away; see the port."""
        return self.writer.submit(partial(writes.trim_audit, before=before, telling=telling, limit=limit))

    async def unattended(
        self, statuses: Sequence[str], now: float, limit: int = 100, *, silent_before: float | None = None
    ) -> Sequence[Owned]:
        """Sessions without a live owner that need one; see the port."""
        return await self._reader.submit(
            partial(
                reads.unattended,
                statuses=tuple(statuses),
                now=now,
                limit=limit,
                folder=self._folder,
                silent_before=silent_before,
            )
        )

    async def unanswered(self, before: float, limit: int = 1000) -> Sequence[tuple[SessionId, InboxRow]]:
        """Undecided commands of all sessions that were put before a time; see the port."""
        return await self._reader.submit(partial(reads.unanswered, before=before, limit=limit))

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """Sessions of ``worker`` that have an undecided command."""
        return await self._reader.submit(partial(reads.pending, worker=worker))

    async def changed(self) -> bool:
        """Whether anything may have been written since the last call. This store's own writes count too."""
        version = await self._reader.submit(reads.data_version)
        if self._lock is not None:
            self._lock.beat()
        before, self._seen = self._seen, version
        return version != before

    def _fence(self, session_id: SessionId, epoch: Epoch) -> tuple[Epoch, bytes]:
        """The epoch a caller holds, and the owner's seal that must be found if this worker holds it indeed."""
        return epoch, owner_seal(session_id, epoch, self._worker or "")

    def _is_mine(self, worker: WorkerId) -> bool:
        return self._enlisted and worker == self._worker
