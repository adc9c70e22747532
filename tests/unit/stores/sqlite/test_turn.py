"""A writer waits for another program's transaction, briefly and not for ever."""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from midcourse.core.ids import CommandId, SessionId
from midcourse.errors import StoreUnavailable
from midcourse.stores.sqlite import SqliteStore, write_lock
from midcourse.stores.sqlite.write_lock import WriteLock
from midcourse.testing.store_promises.fixtures import ALICE, SESSION, owned, started
from tests.unit.stores.sqlite.processes import owner


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def test_a_writer_waits_for_its_turn(store: SqliteStore, other: sqlite3.Connection) -> None:
    await started(store)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(store.put(SESSION, CommandId("cmd_1"), b"", 1.0))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    other.execute("ROLLBACK")
    assert (await waiting).id == "cmd_1"


async def test_a_read_does_not_wait(store: SqliteStore, other: sqlite3.Connection) -> None:
    await started(store)
    other.execute("BEGIN IMMEDIATE")
    assert (await store.head(SESSION)).head.id == SESSION
    assert len(await store.heads()) == 1
    other.execute("ROLLBACK")


async def test_a_writer_gives_up_and_names_who_may_hold_the_file(path: Path, store: SqliteStore) -> None:
    await owned(store)
    impatient = await SqliteStore.open(path, _patience=0.02)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answers = await asyncio.gather(
            *(impatient.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0) for number in range(3)),
            return_exceptions=True,
        )
        other.execute("ROLLBACK")
    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert answer.code == "store_busy"
        assert f"process {os.getpid()}" in str(answer)
    assert len({id(answer) for answer in answers}) == 3
    assert list(await store.undecided(SESSION)) == []
    await impatient.close()


@pytest.mark.parametrize(("each", "tries"), [(0.2, 6), (3600.0, 2)])
def test_a_writer_counts_the_time_that_passes_on_a_busy_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch, each: float, tries: int
) -> None:
    """A pause may take longer than it was to: only an hour in which the process was stopped counts as a moment."""
    now, pauses = 0.0, 0

    def sleep(_seconds: float) -> None:
        nonlocal now, pauses
        now, pauses = now + each, pauses + 1

    monkeypatch.setattr(write_lock, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now))
    with closing(sqlite3.connect(path, isolation_level=None)) as holder, closing(sqlite3.connect(path)) as waiting:
        holder.execute("BEGIN IMMEDIATE")
        waiting.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(StoreUnavailable, match="for 1.1 s"):
            write_lock.patiently(lambda: waiting.execute("BEGIN IMMEDIATE"), path, 1.1)
    assert pauses == tries


async def test_a_command_gets_in_beside_a_program_that_writes_all_the_time(path: Path, store: SqliteStore) -> None:
    await started(store)
    peer = await SqliteStore.open(path)
    busy = True

    async def write_all_the_time(number: int) -> None:
        count = 0
        while busy:
            count += 1
            await peer.put(SESSION, CommandId(f"noise_{number}_{count}"), b"", 1.0)

    writing = [asyncio.create_task(write_all_the_time(number)) for number in range(50)]
    for number in range(20):
        await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
    busy = False
    await asyncio.gather(*writing)
    await peer.close()


async def test_two_processes_write_to_one_file(path: Path, store: SqliteStore) -> None:
    await owned(store)
    with owner(path) as program:
        for number in range(30):
            program.tell("append")
            await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
            assert program.hear() == "appended"
    assert (await store.head(SessionId("sess_child"))).head.position == 31


def test_room_is_left_for_one_that_waits_but_not_for_ever(tmp_path: Path) -> None:
    """One that was stopped while it waited must not slow every transaction down."""
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        turn = WriteLock(tmp_path / "x.db", tmp_path / "turn")
        waiting = os.open(tmp_path / "turn", os.O_RDWR)
        fcntl.flock(waiting, fcntl.LOCK_SH)
        for _ in range(100):
            turn.begin(connection)
            connection.execute("ROLLBACK")
        os.close(waiting)
        turn.close()


async def test_the_waiting_is_over_when_the_write_is(path: Path, store: SqliteStore, other: sqlite3.Connection) -> None:
    await started(store)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(store.put(SESSION, CommandId("cmd_1"), b"", 1.0))
    await asyncio.sleep(0.02)
    descriptor = os.open(path.with_name(path.name + "-workers") / "turn", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other.execute("ROLLBACK")
    await waiting
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


async def test_enlisting_waits_for_its_turn_too(store: SqliteStore, other: sqlite3.Connection) -> None:
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(store.enlist(ALICE, ""))
    await asyncio.sleep(0.02)
    other.execute("ROLLBACK")
    await waiting
