"""A backup is whole although programs write while it is made, and what is restored of it waits for a person."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import midcourse
from midcourse.errors import Damaged, InvalidInput, StoreUnavailable
from midcourse.wiring import back_up, restore
from tests.upkeep import load_program


def nothing(*_: object) -> None:
    """Nobody is told how far it is."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "midcourse.db"


@pytest.fixture
def load(store: Path, tmp_path: Path) -> Iterator[None]:
    """Another process writes all the time."""
    command = [sys.executable, "-m", "tests.upkeep.load_program", f"sqlite:///{store}", str(tmp_path / "lines")]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "busy\n"
            yield
        finally:
            process.kill()


@pytest.mark.usefixtures("load")
async def test_a_backup_under_load_is_restored_with_what_was_unfinished_halted(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    await asyncio.to_thread(back_up, store, tmp_path / "backup.db", lambda done, every: told.append((done, every)))
    assert told[-1][0] == told[-1][1] > 0
    restored = await restore(tmp_path / "backup.db", tmp_path / "new" / "midcourse.db", nothing)
    assert (restored.ended, sorted(restored.halted), restored.failed) == (3, [f"long{n}" for n in range(4)], {})
    in_flight = {session: step for session, (step,) in restored.unknown.items()}

    # It goes on here, on its own lines: the original still runs, and what it does is not to be taken for ours.
    lines = tmp_path / "lines of the restored"
    lines.touch()
    monkeypatch.setenv("MIDCOURSE_TEST_LINES", str(lines))
    async with midcourse.open(f"sqlite:///{tmp_path}/new/midcourse.db") as mc:
        for number in range(3):
            done = await mc.get(f"short{number}")
            assert await done.result() == 1
        for session in restored.halted:
            state = await (await mc.get(session)).state()
            assert (state.status, state.halted_by) == ("halted", "restore")
            assert state.lost == restored.unknown.get(session, ())
        assert lines.read_text() == ""  # nobody goes on before somebody says so
        chosen = next(iter(in_flight), restored.halted[0])
        handle = await mc.get(chosen)
        before = await handle.state()
        await handle.lift(by="ann")
        if chosen in in_flight:
            ask = await handle.next_ask(timeout=10)
            assert "happen" in ask.prompt
            await handle.answer("yes", ask=ask.id)
        async for event in handle.watch(follow=True):
            if event.type == "step.finished" and event.position > before.position + 20:
                break
        await handle.cancel(until="stopped")
        again = Counter(int(line.split()[1]) for line in lines.read_text().splitlines())
        assert min(again) >= before.finished_steps
        assert set(again.values()) == {1}


async def test_epochs_rise_and_nobody_of_the_old_life_is_known(store: Path, tmp_path: Path) -> None:
    async with midcourse.open(f"sqlite:///{store}") as mc:
        handle = await mc.start(load_program.noter, "x 0")
        await handle.result()
        await asyncio.to_thread(back_up, store, tmp_path / "backup.db", nothing)
    await restore(tmp_path / "backup.db", tmp_path / "new.db", nothing)
    with closing(sqlite3.connect(store)) as old, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        (before,) = old.execute("SELECT epoch FROM sessions").fetchone()
        assert new.execute("SELECT epoch > ?, owner FROM sessions", (before,)).fetchone() == (1, None)
        assert new.execute("SELECT count(*) FROM workers").fetchone() == (0,)


async def test_neither_a_backup_nor_a_restore_overwrites_anything(store: Path, tmp_path: Path) -> None:
    async with midcourse.open(f"sqlite:///{store}"):
        pass
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidInput, match="already"):
        back_up(store, tmp_path / "taken", nothing)
    back_up(store, tmp_path / "backup.db", nothing)
    with pytest.raises(InvalidInput, match="already"):
        await restore(tmp_path / "backup.db", tmp_path / "taken", nothing)
    assert (tmp_path / "taken").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


async def test_what_is_no_store_is_neither_backed_up_nor_restored(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no store"):
        back_up(tmp_path / "nowhere.db", tmp_path / "backup.db", nothing)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE of_another_program (x)")
    with pytest.raises(StoreUnavailable, match="not a Midcourse store"):
        await restore(tmp_path / "other.db", store, nothing)
    assert not store.exists()


async def test_a_damaged_backup_is_not_restored(store: Path, tmp_path: Path) -> None:
    async with midcourse.open(f"sqlite:///{store}") as mc:
        for number in range(5):
            await (await mc.start(load_program.noter, "x 0", session_id=f"s{number}")).result()
    back_up(store, tmp_path / "backup.db", nothing)
    os.truncate(tmp_path / "backup.db", (tmp_path / "backup.db").stat().st_size // 2)
    with pytest.raises(Damaged):
        await restore(tmp_path / "backup.db", tmp_path / "new.db", nothing)
    assert not (tmp_path / "new.db").exists()


async def test_compaction_says_so_if_somebody_reads_all_the_time(store: Path) -> None:
    from midcourse.stores.sqlite.maintenance import compact

    async with midcourse.open(f"sqlite:///{store}") as mc:
        await (await mc.start(load_program.noter, "x 0")).result()
        with closing(sqlite3.connect(store, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM journal").fetchone()
            with pytest.raises(StoreUnavailable, match="may still be in the log"):
                await asyncio.to_thread(compact, store, patience=0.05)
            reader.execute("ROLLBACK")
        before, after = await asyncio.to_thread(compact, store)
        assert after <= before
        assert store.with_name("midcourse.db-wal").stat().st_size == 0
