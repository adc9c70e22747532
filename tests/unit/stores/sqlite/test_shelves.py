"""Bytes of a shelf are flipped at random: what is read is what was put, or an error, or missing."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given

from midcourse.errors import MidcourseError
from midcourse.stores.sqlite import SqliteStore
from tests.unit.stores.sqlite.damaged_copy import CHANGES, spoiled

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


@given(CHANGES)
def test_damage_on_a_shelf_is_never_followed(whole: Path, changes: list[tuple[int, int]]) -> None:
    with spoiled(whole, changes) as path:
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
