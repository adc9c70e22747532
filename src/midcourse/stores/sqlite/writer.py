"""One thread that writes, with group commit: whatever is waiting shares one transaction and one fsync."""

import os
import sqlite3
from copy import copy
from pathlib import Path

from midcourse.errors import StoreUnavailable
from midcourse.stores.sqlite.errors import FAILURES, explained
from midcourse.stores.sqlite.job_thread import Job, JobAnswer, JobThread, deliver
from midcourse.stores.sqlite.write_lock import WriteLock

AT_ONCE = 256
"""The most writes in one transaction: other processes wait as long as it takes."""


class _Undone(Exception):
    """One write failed so that SQLite took the whole transaction back by itself."""


class WriteThread:
    """Does each write in a savepoint of a shared transaction, and answers after the COMMIT, never before."""

    def __init__(self, connection: sqlite3.Connection, turn: WriteLock, path: Path, name: str) -> None:
        self._connection = connection
        self._turn = turn
        self._path = path
        self._file = _identity(path)
        self._log = Path(f"{path}-wal")
        self._log_file: tuple[int, int] | None = None
        self.commits = 0
        self.writes = 0
        self._job_thread: JobThread[sqlite3.Connection] = JobThread(
            store=name, serve=self._serve, end=self._end, at_once=AT_ONCE
        )

        self.submit = self._job_thread.submit
        """Enqueue a write; its future resolves once it is committed, or was rolled back alone with its error."""

    def start(self) -> None:
        self._job_thread.start()

    async def close(self) -> None:
        """Finish what was enqueued, and close the connection."""
        await self._job_thread.close()

    def _serve(self, jobs: list[Job[sqlite3.Connection]]) -> None:
        deliver(self._transaction(jobs))

    def _transaction(self, jobs: list[Job[sqlite3.Connection]]) -> list[JobAnswer]:
        connection = self._connection
        try:
            self._turn.begin(connection)
            answers = [self._write(job) for job in jobs]
            connection.execute("COMMIT")
            self._check_file()
        except _Undone as undone:
            if len(jobs) == 1:
                return [JobAnswer(jobs[0].future, None, self._told(undone.__cause__ or undone))]
            # One that does not fit must not take the others along: each gets a transaction of its own.
            return [answer for job in jobs for answer in self._transaction([job])]
        except Exception as error:  # noqa: BLE001 - whatever it is, the whole batch gets it, and the thread lives on
            self._roll_back()
            # A copy for each: a traceback that grows in one task is not another task's.
            return [JobAnswer(job.future, None, copy(self._told(error))) for job in jobs]
        self.commits += 1
        self.writes += len(jobs)
        return answers

    def _write(self, job: Job[sqlite3.Connection]) -> JobAnswer:
        connection = self._connection
        connection.execute("SAVEPOINT one")
        try:
            value = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise _Undone from error
            connection.execute("ROLLBACK TO one")
            answer = JobAnswer(job.future, None, self._told(error))
        else:
            answer = JobAnswer(job.future, value, None)
        connection.execute("RELEASE one")
        return answer

    def _told(self, error: BaseException) -> BaseException:
        return explained(error, self._path) if isinstance(error, FAILURES) else error

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the next BEGIN says what is wrong with the connection

    def _check_file(self) -> None:
        """Check that the file was not deleted, replaced or emptied: it would accept commits and lose them all.

        So would the write-ahead log beside it, which SQLite itself never replaces while a connection is open.
        """
        if _identity(self._path) != self._file:
            raise _replaced(self._path)
        log = _identity(self._log)
        if self._log_file is None:
            self._log_file = log
        if log != self._log_file or (log is not None and not _is_log(self._log)):
            raise _replaced(self._log)

    def _end(self) -> None:
        self._turn.close()
        self._connection.close()


_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""The first bytes of a write-ahead log of SQLite."""


def _replaced(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} was removed, replaced or emptied while it was open: what is written now is not kept. "
        "Stop this program, put the file back or open the new one, and start again.",
        code="store_replaced",
        path=str(path),
    )


def _is_log(path: Path) -> bool:
    """Return True if it begins as one, or is empty, as another process' checkpoint may leave it."""
    try:
        with open(path, "rb", buffering=0) as log:
            return log.read(4) in (b"", *_LOG_MAGIC)
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
