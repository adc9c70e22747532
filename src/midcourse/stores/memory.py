"""Sessions in the memory of one process: everything a store promises except surviving its end."""

import asyncio
import threading
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from midcourse.core.audit import AuditEntry, AuditRow, check_end, encode_entry, follow, prunable, pruned
from midcourse.core.codec import Blob, checksum, named_blobs
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.core.tenants import tenant_of
from midcourse.errors import MidcourseError
from midcourse.ports.store import Deciding, Head, InboxRow, Owned
from midcourse.stores import refusals
from midcourse.stores.shelf import Shelf

T = TypeVar("T")

_head_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Head)


class Sealed(NamedTuple):
    """Bytes and their checksum, so that damage is noticed here as it is on a disk."""

    content: bytes
    seal: bytes

    @classmethod
    def of(cls, content: bytes) -> "Sealed":
        """``content``, sealed."""
        return cls(content, checksum(content))

    @property
    def whole(self) -> bool:
        """Whether the content is what was sealed."""
        return checksum(self.content) == self.seal


class StoredCommand:
    """An inbox row as it is kept."""

    __slots__ = ("content", "id", "outcome", "put_at", "seq")

    def __init__(self, seq: int, command_id: CommandId, put_at: float, content: bytes) -> None:
        self.seq = seq
        self.id = command_id
        self.put_at = put_at
        self.content = Sealed.of(content)
        self.outcome: bytes | None = None

    def row(self, *, content: bytes) -> InboxRow:
        """The row as it is given out."""
        return InboxRow(seq=self.seq, id=self.id, put_at=self.put_at, content=content, outcome=self.outcome)


class StoredSession:
    """A session as it is kept."""

    __slots__ = ("epoch", "head", "id", "inbox", "number", "owner", "position", "rows", "snapshots")

    def __init__(self, session_id: SessionId, number: int, owner: WorkerId | None) -> None:
        self.id = session_id
        self.number = number
        self.owner = owner
        self.epoch = Epoch(1)
        self.head = Sealed.of(b"")
        self.position = 0
        self.rows: list[Row] = []
        self.inbox: dict[CommandId, StoredCommand] = {}
        self.snapshots: dict[Position, Sealed] = {}

    @property
    def undecided(self) -> list[StoredCommand]:
        """The undecided commands, in order."""
        return [command for command in self.inbox.values() if command.outcome is None]


class Memory:
    """What the store objects of one memory share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.sessions: dict[SessionId, StoredSession] = {}
        self.blobs: dict[str, bytes] = {}
        self.blob_uses: dict[str, set[SessionId]] = {}
        self.alive: dict[WorkerId, str] = {}
        self.workers: set[WorkerId] = set()
        self.writes = 0
        self.audit: list[AuditRow] = []
        self.audit_ends = 0
        self.shelves: dict[str, Shelf] = {}


def _resolve(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class MemoryStore:
    """A store in memory, for one process. ``peer()`` is another store object on the same memory."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self._worker: WorkerId | None = None
        self._closed = False
        self._seen = -1

    @property
    def durability(self) -> Durability:
        """Nothing survives the process."""
        return "nothing"

    @property
    def name(self) -> str:
        """How people call this store."""
        return "memory://"

    def peer(self) -> "MemoryStore":
        """Another store object on the same memory, as another process would have on a file."""
        return MemoryStore(self.memory)

    async def close(self) -> None:
        """Give up the liveness of this store's worker, and close."""
        self.abandon()
        self._closed = True

    def abandon(self) -> None:
        """End the worker's liveness and let no session go, as the end of its process would. For tests."""
        with self.memory.lock:
            if self._worker is not None:
                self.memory.alive.pop(self._worker, None)

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """Make this store object the worker ``worker``; see the port."""
        self._check_open()
        with self.memory.lock:
            if self._worker is not None:
                raise refusals.already_enlisted(self._worker)
            if worker in self.memory.workers:
                raise refusals.worker_exists(worker)
            self.memory.workers.add(worker)
            self.memory.alive[worker] = address
            self._worker = worker

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
        entries = [encode_entry(entry) for entry in audit]

        def write() -> Epoch:
            self._check_worker(worker)
            if head.id in self.memory.sessions:
                raise refusals.session_exists(head.id)
            refusals.check_order(head, rows, 0)
            session = StoredSession(head.id, len(self.memory.sessions), worker)
            session.rows.extend(rows)
            self.memory.sessions[head.id] = session
            self._keep(session, head, blobs)
            self._use_blobs(head.id, rows)
            for shelf, items in (shelves or {}).items():
                self._put_on(shelf, items)
            self._audit(entries)
            return session.epoch

        return self._write(write)

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
        entries = [encode_entry(entry) for entry in audit]
        kept = {shelf: dict(items) for shelf, items in (shelves or {}).items()}

        def write() -> None:
            session = self._owned(head.id, epoch)
            # Where it ends by what was written, not by what is left: a journal that lost rows must still be buried.
            refusals.check_order(head, rows, session.position)
            command = _decidable(session, deciding) if deciding else None
            if release and any(other is not command for other in session.undecided):
                raise refusals.inbox_not_empty(head.id)
            session.rows.extend(rows)
            self._keep(session, head, blobs)
            self._use_blobs(head.id, rows)
            if command is not None and deciding is not None:
                command.outcome = deciding.outcome
                if deciding.forgets:
                    command.content = Sealed.of(b"")
            if release:
                session.owner = None
            for shelf, items in kept.items():
                self._put_on(shelf, items)
            self._audit(entries)

        return self._write(write)

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """Put a command into the inbox, or return the row that holds this id; see the port."""

        def write() -> InboxRow:
            session = self._session(session_id)
            command = session.inbox.get(command_id)
            if command is None:
                command = StoredCommand(len(session.inbox) + 1, command_id, at, content)
                session.inbox[command_id] = command
            return _checked(session_id, command)

        return self._write(write)

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """Make ``worker`` the owner under the next epoch; see the port."""

        def write() -> Owned:
            self._check_worker(worker)
            session = self._session(session_id)
            if session.owner is not None and session.owner in self.memory.alive:
                raise refusals.owner_alive(session_id, session.owner)
            _decoded(session)  # what is damaged is not taken
            session.owner = worker
            session.epoch = Epoch(session.epoch + 1)
            return self._ownership(session)

        return self._write(write)

    def release(self, session_id: SessionId, epoch: Epoch) -> Awaitable[None]:
        """Let the session go, unchanged; see the port."""

        def write() -> None:
            session = self._owned(session_id, epoch)
            if session.undecided:
                raise refusals.inbox_not_empty(session_id)
            session.owner = None

        return self._write(write)

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

        def write() -> None:
            session = self._session(session_id)
            if session.epoch != epoch:
                raise refusals.stale_epoch(session_id, epoch, session.epoch, session.owner)
            session.snapshots[position] = Sealed.of(content)
            for older in sorted(session.snapshots)[:-2]:
                del session.snapshots[older]
            self._keep_blobs(session_id, blobs)

        return self._write(write)

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
        entries = [encode_entry(entry) for entry in audit]

        def write() -> None:
            session = self._owned(head.id, epoch)
            refusals.check_whole(head, rows, session.position)
            if session.undecided:
                raise refusals.inbox_not_empty(head.id)
            session.rows[:] = rows
            session.snapshots.clear()
            for command in session.inbox.values():
                command.content, command.outcome = Sealed.of(b""), outcome
            self._forget_blobs(head.id)
            for shelf, items in shelves.items():
                self._put_on(shelf, items)
            # Not of an anchor: the log may have been trimmed meanwhile.
            places = {row.seq: index for index, row in enumerate(self.memory.audit) if row.content}
            for row in forgotten:
                if row.seq in places:
                    known = self.memory.audit[places[row.seq]]
                    self.memory.audit[places[row.seq]] = AuditRow(known.seq, row.content, known.digest)
            self._keep(session, head, ())
            session.owner = None
            self._audit(entries)

        return self._write(write)

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
        items, expected = dict(items), dict(expecting or {})
        entries = [encode_entry(entry) for entry in audit]

        def write() -> None:
            if owner is not None:
                self._owned(*owner)
            kept = self.memory.shelves.get(shelf, Shelf(shelf))
            for key, content in expected.items():
                if not kept.holds(key, content):
                    raise refusals.shelf_changed(shelf, key)
            self._put_on(shelf, items)
            self._audit(entries)

        return self._write(write)

    async def head(self, session_id: SessionId) -> Owned:
        """The session's head and owner; see the port."""
        self._check_open()
        with self.memory.lock:
            return self._ownership(self._session(session_id))

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
        self._check_open()
        with self.memory.lock:
            all_of_them = sorted(
                ((head.created_at, session.number, head) for session, head in self._readable()), reverse=True
            )
        ids = [head.id for _, _, head in all_of_them]
        first = 0 if before is None else ids.index(before) + 1 if before in ids else len(ids)
        found = (
            head
            for _, _, head in all_of_them[first:]
            if (not statuses or head.status in statuses)
            and (agent is None or head.agent == agent)
            and (tenant is None or tenant_of(head.id) == tenant)
            and head.fits(search.casefold(), asking=asking, task_class=task_class, label=label)
        )
        return list(islice(found, limit))

    async def below(self, session_id: SessionId, statuses: Sequence[str]) -> Sequence[Head]:
        """The children of a session, and theirs; see the port."""
        self._check_open()
        with self.memory.lock:
            return [
                head for _, head in self._readable() if head.id.startswith(f"{session_id}.") and head.status in statuses
            ]

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """Journal rows after a position; see the port."""
        self._check_open()
        with self.memory.lock:
            session = self.memory.sessions.get(session_id)
            return session.rows[after : after + limit] if session else []

    async def digest_at(self, session_id: SessionId, position: Position) -> bytes | None:
        """The running digest stored at a position; see the port."""
        found = await self.read(session_id, Position(position - 1), 1) if position > 0 else ()
        return found[0][2] if found else None

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """The kept snapshots that match their checksums, newest first."""
        self._check_open()
        with self.memory.lock:
            session = self.memory.sessions.get(session_id)
            kept = sorted(session.snapshots.items(), reverse=True) if session else []
        return [sealed.content for _, sealed in kept if sealed.whole]

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """The blobs of those digests, unchecked."""
        self._check_open()
        with self.memory.lock:
            return [self.memory.blobs.get(digest) for digest in digests]

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """The undecided commands, in order; see the port."""
        self._check_open()
        with self.memory.lock:
            session = self.memory.sessions.get(session_id)
            waiting = session.undecided if session else []
            return [
                command.row(content=command.content.content if command.content.whole else b"") for command in waiting
            ]

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """The inbox row of that command id, decided or not."""
        self._check_open()
        with self.memory.lock:
            session = self.memory.sessions.get(session_id)
            command = session.inbox.get(command_id) if session else None
            return _checked(session_id, command) if command else None

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """What lies on a shelf; see the port."""
        self._check_open()
        with self.memory.lock:
            kept = self.memory.shelves.get(shelf, Shelf(shelf))
            keys = kept.between(first, last)
            return [(key, kept.value(key)) for key in (keys[::-1] if newest else keys)[:limit]]

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """The keys on a shelf; see the port."""
        self._check_open()
        with self.memory.lock:
            return self.memory.shelves.get(shelf, Shelf(shelf)).between(first, last)

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """The shelves that hold something; see the port."""
        self._check_open()
        with self.memory.lock:
            return sorted(name for name in self.memory.shelves if name.startswith(prefix))

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """Rows of the audit log; see the port."""
        self._check_open()
        with self.memory.lock:
            first = bisect_right(self.memory.audit, after, key=lambda row: row.seq)
            found, ends = self.memory.audit[first : first + limit], self.memory.audit_ends
        if len(found) < limit:
            check_end(found, ends, after=after)
        return found

    async def audit_end(self) -> int:
        """The number of the last row of the audit log; see the port."""
        self._check_open()
        with self.memory.lock:
            return self.memory.audit_ends

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """Take the oldest rows of the audit log away; see the port."""

        def write() -> int:
            log = self.memory.audit
            gone = prunable(log[: limit + 1], before, limit, telling.at)
            if gone.entries:
                anchor = msgspec.structs.replace(log[gone.rows - 1], content=b"")
                log[: gone.rows] = [anchor]
                self._audit([encode_entry(pruned(telling, anchor.seq, gone.entries))])
            return gone.entries

        return self._write(write)

    async def unattended(
        self, statuses: Sequence[str], now: float, limit: int = 100, *, silent_before: float | None = None
    ) -> Sequence[Owned]:
        """Sessions without a live owner that need one; see the port."""
        self._check_open()
        with self.memory.lock:
            found = [
                msgspec.structs.replace(self._ownership(session), pending=bool(session.undecided))
                for session, head in self._readable()
                if session.owner not in self.memory.alive
                and (head.status in statuses or (head.wake_at is not None and head.wake_at <= now) or session.undecided)
            ]
        return found[:limit]

    async def unanswered(self, before: float, limit: int = 1000) -> Sequence[tuple[SessionId, InboxRow]]:
        """Undecided commands of all sessions that were put before a time; see the port."""
        self._check_open()
        with self.memory.lock:
            found = [
                (session.id, command.row(content=command.content.content))
                for session in self.memory.sessions.values()
                for command in session.undecided
                if command.put_at <= before and command.content.whole
            ]
        return sorted(found, key=lambda one: one[1].put_at)[:limit]

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """Sessions of ``worker`` that have an undecided command."""
        self._check_open()
        with self.memory.lock:
            return [one.id for one in self.memory.sessions.values() if one.owner == worker and one.undecided]

    async def changed(self) -> bool:
        """Whether anything may have been written since the last call. The store's own writes count too."""
        self._check_open()
        before, self._seen = self._seen, self.memory.writes
        return self._seen != before

    def _write(self, write: Callable[[], T]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # Settled by the loop and not at once: whoever waits for a write yields, as with every other store.
        try:
            self._check_open()
            with self.memory.lock:
                value = write()
                self.memory.writes += 1
        except MidcourseError as error:
            loop.call_soon(_fail, future, error)
        else:
            loop.call_soon(_resolve, future, value)
        return future

    def _keep(self, session: StoredSession, head: Head, blobs: Sequence[Blob]) -> None:
        session.head = Sealed.of(_head_encoder.encode(head))
        session.position = head.position
        self._keep_blobs(head.id, blobs)

    def _keep_blobs(self, session_id: SessionId, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            self.memory.blobs[blob.digest] = blob.content
            self.memory.blob_uses.setdefault(blob.digest, set()).add(session_id)

    def _use_blobs(self, session_id: SessionId, rows: Sequence[Row]) -> None:
        for _, record, _ in rows:
            for digest in named_blobs(record):
                self.memory.blob_uses.setdefault(digest, set()).add(session_id)

    def _forget_blobs(self, session_id: SessionId) -> None:
        for digest, users in list(self.memory.blob_uses.items()):
            users.discard(session_id)
            if not users:
                del self.memory.blob_uses[digest]
                self.memory.blobs.pop(digest, None)

    def _put_on(self, shelf: str, items: Mapping[str, bytes | None]) -> None:
        kept = self.memory.shelves.setdefault(shelf, Shelf(shelf))
        for key, value in items.items():
            kept.put(key, value)
        if not kept.keys:
            del self.memory.shelves[shelf]

    def _audit(self, entries: Sequence[bytes]) -> None:
        log = self.memory.audit
        added = follow(log[-1] if log else None, self.memory.audit_ends, entries)
        if added:
            log.extend(added)
            self.memory.audit_ends = added[-1].seq

    def _session(self, session_id: SessionId) -> StoredSession:
        session = self.memory.sessions.get(session_id)
        if session is None:
            raise refusals.not_found(session_id, self.name)
        return session

    def _owned(self, session_id: SessionId, epoch: Epoch) -> StoredSession:
        session = self._session(session_id)
        if session.epoch != epoch or session.owner is None or session.owner != self._worker:
            raise refusals.stale_epoch(session_id, epoch, session.epoch, session.owner)
        return session

    def _ownership(self, session: StoredSession) -> Owned:
        owner = session.owner
        return Owned(
            head=_decoded(session),
            epoch=session.epoch,
            owner=owner,
            alive=owner in self.memory.alive,
            address=self.memory.alive.get(owner, "") if owner else "",
        )

    def _readable(self) -> list[tuple[StoredSession, Head]]:
        return [(session, _decoded(session)) for session in self.memory.sessions.values() if session.head.whole]

    def _check_worker(self, worker: WorkerId | None) -> None:
        if worker is not None and worker != self._worker:
            raise refusals.not_enlisted(worker)

    def _check_open(self) -> None:
        if self._closed:
            raise refusals.closed(self.name)


def _decoded(session: StoredSession) -> Head:
    if not session.head.whole:
        raise refusals.damaged_head(session.id)
    return _head_decoder.decode(session.head.content)


def _checked(session_id: SessionId, command: StoredCommand) -> InboxRow:
    if not command.content.whole:
        raise refusals.damaged_command(session_id, command.id)
    return command.row(content=command.content.content)


def _decidable(session: StoredSession, deciding: Deciding) -> StoredCommand:
    command = session.inbox.get(deciding.id)
    if command is None:
        raise refusals.no_such_command(session.id, deciding.id)
    if command.outcome is not None:
        raise refusals.already_decided(session.id, deciding.id)
    return command
