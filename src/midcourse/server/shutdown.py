"""The server is about to end: what its open streams wait for beside their events, and who waits for them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Shutdown:
    """First it is told, then, once the sessions are let go, the streams send what is journaled, and end."""

    def __init__(self) -> None:
        self.is_announced = False
        """Whether requests are to be sent elsewhere; it still takes them."""
        self.told = asyncio.Event()
        self.ended = asyncio.Event()
        self._open = 0
        self._none_open = asyncio.Event()
        self._none_open.set()

    @contextmanager
    def stream(self) -> Generator[None]:
        """An open stream, while the block lasts."""
        self._open += 1
        self._none_open.clear()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._none_open.set()

    def announce(self) -> None:
        """It has begun."""
        self.told.set()

    def end(self) -> None:
        """There is nothing more to be seen here than what is there now."""
        self.ended.set()

    async def wait_for_streams(self, seconds: float) -> None:
        """Until none is open, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none_open.wait()
