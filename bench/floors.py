"""What cannot be beaten on this machine: a bare commit, a bare cancel, a bare message. Measured, never assumed."""

import asyncio
import contextlib
import queue
import random
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from bench import children, effects
from bench.harness import median


def connect(path: Path) -> sqlite3.Connection:
    """A bare connection with the same safety: WAL, synchronous FULL."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS journal (session INTEGER, position INTEGER, record BLOB)")
    return connection


def commit(connection: sqlite3.Connection, record: bytes) -> None:
    """One bare insert and commit."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO journal VALUES (1, 1, ?)", (record,))
    connection.execute("COMMIT")


def commits_ms(path: Path, *, size: int = 300, repeats: int = 300) -> list[float]:
    """Bare commits, one after the other."""
    taken: list[float] = []
    with contextlib.closing(connect(path)) as connection:
        for number in range(repeats):
            record = f"{number:>{size}}".encode()
            start = time.perf_counter()
            commit(connection, record)
            taken.append((time.perf_counter() - start) * 1000)
    return taken


def commit_ms(path: Path, *, size: int = 300, repeats: int = 300) -> float:
    """The median of a bare commit."""
    return median(commits_ms(path, size=size, repeats=repeats))


def read_ms(path: Path, *, rows: int, size: int = 300, repeats: int = 20) -> float:
    """The median of reading so many bare rows in a fresh connection."""
    with contextlib.closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO journal VALUES (2, ?, ?)", ((n, b"x" * size) for n in range(rows)))
        connection.execute("COMMIT")
    taken: list[float] = []
    for _ in range(repeats):
        with contextlib.closing(connect(path)) as connection:
            start = time.perf_counter()
            connection.execute("SELECT record FROM journal WHERE session = 2").fetchall()
            taken.append((time.perf_counter() - start) * 1000)
    return median(taken)


# ---- stops


async def work() -> None:
    """A tool call of about a second."""
    await asyncio.sleep(random.uniform(0.5, 1.5))


async def _busy() -> None:
    while True:
        await work()


@contextlib.asynccontextmanager
async def bare_sessions(number: int) -> AsyncGenerator[None]:
    """So many tasks that work, and no more than that."""
    tasks = [asyncio.create_task(_busy()) for _ in range(number)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def cancel_ms(path: Path, *, sessions: int, repeats: int) -> list[float]:
    """From a bare ``task.cancel()`` to the task's last effect, beside tasks that work."""
    taken: list[float] = []
    async with bare_sessions(sessions - 1):
        for _ in range(repeats):
            task = asyncio.create_task(effects.go_on(path))
            await asyncio.sleep(random.uniform(0.002, 0.004))
            click = time.perf_counter()
            task.cancel()
            await asyncio.wait({task})
            taken.append(max(0.0, effects.last(path).moment - click) * 1000)
    return taken


async def cancel_elsewhere_ms(folder: Path, *, sessions: int, repeats: int) -> tuple[list[float], list[float]]:
    """A bare commit, then a bare message to a process that cancels a task: to its answer, and to the last effect."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = folder / "floor-effects"
    answered: list[float] = []
    ended: list[float] = []
    with mine, theirs, contextlib.closing(connect(folder / "floor.db")) as connection:
        arguments = ("floors:cancel_when_told", theirs.fileno(), path, sessions)
        async with children.child(*arguments, descriptors=(theirs.fileno(),)) as other:
            await other.hear()
            for _ in range(repeats):
                before = effects.count(path)
                mine.send(b"go")
                await effects.until_more_than(path, before)
                await asyncio.sleep(random.uniform(0.0, 0.002))
                click = time.perf_counter()
                commit(connection, b"x" * 300)
                mine.send(b"stop")
                mine.recv(16)
                answered.append((time.perf_counter() - click) * 1000)
                ended.append(max(0.0, effects.last(path).moment - click) * 1000)
    return answered, ended


async def cancel_when_told(descriptor: str, path: str, sessions: str) -> None:
    """The child of ``cancel_elsewhere_ms``."""
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=int(descriptor)) as told:
        told.setblocking(False)
        async with bare_sessions(int(sessions) - 1):
            children.say(ready=True)
            while True:
                await loop.sock_recv(told, 16)
                task = asyncio.create_task(effects.go_on(path))
                await loop.sock_recv(told, 16)
                task.cancel()
                await asyncio.wait({task})
                await loop.sock_sendall(told, b"done")


# ---- messages


async def event_ms(*, repeats: int) -> list[float]:
    """From one task's ``event.set()`` to another's waking up."""
    event = asyncio.Event()
    taken: list[float] = []
    set_at = 0.0

    async def wait() -> None:
        for _ in range(repeats):
            await event.wait()
            taken.append((time.perf_counter() - set_at) * 1000)
            event.clear()

    waiting = asyncio.create_task(wait())
    while not waiting.done():
        await asyncio.sleep(EVERY_MESSAGE)
        set_at = time.perf_counter()
        event.set()
    return taken


EVERY_MESSAGE = 0.001


async def message_ms(*, repeats: int) -> list[float]:
    """From a bare datagram's sending in another process to its arrival on this loop."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    mine.setblocking(False)
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    with mine, theirs:
        arguments = ("floors:send_the_time", theirs.fileno(), repeats)
        async with children.child(*arguments, descriptors=(theirs.fileno(),)):
            for _ in range(repeats):
                sent = float(await loop.sock_recv(mine, 64))
                taken.append((time.perf_counter() - sent) * 1000)
    return taken


async def send_the_time(descriptor: str, repeats: str) -> None:
    """The child of ``message_ms``."""
    with socket.socket(fileno=int(descriptor)) as out:
        for _ in range(int(repeats)):
            await asyncio.sleep(EVERY_MESSAGE)
            out.send(b"%.9f" % time.perf_counter())


# ---- many sessions


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
