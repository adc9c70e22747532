"""Bytes of a shelf are flipped at random: what is read is what was put, or an error, or missing."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midcourse.errors import MidcourseError
from midcourse.stores.sqlite import SqliteStore

ITEMS = {f"key/{number:04}": b"%04d" % number * (number + 1) for number in range(300)}
SHELVES = ("one", "two")


async def _fill(path: Path) -> None:
    store = await SqliteStore.open(path, durability="process")
    for shelf in SHELVES:
        await store.shelve(shelf, ITEMS)
    await store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "midcourse.db"
    asyncio.run(_fill(path))
    return path


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_on_a_shelf_is_never_followed(whole: Path, changes: list[tuple[int, int]]) -> None:
    spoiled = bytearray(whole.read_bytes())
    for where, value in changes:
        spoiled[where % len(spoiled)] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midcourse.db"
        path.write_bytes(spoiled)
        asyncio.run(_check(path))


async def _check(path: Path) -> None:
    try:
        store = await SqliteStore.open(path, durability="process")
    except MidcourseError:
        return
    try:
        for shelf in SHELVES:
            for first, last in (("", ""), ("key/0100", "key/0200")):
                found = await store.shelved(shelf, first=first, last=last)
                assert all(ITEMS[key] == value for key, value in found)
    except MidcourseError:
        pass
    finally:
        await store.close()
