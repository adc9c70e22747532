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


class _Failed(Exception):
    """The write ``at`` this place in a transaction failed; its cause is why."""

    def __init__(self, at: int) -> None:
        self.at = at


class WriteThread:
    """Does the writes that wait in a shared transaction, and answers after the COMMIT, never before."""

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
        answers: list[JobAnswer] = []
        left = [jobs]
        while left:
            jobs = left.pop()
            try:
                answers += self._transaction(jobs)
            except _Failed as failed:
                at = failed.at
                if len(jobs) == 1:
                    answers.append(JobAnswer(jobs[at].future, None, self._told(failed.__cause__ or failed)))
                    continue
                # It must not take the others along: they are done again without it, in the same order.
                left += [part for part in (jobs[at + 1 :], jobs[at : at + 1], jobs[:at]) if part]
        deliver(answers)

    def _transaction(self, jobs: list[Job[sqlite3.Connection]]) -> list[JobAnswer]:
        connection, answers = self._connection, list[JobAnswer]()
        try:
            self._turn.begin(connection)
            for job in jobs:
                try:
                    answers.append(JobAnswer(job.future, job.work(connection), None))
                except Exception as error:
                    raise _Failed(len(answers)) from error
            connection.execute("COMMIT")
            self._check_file()
        except _Failed:
            self._roll_back()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the whole batch gets it, and the thread lives on
            self._roll_back()
            # A copy for each: a traceback that grows in one task is not another task's.
            return [JobAnswer(job.future, None, copy(self._told(error))) for job in jobs]
        self.commits += 1
        self.writes += len(jobs)
        return answers

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
