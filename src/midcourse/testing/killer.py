"""A store that kills its own process at a chosen call, so that a test can see what the next process makes of it.

Every effect of a session passes through the store's port. A scenario is run once to count its calls, and then again for
each of them, with a real SIGKILL just before the call is made or just after it is done and nobody has been told.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeVar

from midcourse.core.audit import AuditEntry, AuditRow
from midcourse.core.codec import Blob
from midcourse.core.events import StepFinished, decode_record
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.core.replies import Durability
from midcourse.ports.store import Deciding, Head, InboxRow, Owned, Store
from midcourse.runtime.standing import SHELF as STANDING

T = TypeVar("T")
When = Literal["before", "after"]


class Ledger:
    """A file of lines outside the store, written by processes that may die at any moment: one write for each line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, line: str) -> None:
        """Append one line. It is in the file, whole, when this returns, whatever happens to the process."""
        os.write(self._descriptor, f"{line}\n".encode())


class Killer:
    """A store that does what ``store`` does, and kills the process at its ``at``-th call (0: it only counts).

    ``when`` is ``before`` the call is made, or ``after`` it is done (for a write: committed) and before its caller
    learns of it. Calls that concern a session count, and so do ``enlist`` and ``close``; lists and polls
    (``heads``, ``shelves``, ``audit``, ``unattended``, ``pending``, ``changed``) do not: how many there are is a matter
    of time.

    Into ``ledger`` it writes what has become durable, as soon as it has: ``finished <step>``, ``put <command>``,
    ``decided <command>``; and at last ``killed <when> <at> <call>``.
    """

    def __init__(
        self,
        store: Store,
        *,
        at: int = 0,
        when: When = "before",
        ledger: str | os.PathLike[str] | None = None,
    ) -> None:
        self.store = store
        self.calls: list[str] = []
        self._at = at
        self._when = when
        self._ledger = Ledger(ledger) if ledger is not None else None
        self._lock = threading.Lock()

    @property
    def durability(self) -> Durability:
        """What an acknowledged write of the wrapped store survives."""
        return self.store.durability

    @property
    def name(self) -> str:
        """The name of the wrapped store."""
        return self.store.name

    # ---- writes: they take their place when they are called

    def create(
        self,
        head: Head,
        rows: Sequence[Row],
        *,
        worker: WorkerId | None,
        blobs: Sequence[Blob] = (),
    ) -> Awaitable[Epoch]:
        """As the wrapped store does."""
        return self._write("create", lambda: self.store.create(head, rows, worker=worker, blobs=blobs))

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
        """As the wrapped store does; the ledger is told which steps it finished and which command it decided."""
        facts = [f"finished {step}" for step in _finished(rows)]
        if deciding is not None:
            facts.append(f"decided {deciding.id}")
        return self._write(
            "append",
            lambda: self.store.append(
                head, rows, epoch=epoch, deciding=deciding, blobs=blobs, release=release, audit=audit
            ),
            facts,
        )

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """As the wrapped store does; the ledger is told."""
        return self._write("put", lambda: self.store.put(session_id, command_id, content, at), [f"put {command_id}"])

    def take(self, session_id: SessionId, worker: WorkerId) -> Awaitable[Owned]:
        """As the wrapped store does."""
        return self._write("take", lambda: self.store.take(session_id, worker))

    def release(self, session_id: SessionId, epoch: Epoch) -> Awaitable[None]:
        """As the wrapped store does."""
        return self._write("release", lambda: self.store.release(session_id, epoch))

    def save_snapshot(
        self,
        session_id: SessionId,
        position: Position,
        content: bytes,
        *,
        epoch: Epoch,
        blobs: Sequence[Blob] = (),
    ) -> Awaitable[None]:
        """As the wrapped store does."""
        return self._write(
            "save_snapshot",
            lambda: self.store.save_snapshot(session_id, position, content, epoch=epoch, blobs=blobs),
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
        """As the wrapped store does."""
        return self._write(
            "erase",
            lambda: self.store.erase(
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
        """As the wrapped store does. One that writes nothing is a look at what stands, and does not count either."""
        if not items:
            return self.store.shelve(shelf, items, owner=owner, audit=audit)
        return self._write("shelve", lambda: self.store.shelve(shelf, items, owner=owner, audit=audit))

    # ---- the worker's life, and reads

    async def enlist(self, worker: WorkerId, address: str) -> None:
        """As the wrapped store does."""
        await self._call("enlist", lambda: self.store.enlist(worker, address))

    async def close(self) -> None:
        """As the wrapped store does."""
        await self._call("close", self.store.close)

    async def head(self, session_id: SessionId) -> Owned:
        """As the wrapped store does."""
        return await self._call("head", lambda: self.store.head(session_id))

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        """As the wrapped store does."""
        return await self._call("read", lambda: self.store.read(session_id, after, limit))

    async def digest_at(self, session_id: SessionId, position: Position) -> bytes | None:
        """As the wrapped store does."""
        return await self._call("digest_at", lambda: self.store.digest_at(session_id, position))

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        """As the wrapped store does."""
        return await self._call("snapshots", lambda: self.store.snapshots(session_id))

    async def blobs(self, digests: Sequence[str]) -> Sequence[bytes | None]:
        """As the wrapped store does."""
        return await self._call("blobs", lambda: self.store.blobs(digests))

    async def undecided(self, session_id: SessionId) -> Sequence[InboxRow]:
        """As the wrapped store does."""
        return await self._call("undecided", lambda: self.store.undecided(session_id))

    async def row(self, session_id: SessionId, command_id: CommandId) -> InboxRow | None:
        """As the wrapped store does."""
        return await self._call("row", lambda: self.store.row(session_id, command_id))

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """As the wrapped store does. What stands over all sessions is looked at now and then: that does not count."""
        if shelf == STANDING:
            return await self.store.shelved(shelf, first=first, last=last, newest=newest, limit=limit)
        return await self._call(
            "shelved", lambda: self.store.shelved(shelf, first=first, last=last, newest=newest, limit=limit)
        )

    async def shelf_keys(self, shelf: str, *, first: str = "", last: str = "") -> Sequence[str]:
        """As the wrapped store does."""
        return await self._call("shelf_keys", lambda: self.store.shelf_keys(shelf, first=first, last=last))

    # ---- lists and polls, which do not count

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
        """As the wrapped store does; not counted."""
        return await self.store.heads(
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

    async def shelves(self, prefix: str = "") -> Sequence[str]:
        """As the wrapped store does; not counted."""
        return await self.store.shelves(prefix)

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[AuditRow]:
        """As the wrapped store does; not counted."""
        return await self.store.audit(after, limit)

    def trim_audit(self, before: float, telling: AuditEntry, *, limit: int = 10_000) -> Awaitable[int]:
        """As the wrapped store does."""
        return self._write("trim_audit", lambda: self.store.trim_audit(before, telling, limit=limit))

    async def unattended(self, statuses: Sequence[str], now: float, limit: int = 100) -> Sequence[Owned]:
        """As the wrapped store does; not counted."""
        return await self.store.unattended(statuses, now, limit)

    async def pending(self, worker: WorkerId) -> Sequence[SessionId]:
        """As the wrapped store does; not counted."""
        return await self.store.pending(worker)

    async def changed(self) -> bool:
        """As the wrapped store does; not counted."""
        return await self.store.changed()

    # ---- counting and killing

    def _write(self, call: str, make: Callable[[], Awaitable[T]], facts: Sequence[str] = ()) -> Awaitable[T]:
        number = self._arrive(call)
        written = asyncio.ensure_future(make())

        def done(future: "asyncio.Future[T]") -> None:
            if not future.cancelled() and future.exception() is None:
                self._note(*facts)
            self._leave(number, call)

        # The first callback of the future: whoever waits for it is woken after this has run.
        written.add_done_callback(done)
        return written

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        number = self._arrive(call)
        try:
            return await make()
        finally:
            self._leave(number, call)

    def _arrive(self, call: str) -> int:
        with self._lock:
            self.calls.append(call)
            number = len(self.calls)
        if self._when == "before":
            self._kill_if_due(number, call)
        return number

    def _leave(self, number: int, call: str) -> None:
        if self._when == "after":
            self._kill_if_due(number, call)

    def _kill_if_due(self, number: int, call: str) -> None:
        if number == self._at:
            self._note(f"killed {self._when} {number} {call}")
            _kill()

    def _note(self, *lines: str) -> None:
        if self._ledger is not None:
            for line in lines:
                self._ledger.write(line)


def _finished(rows: Sequence[Row]) -> list[str]:
    events: list[Any] = [decode_record(content).event for _, content, _ in rows]
    return [event.step for event in events if isinstance(event, StepFinished)]


def _kill() -> NoReturn:
    while True:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
