"""What is long is stored compressed: it comes back as it was, and damage to it is noticed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.codec import chain
from midcourse.core.fold import Row
from midcourse.core.ids import Position
from midcourse.errors import Damaged
from midcourse.ports.store import Append
from midcourse.runtime.session_loader import read_events
from midcourse.stores.sqlite import SqliteStore
from midcourse.stores.sqlite.rows import PACKED, packed, unpacked
from midcourse.testing.store_promises.fixtures import SESSION, head, owned, rows

LONG = b'{"at":1.0,"event":{"type":"segment.written@1","step":"1/say#1","attempt":1,"offset":0,"text":"%s"}}' % (
    b"a " * PACKED
)


def long_row() -> Row:
    """The second row of a journal."""
    return Position(2), LONG, chain(rows(1, 1)[0][2], 2, LONG)


@pytest.fixture
async def written(path: Path) -> Path:
    """A closed store with a long record and a long snapshot."""
    store = await SqliteStore.open(path)
    epoch = await owned(store)
    await store.append(Append(head(position=2), [long_row()], epoch=epoch))
    await store.save_snapshot(SESSION, Position(2), LONG, epoch=epoch)
    await store.close()
    return path


@given(st.binary(max_size=20) | st.binary(max_size=4).map(lambda piece: (b"x" + piece) * PACKED))
def test_whatever_is_stored_comes_back(content: bytes) -> None:
    assert unpacked(packed(content)) == content
    assert unpacked(packed(b"x" + content)) == b"x" + content


def test_what_is_short_is_stored_as_it_is() -> None:
    assert packed(LONG[: PACKED - 1]) == LONG[: PACKED - 1]
    assert len(packed(LONG)) < PACKED


async def test_a_long_record_and_a_long_snapshot_take_less_than_they_hold(written: Path) -> None:
    with closing(sqlite3.connect(written)) as connection:
        ((record,),) = connection.execute("SELECT record FROM journal WHERE place % 4294967296 = 2").fetchall()
        ((snapshot,),) = connection.execute("SELECT content FROM snapshots").fetchall()
    assert max(len(record), len(snapshot)) < len(LONG) / 4
    store = await SqliteStore.open(written)
    assert await store.read(SESSION, Position(1)) == [long_row()]
    assert await store.snapshots(SESSION) == [LONG]
    await store.close()


@pytest.mark.parametrize(
    "change", ["record || x'20'", "substr(record, 1, length(record) - 1)", "x'78'", "x'789c' || record"]
)
async def test_a_compressed_record_that_was_changed_is_damaged(written: Path, change: str) -> None:
    """Also by bytes behind its end, which unpacking alone would not miss."""
    with closing(sqlite3.connect(written, isolation_level=None)) as connection:
        connection.execute(f"UPDATE journal SET record = CAST({change} AS BLOB) WHERE place % 4294967296 = 2")
    store = await SqliteStore.open(written)
    with pytest.raises(Damaged, match="position 2"):
        await read_events(store, SESSION, Position(1))
    await store.close()


async def test_a_store_from_before_is_read_and_continued(written: Path) -> None:
    with closing(sqlite3.connect(written, isolation_level=None)) as connection:
        connection.execute("UPDATE journal SET record = ? WHERE place % 4294967296 = 2", (LONG,))
        connection.execute("UPDATE meta SET value = '3' WHERE name = 'schema'")
    store = await SqliteStore.open(written)
    assert await store.read(SESSION, Position(1)) == [long_row()]
    with closing(sqlite3.connect(written)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() == ("4",)
    await store.close()
