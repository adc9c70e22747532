"""What cannot be beaten on this machine: a bare commit, a bare group commit, a bare task cancel. Measured, never assumed."""

import asyncio
import queue
import sqlite3
import threading
import time
from pathlib import Path

from bench.harness import median


def connect(path: Path) -> sqlite3.Connection:
    """A bare connection with the same safety: WAL, synchronous FULL."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS journal (session INTEGER, position INTEGER, record BLOB)")
    return connection


def commit_ms(path: Path, size: int = 300, repeats: int = 300) -> float:
    """The median of one bare insert and commit."""
    connection = connect(path)
    taken: list[float] = []
    for number in range(repeats):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO journal VALUES (1, ?, ?)", (number, b"x" * size))
        connection.execute("COMMIT")
        taken.append((time.perf_counter() - start) * 1000)
    connection.close()
    return median(taken)


async def cancel_ms(repeats: int = 300) -> list[float]:
    """From a bare ``task.cancel()`` to the task's end."""
    taken: list[float] = []
    for _ in range(repeats):
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        start = time.perf_counter()
        task.cancel()
        await asyncio.wait({task})
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def group_commit_s(path: Path, *, sessions: int, steps: int, pause: float, appends: int = 2) -> float:
    """Sessions × steps × (sleep, ``appends`` inserts): one writer thread that commits whatever is waiting."""
    connection = connect(path)
    jobs: queue.SimpleQueue[tuple[int, asyncio.Future[None]] | None] = queue.SimpleQueue()
    loop = asyncio.get_running_loop()

    def resolve(done: list[asyncio.Future[None]]) -> None:
        for future in done:
            future.set_result(None)

    def write() -> None:
        while True:
            batch = [jobs.get()]
            while not jobs.empty():
                batch.append(jobs.get_nowait())
            done: list[asyncio.Future[None]] = []
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                if job is not None:
                    connection.execute("INSERT INTO journal VALUES (?, 1, ?)", (job[0], b"x" * 300))
                    done.append(job[1])
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(resolve, done)
            if None in batch:
                return

    thread = threading.Thread(target=write)
    thread.start()

    async def session(number: int) -> None:
        for _ in range(steps):
            for _ in range(appends - 1):
                future: asyncio.Future[None] = loop.create_future()
                jobs.put((number, future))
                await future
            await asyncio.sleep(pause)
            future = loop.create_future()
            jobs.put((number, future))
            await future

    start = time.perf_counter()
    await asyncio.gather(*(session(number) for number in range(sessions)))
    taken = time.perf_counter() - start
    jobs.put(None)
    await asyncio.to_thread(thread.join)
    connection.close()
    return taken
