"""Bytes of the file are flipped at random: what is read is what was written, or an error, or missing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from midcourse.core.codec import GENESIS, Blob, chain, check_blob, digest_of
from midcourse.core.ids import CommandId, Position, SessionId, WorkerId
from midcourse.errors import Damaged, MidcourseError
from midcourse.ports.store import Append, Deciding, Store
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_promises.fixtures import ALICE, head, rows, started
from tests.unit.stores.sqlite.damaged_copy import CHANGES, spoiled

SESSIONS = [SessionId(f"sess_{number}") for number in range(4)]
BLOB = Blob(digest_of(b"blob" * 3_000), b"blob" * 3_000)


async def _fill(path: Path) -> None:
    store = await SqliteStore.open(path, durability="process")
    await store.enlist(ALICE, "here")
    for session_id in SESSIONS:
        epoch = await started(store, session_id, worker=ALICE, wake_at=5.0)
        await store.append(
            Append(head(session_id, 30, wake_at=5.0), rows(2, 30, before=rows(1, 1)[0][2]), epoch=epoch, blobs=[BLOB])
        )
        for command in ("cmd_1", "cmd_2", "cmd_3"):
            await store.put(session_id, CommandId(command), command.encode() * 5, 5.0)
        await store.append(
            Append(head(session_id, 30, wake_at=5.0), epoch=epoch, deciding=Deciding(CommandId("cmd_1"), b"done"))
        )
        for position in (10, 20):
            await store.save_snapshot(session_id, Position(position), b"snapshot %d" % position, epoch=epoch)
    await store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "midcourse.db"
    asyncio.run(_fill(path))
    return path


@given(CHANGES)
def test_damage_is_never_followed(whole: Path, changes: list[tuple[int, int]]) -> None:
    with spoiled(whole, changes) as path:
        asyncio.run(_check(path))


async def _check(path: Path) -> None:
    try:
        store = await SqliteStore.open(path, durability="process")
    except MidcourseError:
        return
    try:
        await store.enlist(WorkerId("worker_reader"), "")
        for session_id in SESSIONS:
            await _check_session(store, session_id)
        listed = await _or_error(store.heads())
        assert all(one == head(one.id, 30, wake_at=5.0) for one in listed or ())
        blob = await _or_error(store.blobs([BLOB.digest]))
        if blob is not None and blob[0] is not None and blob[0] != BLOB.content:
            with pytest.raises(Damaged):
                check_blob(BLOB.digest, blob[0])
    except MidcourseError:
        pass
    finally:
        await store.close()


async def _check_session(store: Store, session_id: SessionId) -> None:
    known = await _or_error(store.head(session_id))
    if known is not None:
        assert known.head == head(session_id, 30, wake_at=5.0)
        assert (known.epoch, known.owner) == (1, ALICE)
    before = GENESIS
    for position, record, digest in await _or_error(store.read(session_id, Position(0))) or ():
        if chain(before, position, record) != digest:
            break  # noticed by whoever folds it
        assert record == b'{"n":%d}' % position
        before = digest
    assert set(await _or_error(store.snapshots(session_id)) or ()) <= {b"snapshot 10", b"snapshot 20"}
    for row in await _or_error(store.undecided(session_id)) or ():
        assert row.content in (b"", row.id.encode() * 5)
        assert row.id != "cmd_1" or not row.content
    row = await _or_error(store.row(session_id, CommandId("cmd_1")))
    if row is not None:
        assert (row.content, row.outcome, row.put_at) == (b"cmd_1" * 5, b"done", 5.0)
    waiting = await _or_error(store.undecided(session_id))
    taken = await _or_error(store.take(session_id, WorkerId("worker_reader")))
    if taken is not None:
        assert (taken.head, taken.epoch) == (head(session_id, 30, wake_at=5.0), 2)
        assert waiting is None or len(waiting) == 2  # no command is lost without a word


async def _or_error(answer: Any) -> Any:
    try:
        return await answer
    except MidcourseError:
        return None
