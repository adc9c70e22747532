"""The writer groups what waits, answers after the commit, and fails alone what fails alone."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from midcourse.core.codec import Blob, digest_of
from midcourse.core.ids import CommandId, Epoch, Position, SessionId
from midcourse.errors import StoreFull, StoreUnavailable
from midcourse.ports.store import Append
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_promises.fixtures import ALICE, SESSION, head, owned, rows, started
from tests.unit.stores.sqlite.processes import Program


async def test_writes_that_wait_together_share_a_commit(store: SqliteStore) -> None:
    await store.enlist(ALICE, "")
    before = store.writer.commits
    await asyncio.gather(*(started(store, SessionId(f"sess_{number}"), worker=ALICE) for number in range(500)))
    assert store.writer.commits - before <= 20  # at most 256 in one, and the first few alone


async def test_one_write_after_another_has_a_commit_each(store: SqliteStore) -> None:
    await started(store)
    before = store.writer.commits
    for number in range(10):
        await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
    assert store.writer.commits - before == 10


async def test_an_answer_is_given_after_the_commit(path: Path, store: SqliteStore) -> None:
    """Whoever was answered can be read by another connection: the transaction is over."""
    await started(store)
    with closing(sqlite3.connect(path)) as connection:
        for number in range(50):
            await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
            assert connection.execute("SELECT count(*) FROM inbox").fetchone() == (number + 1,)


@pytest.fixture
async def small(path: Path) -> SqliteStore:
    """A store that may not grow beyond a few pages: SQLite answers as on a full disk."""
    return await SqliteStore.open(path, _pragmas={"max_page_count": 60})


async def test_a_full_disk_is_told_and_nothing_is_written(path: Path, small: SqliteStore) -> None:
    epoch = await owned(small)
    content = b"x" * 1_000_000
    with pytest.raises(StoreFull, match="No space is left") as refused:
        await small.append(Append(head(position=2), rows(2, 2), epoch=epoch, blobs=[Blob(digest_of(content), content)]))
    assert refused.value.code == "store_full"
    assert (await small.head(SESSION)).head.position == 1
    assert len(await small.read(SESSION, Position(0))) == 1
    await small.append(Append(head(position=2), rows(2, 2), epoch=epoch))  # what fits is still taken
    await small.close()
    again = await SqliteStore.open(path)
    assert (await again.head(SESSION)).head.position == 2
    await again.close()


async def test_what_does_not_fit_takes_no_other_write_with_it(small: SqliteStore) -> None:
    epoch = await owned(small)
    content = b"x" * 1_000_000
    answers = await asyncio.gather(
        small.put(SESSION, CommandId("cmd_1"), b"", 1.0),
        small.append(Append(head(position=2), rows(2, 2), epoch=epoch, blobs=[Blob(digest_of(content), content)])),
        small.put(SESSION, CommandId("cmd_2"), b"", 1.0),
        return_exceptions=True,
    )
    assert [type(answer).__name__ for answer in answers] == ["InboxRow", "StoreFull", "InboxRow"]
    assert [row.id for row in await small.undecided(SESSION)] == ["cmd_1", "cmd_2"]
    await small.close()


def test_a_commit_that_fails_fails_everybody_in_it(path: Path) -> None:
    """A child whose files may not grow commits into its log: every write of the batch is refused, none is there."""
    with Program("failing_commit.py", path) as program:
        assert program.hear() == "5 refused: StoreUnavailable"
        assert program.hear() == "0 there"
        assert program.hear() == "5 accepted later"
        assert program.hear() == "5 there"
        assert program.wait() == 0


async def test_a_file_that_was_removed_is_noticed(path: Path, store: SqliteStore) -> None:
    await started(store)
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(StoreUnavailable, match="removed, replaced or emptied") as refused:
        await store.put(SESSION, CommandId("cmd_1"), b"", 1.0)
    assert refused.value.code == "store_replaced"
    path.with_suffix(".moved").rename(path)
    await store.put(SESSION, CommandId("cmd_2"), b"", 1.0)


@pytest.mark.parametrize("harm", ["removed", "replaced", "emptied"])
async def test_a_write_ahead_log_that_was_removed_or_emptied_is_noticed(
    path: Path, store: SqliteStore, harm: str
) -> None:
    """What is committed into it from then on would be gone with the process."""
    await started(store)
    log = path.with_name(f"{path.name}-wal")
    if harm == "emptied":
        os.truncate(log, 0)
    else:
        log.unlink()
    if harm == "replaced":
        log.write_bytes(b"something else")
    with pytest.raises(StoreUnavailable, match="-wal was removed, replaced or emptied") as refused:
        await store.put(SESSION, CommandId("cmd_1"), b"", 1.0)
    assert refused.value.code == "store_replaced"


async def test_a_log_that_another_process_has_checkpointed_is_no_damage(path: Path, store: SqliteStore) -> None:
    await started(store)
    for number in range(3):
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)


async def test_an_error_of_our_own_belongs_to_its_caller(store: SqliteStore) -> None:
    await started(store)

    def fail(_: sqlite3.Connection) -> None:
        raise RuntimeError("on purpose")

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM sessions")
        raise RuntimeError("after a change")

    answers = await asyncio.gather(
        store.writer.submit(fail),
        store.writer.submit(spoil),
        store.put(SESSION, CommandId("cmd_1"), b"", 1.0),
        return_exceptions=True,
    )
    assert [type(answer).__name__ for answer in answers] == ["RuntimeError", "RuntimeError", "InboxRow"]


async def test_a_value_that_sqlite_cannot_take_hurts_nobody_else(store: SqliteStore) -> None:
    await started(store)
    answers = await asyncio.gather(
        store.put(SESSION, CommandId("cmd_1"), b"", 1.0),
        store.save_snapshot(SESSION, Position(2**40), b"", epoch=Epoch(1)),
        store.put(SESSION, CommandId("cmd_2"), b"", 1e999),
        store.save_snapshot(SESSION, Position(2**80), b"", epoch=Epoch(1)),
        store.put(SESSION, CommandId("cmd_3"), b"", 1.0),
        return_exceptions=True,
    )
    assert isinstance(answers[3], OverflowError)
    assert [row.id for row in await store.undecided(SESSION)] == ["cmd_1", "cmd_2", "cmd_3"]


async def test_however_many_of_those_that_wait_fail_each_has_the_answer_it_has_alone(store: SqliteStore) -> None:
    """A failed write is taken back with all that shared its transaction; the others are done again, in order."""
    await started(store)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM inbox")
        raise RuntimeError("after a change")

    writes = [
        store.writer.submit(fail) if number % 3 == 1 else store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
        for number in range(300)
    ]
    answers = await asyncio.gather(*writes, return_exceptions=True)
    kept = [f"cmd_{number}" for number in range(300) if number % 3 != 1]
    assert [isinstance(answer, RuntimeError) for answer in answers] == [number % 3 == 1 for number in range(300)]
    assert [row.id for row in await store.undecided(SESSION)] == kept
    assert [row.seq for row in await store.undecided(SESSION)] == list(range(1, 201))
