"""Cache a shelf in memory: read again at least every second, so that a change by another process counts soon."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeVar

from midcourse.ports.clock import Clock

T = TypeVar("T")

_KNOWN_FOR: Final = 1.0
_UNKNOWN_FOR: Final = 0.1


class ShelfTable(Generic[T]):
    """The rows of a shelf by a name each. Unknown names cost at most ten reads a second. Used on one event loop."""

    def __init__(self, clock: Clock, read: Callable[[], Awaitable[Mapping[str, T]]]) -> None:
        """``read`` returns the rows that are there now."""
        self._clock = clock
        self._read = read
        self._rows: Mapping[str, T] = {}
        self._read_at: float | None = None
        self._changes = 0
        self._reading = asyncio.Lock()

    async def find(self, name: str) -> T | None:
        """Return the row of that name; None if there is none.

        Raises:
            StoreUnavailable: it may be on the shelf, and the shelf cannot be read.
        """
        if self._age() >= _KNOWN_FOR or (name not in self._rows and self._age() >= _UNKNOWN_FOR):
            await self._refresh()
        return self._rows.get(name)

    def changed(self) -> None:
        """Read again before the next answer."""
        self._changes += 1
        self._read_at = None

    def _age(self) -> float:
        return float("inf") if self._read_at is None else self._clock.monotonic() - self._read_at

    async def _refresh(self) -> None:
        wanted_at = self._clock.monotonic()
        async with self._reading:
            if self._read_at is not None and self._read_at >= wanted_at:
                return  # another request has read it while this one waited
            began, changes = self._clock.monotonic(), self._changes
            self._rows = await self._read()
            # A row that came or went meanwhile may be missing or there: read again.
            self._read_at = began if changes == self._changes else None
