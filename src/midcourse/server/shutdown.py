"""The server is about to end: what its open streams wait for beside their events, and who waits for them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Shutdown:
    """Announce the shutdown; once the sessions are released, streams send what is journaled, and end."""

    def __init__(self) -> None:
        self.is_announced = False
        """True if requests should be sent elsewhere; it still takes them."""
        self.told = asyncio.Event()
        self.ended = asyncio.Event()
        self._open = 0
        self._none_open = asyncio.Event()
        self._none_open.set()

    @contextmanager
    def stream(self) -> Generator[None]:
        """Count an open stream for this block."""
        self._open += 1
        self._none_open.clear()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._none_open.set()

    def announce(self) -> None:
        self.told.set()

    def end(self) -> None:
        """End the streams after what is journaled now."""
        self.ended.set()

    async def wait_for_streams(self, seconds: float) -> None:
        """Wait until no stream is open, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none_open.wait()
