"""A store that kills its own process at a chosen call, so that a test can check the next process.

Every effect of a session passes through the store's port. A scenario is run once to count its calls, and then again for
each of them, with a real SIGKILL just before the call is made or just after it is done, before the caller gets the
result.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from midcourse.core.events import StepFinished, decode_record
from midcourse.core.ids import CommandId, SessionId
from midcourse.ports.active_switches import SHELF as STANDING
from midcourse.ports.store import Append, InboxRow, Store
from midcourse.testing.wrapped_store import WrappedStore

T = TypeVar("T")
When = Literal["before", "after"]
_UNCOUNTED: Final = frozenset({"heads", "shelves", "audit", "audit_end", "unattended", "pending", "changed"})


class LineLedger:
    """A file of lines outside the store, written by processes that may die at any moment: one write for each line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, line: str) -> None:
        """Append one line. It is in the file, whole, when this returns, whatever happens to the process."""
        os.write(self._descriptor, f"{line}\n".encode())


class Killer(WrappedStore):
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
        super().__init__(store)
        self.calls: list[str] = []
        self._at = at
        self._when = when
        self._ledger = LineLedger(ledger) if ledger is not None else None
        self._lock = threading.Lock()

    def append(self, append: Append) -> Awaitable[None]:
        """Append, and note in the ledger which steps it finished and which command it decided."""
        events: list[Any] = [decode_record(content).event for _, content, _ in append.rows]
        facts = [f"finished {event.step}" for event in events if isinstance(event, StepFinished)]
        if append.deciding is not None:
            facts.append(f"decided {append.deciding.id}")
        return self._write("append", lambda: self.inner.append(append), facts)

    def put(self, session_id: SessionId, command_id: CommandId, content: bytes, at: float) -> Awaitable[InboxRow]:
        """Put a command, and note it in the ledger."""
        return self._write("put", lambda: self.inner.put(session_id, command_id, content, at), [f"put {command_id}"])

    def shelve(self, shelf: str, items: Mapping[str, bytes | None], **rest: Any) -> Awaitable[None]:
        """Write to a shelf. An empty write only reads, and is not counted."""
        return super().shelve(shelf, items, **rest) if items else self.inner.shelve(shelf, items, **rest)

    async def shelved(self, shelf: str, **rest: Any) -> Sequence[tuple[str, bytes]]:
        """Read a shelf. Shelves over all sessions are read from time to time: that is not counted."""
        return await (self.inner.shelved(shelf, **rest) if shelf == STANDING else super().shelved(shelf, **rest))

    # ---- counting and killing

    def _write(self, call: str, make: Callable[[], Awaitable[T]], facts: Sequence[str] = ()) -> Awaitable[T]:
        number = self._arrive(call)
        written = asyncio.ensure_future(make())

        def done(future: "asyncio.Future[T]") -> None:
            if not future.cancelled() and future.exception() is None:
                self._note(*facts)
            self._kill_if_due("after", number, call)

        # The first callback of the future: waiting tasks are woken after this has run.
        written.add_done_callback(done)
        return written

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        if call in _UNCOUNTED:
            return await make()
        number = self._arrive(call)
        try:
            return await make()
        finally:
            self._kill_if_due("after", number, call)

    def _arrive(self, call: str) -> int:
        with self._lock:
            self.calls.append(call)
            number = len(self.calls)
        self._kill_if_due("before", number, call)
        return number

    def _kill_if_due(self, when: When, number: int, call: str) -> None:
        if (when, number) == (self._when, self._at):
            self._note(f"killed {when} {number} {call}")
            while True:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()

    def _note(self, *lines: str) -> None:
        if self._ledger is not None:
            for line in lines:
                self._ledger.write(line)
