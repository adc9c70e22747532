"""A store that kills its process inside a commit: between the statements that one write is made of."""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from midcourse.ports.store import Store
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.killer import Killer

T = TypeVar("T")
Moment = Literal["before", "within", "after"]
WRITES: Final = frozenset({"create", "append", "put", "take", "save_snapshot", "shelve", "erase"})


class KillerWithin(Killer):
    """Also kills ``within`` a write: when its rows are there, or when all of its commit is, and nothing is durable.

    The one where the number of the call is odd, the other where it is even.
    """

    def __init__(self, store: Store, *, at: int, when: Moment, ledger: Path) -> None:
        # A life that dies within a call dies neither before nor after it.
        super().__init__(
            store, at=0 if when == "within" else at, when="after" if when == "within" else when, ledger=ledger
        )
        self._within = at if when == "within" else 0

    def _write(self, call: str, make: Callable[[], Awaitable[T]], facts: Sequence[str] = ()) -> Awaitable[T]:
        number = len(self.calls) + 1
        if number == self._within:
            self._dies_at(("UPDATE", "COMMIT") if number % 2 else ("COMMIT",), f"killed within {number} {call}")
        return super()._write(call, make, facts)

    def _dies_at(self, statements: tuple[str, ...], line: str) -> None:
        assert isinstance(self.inner, SqliteStore)
        writer: Any = self.inner._writes  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        def look(statement: str) -> None:
            if statement.startswith(statements):
                self._note(line)
                os.kill(os.getpid(), signal.SIGKILL)

        writer._connection.set_trace_callback(look)  # noqa: SLF001
