"""A thread that reads, on a connection of its own: a read never waits for an fsync."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from midcourse.stores.sqlite.errors import FAILURES, explained
from midcourse.stores.sqlite.job_thread import Job, JobAnswer, JobThread, deliver
from midcourse.stores.sqlite.write_lock import patiently

T = TypeVar("T")

Read = Callable[[sqlite3.Connection], T]


class ReadThread:
    """Serves reads one by one, in order."""

    def __init__(self, connection: sqlite3.Connection, path: Path, name: str) -> None:
        self._connection = connection
        self._path = path
        self._job_thread: JobThread[sqlite3.Connection] = JobThread(
            store=name, serve=self._serve, end=connection.close, at_once=1
        )

    def start(self) -> None:
        self._job_thread.start()

    def submit(self, read: Read[T]) -> "asyncio.Future[T]":
        return self._job_thread.submit(read)

    async def close(self) -> None:
        """Finish what was enqueued, and close the connection."""
        await self._job_thread.close()

    def _serve(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        for future, read in jobs:
            try:
                answer = JobAnswer(future, patiently(lambda read=read: read(self._connection), self._path), None)
            except FAILURES as error:
                answer = JobAnswer(future, None, explained(error, self._path))
            except Exception as error:  # noqa: BLE001 - it belongs to the caller; the thread lives on
                answer = JobAnswer(future, None, error)
            deliver((answer,))
