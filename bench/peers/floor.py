"""The floor: the same loop with a bare SQLite file, as little as any program could do.

WAL and ``synchronous=FULL``, one row and one commit for each call; when several sessions wait, one commit for all of
them. Nobody can stop it but ``task.cancel()``, here or after a message on a socket, and that is not written down.

Page: https://www.sqlite.org/wal.html, "Write-Ahead Logging"
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Final

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work, trace

INSERT: Final = "INSERT INTO calls VALUES (?, ?, ?)"


class Stopper:
    """A socket to the process that has the tasks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def open(self) -> "Stopper":
        """Connect."""
        self._reader, self._writer = await asyncio.open_unix_connection(str(self._path))
        return self

    async def stop(self, session: str) -> None:
        """Send the name, and wait for the answer."""
        self._writer.write(f"{session}\n".encode())
        await self._reader.readline()

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()


class Peer(Embedded):
    """Tasks in this process."""

    async def open(self) -> None:
        """Open the file, and the socket beside it."""
        self._connection = sqlite3.connect(self.database, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS calls (session TEXT, number INTEGER, text TEXT)")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._rows: queue.SimpleQueue[tuple[tuple[str, int, str], asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()
        # A path of a socket may have 100 characters, so it is a relative one.
        self._server = await asyncio.start_unix_server(self._listen, self._socket)

    @property
    def _socket(self) -> Path:
        return (self.folder / "s").relative_to(Path.cwd())

    async def close(self) -> None:
        """Close both."""
        self._server.close()
        self._rows.put(None)
        await asyncio.to_thread(self._writer.join)
        self._connection.close()

    def _write(self) -> None:
        """Commit, in a thread, all rows that wait."""
        while True:
            batch = [self._rows.get()]
            while not self._rows.empty():
                batch.append(self._rows.get_nowait())
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(INSERT, [one[0] for one in batch if one])
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._resolve, [one[1] for one in batch if one])
            if None in batch:
                return

    @staticmethod
    def _resolve(futures: list[asyncio.Future[None]]) -> None:
        for future in futures:
            if not future.done():
                future.set_result(None)

    async def _put(self, session: str, number: int, text: str) -> None:
        """Write one row: at once while there is one session, with those of the others while there are many."""
        row = (session, number, text)
        if len(self._tasks) == 1:
            self._connection.execute(INSERT, row)
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._rows.put((row, future))
        await future

    async def start(self, session: str, work: Work) -> None:
        """Start a task."""
        self._tasks[session] = asyncio.create_task(self._run(session, work))

    async def _run(self, session: str, work: Work) -> None:
        rows = self._connection.execute("SELECT text FROM calls WHERE session = ?", (session,)).fetchall()
        number = len(rows)
        while number < 2 * work.steps:
            step = number // 2
            if number % 2 == 0:
                text = await workload.model(session, step)
            else:
                text = await workload.tool(session, step, work.seconds(step), work.acts)
            await self._put(session, number, text)
            number += 1

    async def result(self, session: str) -> None:
        """Await the task."""
        await self._tasks[session]

    async def stop(self, session: str) -> None:
        """Cancel the task."""
        task = self._tasks.pop(session)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await self.stop(line.decode().strip())
            writer.write(b"done\n")

    async def elsewhere(self) -> Stopper:
        """Connect to the socket."""
        return await Stopper(self._socket).open()

    async def stand(self, session: str, history: int) -> None:
        """Write the rows of so many steps."""
        self._work = Work(steps=history + 1, tool=600, history=history)
        texts = [text(step) for step in range(history) for text in (workload.model_text, workload.tool_text)]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, [(session, number, text) for number, text in enumerate(texts)])
        self._connection.execute("COMMIT")
        trace(session)

    async def resume(self, session: str) -> None:
        """Start the task again."""
        await self.start(session, self._work)

    async def recover(self, session: str) -> None:
        """Read what was done, and do the rest."""
        await self.start(session, workload.KILLED)
        await self.result(session)
