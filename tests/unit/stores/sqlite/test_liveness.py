"""A worker lives exactly as long as its process: seen with real processes."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from midcourse.core.ids import Epoch, SessionId, WorkerId
from midcourse.errors import OwnerAlive, StoreUnavailable
from midcourse.ports.store import Append
from midcourse.stores.sqlite import SqliteStore, locks
from midcourse.stores.sqlite.connection import workers_folder
from midcourse.testing.store_promises.fixtures import ALICE, SESSION, head, owned, rows
from tests.unit.stores.sqlite.processes import owner

CHILD = SessionId("sess_child")


def lock_files(path: Path) -> set[str]:
    return {file.name for file in workers_folder(path).glob("*.lock")}


async def test_a_killed_process_is_dead_at_once(path: Path, store: SqliteStore) -> None:
    await store.enlist(ALICE, "")
    with owner(path) as program:
        assert (await store.head(CHILD)).alive
        with pytest.raises(OwnerAlive):
            await store.take(CHILD, ALICE)
        program.signal(signal.SIGKILL)
        assert not (await store.head(CHILD)).alive
        assert [one.head.id for one in await store.unattended(["running"], 0.0)] == [CHILD]
        assert (await store.take(CHILD, ALICE)).epoch == Epoch(2)


async def test_a_stopped_process_is_alive_and_is_fenced_by_nobody(path: Path, store: SqliteStore) -> None:
    await store.enlist(ALICE, "")
    with owner(path) as program:
        program.signal(signal.SIGSTOP)
        assert (await store.head(CHILD)).alive
        assert list(await store.unattended(["running"], 0.0)) == []
        with pytest.raises(OwnerAlive):
            await store.take(CHILD, ALICE)
        program.signal(signal.SIGCONT)
        assert program.ask("append") == "appended"


async def test_a_process_that_ends_by_itself_leaves_nothing_behind(path: Path, store: SqliteStore) -> None:
    with owner(path) as program:
        assert lock_files(path) == {"worker_child.lock"}
        program.tell("end")
        assert program.wait() == 0
        assert lock_files(path) == set()
        assert not (await store.head(CHILD)).alive


async def test_looking_at_a_live_worker_does_not_disturb_it(path: Path, store: SqliteStore) -> None:
    with owner(path) as program:
        for _ in range(50):
            assert (await store.head(CHILD)).alive
        assert program.ask("append") == "appended"


async def test_a_store_that_looks_at_its_own_worker_keeps_it_alive(path: Path, store: SqliteStore) -> None:
    """Closing any descriptor of the lock file would drop the lock: the own one must not be opened again."""
    await owned(store)
    peer = await SqliteStore.open(path)
    for one in (store, peer):
        assert (await one.head(SESSION)).alive
        await one.unattended(["running"], 0.0)
    with owner(path) as program:  # in whose process no list of held locks helps
        assert program.ask("append") == "appended"
    assert (await peer.head(SESSION)).alive
    await peer.close()


async def test_each_look_for_changes_is_a_heartbeat_of_the_worker_and_of_no_other(
    path: Path, store: SqliteStore
) -> None:
    await owned(store)
    peer = await SqliteStore.open(path)
    (file,) = workers_folder(path).glob("*.lock")
    os.utime(file, (5.0, 5.0))
    await peer.changed()
    assert (await peer.head(SESSION)).heartbeat == 5.0
    await store.changed()
    beat = (await peer.head(SESSION)).heartbeat
    assert beat is not None
    assert beat > 5.0
    store.abandon()
    await store.changed()
    assert (await peer.head(SESSION)).heartbeat is None, "it is dead"
    await peer.close()


async def test_the_lock_of_a_worker_is_seen_by_another_process(path: Path, store: SqliteStore) -> None:
    await owned(store)
    code = (
        "import asyncio, sys\n"
        "from midcourse.stores.sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = await SqliteStore.open(sys.argv[1])\n"
        "    print((await store.head('sess_1')).alive)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    assert await _output(code, path) == "True"
    store.abandon()
    assert await _output(code, path) == "False"
    assert lock_files(path) == set()  # who noticed the death removed the file


async def test_a_forked_child_does_not_keep_its_parent_alive(path: Path, store: SqliteStore) -> None:
    with owner(path) as program:
        word, parent, child = program.ask("fork").split()
        assert (word, int(parent)) == ("forked", program.pid)
        try:
            program.signal(signal.SIGKILL)
            os.kill(int(child), 0)  # the child lives
            assert not (await store.head(CHILD)).alive
        finally:
            os.kill(int(child), signal.SIGKILL)


async def test_a_child_that_ends_does_not_end_its_parents_life(path: Path, store: SqliteStore) -> None:
    with owner(path) as program:
        child = int(program.ask("fork").split()[2])
        os.kill(child, signal.SIGKILL)
        assert (await store.head(CHILD)).alive
        assert program.ask("append") == "appended"


async def test_a_store_opened_before_fork_is_refused_in_the_child(path: Path, store: SqliteStore) -> None:
    code = """
import asyncio, os, sys
from midcourse.ports.store import Append
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_promises.fixtures import head, owned, rows, started, SESSION

async def opened():
    store = await SqliteStore.open(sys.argv[1])
    return store, await owned(store)

async def used(store, epoch):
    await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))
    print((await store.head(SESSION)).alive)
    await store.close()

async def refused(store):
    for attempt in (
        lambda: store.head(SESSION), lambda: store.put(SESSION, "cmd", b"", 1.0), lambda: store.heads(),
        lambda: store.take(SESSION, "worker_alice"), lambda: store.close(), lambda: store.enlist("worker_x", ""),
        lambda: store.append(Append(head(position=2), rows(2, 2), epoch=1)), lambda: started(store, "sess_x"),
    ):
        try:
            await attempt()
        except Exception as error:
            if getattr(error, "code", "") == "store_forked" and "in the child" in str(error):
                continue
            print(repr(error), flush=True)
        os._exit(1)
    again = await SqliteStore.open(sys.argv[1])
    assert (await again.head(SESSION)).alive
    await again.close()
    os._exit(0)

with asyncio.Runner() as runner:
    store, epoch = runner.run(opened())
    child = os.fork()
    if child == 0:
        asyncio.run(refused(store))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    runner.run(used(store, epoch))
"""
    assert await _output(code, path) == "True"


async def test_a_refused_fork_names_what_to_do(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midcourse.stores.sqlite.job_thread.generation", lambda: 1_000)
    with pytest.raises(StoreUnavailable, match="Open it again in the child"):
        await store.head(SESSION)


async def test_the_file_of_a_worker_nobody_knew_is_removed(path: Path, store: SqliteStore) -> None:
    (workers_folder(path) / "died_before_it_was_known.lock").touch()
    await store.enlist(ALICE, "")
    assert lock_files(path) == {f"{ALICE}.lock"}


async def test_lock_files_and_their_folder_are_private(path: Path, store: SqliteStore) -> None:
    await store.enlist(ALICE, "")
    assert workers_folder(path).stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in workers_folder(path).iterdir()} == {0o600}


def test_a_lock_that_was_dropped_twice_is_dropped_once(tmp_path: Path) -> None:
    worker = WorkerId("worker_twice")
    lock = locks.WorkerLock.acquire(tmp_path, worker)
    lock.drop(remove=True)
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    lock.drop(remove=True)  # must not close what has the descriptor's number now
    os.close(other)
    assert not locks.is_alive(tmp_path, worker)


async def test_the_owner_of_a_dead_process_cannot_write_after_a_takeover(path: Path, store: SqliteStore) -> None:
    epoch = await owned(store)
    store.abandon()
    taker = await SqliteStore.open(path)
    await taker.enlist(WorkerId("worker_taker"), "")
    await taker.take(SESSION, WorkerId("worker_taker"))
    with pytest.raises(Exception, match="Nothing was written"):
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))
    await taker.close()


async def _output(code: str, path: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", code, str(path), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().strip()
