"""The server is about to end: what its open streams wait for beside their events."""

import asyncio


class Leaving:
    """First it is told, then, once the sessions are let go, the streams end."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.ended = asyncio.Event()

    def tell(self) -> None:
        """It has begun."""
        self.told.set()

    def end(self) -> None:
        """There is nothing more to be seen here."""
        self.ended.set()
