"""The parts of the protocol that most peers share."""

import os
import sqlite3
from pathlib import Path

from bench.peers.case import Stopper
from bench.peers.workload import Work


class Embedded:
    """A peer without a server, whose store is what lies in the folder."""

    def __init__(self, folder: Path, variant: str) -> None:
        self.folder = folder
        self.variant = variant
        self.database = folder / "runs.db"

    async def serve(self) -> None:
        """Need no server."""

    async def stop_serving(self) -> None:
        """Need no server."""

    async def open(self) -> None:
        """Open nothing."""

    async def close(self) -> None:
        """Close nothing."""

    async def start(self, session: str, work: Work) -> None:
        """Start a session."""
        raise NotImplementedError

    async def start_stoppable(self, session: str, work: Work) -> None:
        """Start it in the one way there is."""
        await self.start(session, work)

    async def result(self, session: str) -> None:
        """Wait until a session has ended."""
        raise NotImplementedError

    async def stop(self, session: str) -> None:
        """Stop a session."""
        raise NotImplementedError

    async def elsewhere(self) -> Stopper:
        """Connect from another process."""
        raise NotImplementedError

    async def stand(self, session: str, history: int) -> None:
        """Stop a session in the call after so many steps."""
        raise NotImplementedError

    async def resume(self, session: str) -> None:
        """Let it continue."""
        raise NotImplementedError

    async def stand_again(self, session: str) -> None:
        """Stop it again."""
        await self.stop(session)

    async def recover(self, session: str) -> None:
        """Wait for a session that the opened store continues by itself."""
        await self.result(session)


def size_of(folder: Path) -> int:
    """Return the bytes of a closed store, once the write-ahead logs of SQLite are folded in."""
    for wal in folder.rglob("*-wal"):
        connection = sqlite3.connect(str(wal)[: -len("-wal")])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    return sum(os.path.getsize(path) for path in folder.rglob("*") if path.is_file())
