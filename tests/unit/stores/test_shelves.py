"""A shelf of which something is damaged: all the rest is read, whatever lies where."""

import itertools

import pytest

from midcourse.core.ids import SessionId
from midcourse.errors import Damaged
from midcourse.ports.shelves import goes_with, is_shelf_of, readable
from midcourse.stores.sqlite.memory import MemoryStore

KEYS = ("", "a", "a\0", "ab", "b")


@pytest.mark.parametrize("bad", [set(some) for count in range(6) for some in itertools.combinations(KEYS, count)])
async def test_whatever_is_damaged_the_rest_is_read_in_order(bad: set[str]) -> None:
    store = MemoryStore()
    await store.shelve("shelf", {key: key.encode() for key in KEYS})
    for key in bad:
        store.memory.connection.execute("UPDATE shelves SET seal = x'00' WHERE key = ?", (key,))
    whole, damaged = await readable(store, "shelf")
    assert whole == [(key, key.encode()) for key in KEYS if key not in bad]
    assert damaged == sorted(bad)
    within, damaged = await readable(store, "shelf", first="a", last="ab")
    assert [key for key, _ in within] == [key for key in KEYS[1:4] if key not in bad]
    assert damaged == [key for key in KEYS[1:4] if key in bad]


async def test_a_store_that_cannot_be_read_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_given: object, **_more: object) -> None:
        raise Damaged("The file is cut short.")

    store = MemoryStore()
    monkeypatch.setattr(store, "shelved", broken)
    with pytest.raises(Damaged, match="cut short"):
        await readable(store, "shelf")


@pytest.mark.parametrize(
    ("shelf", "forked", "erased"),
    [
        ("langgraph:shown", True, True),
        ("chat:shown:shown", False, True),
        ("chat:shown:begun", False, True),
        ("chat:other:shown", False, False),
        ("langgraph:other:shown", False, False),
        ("langgraph:shown:other", False, False),
        ("langgraph:other", False, False),
        ("shown", False, False),
        ("shown:x", False, False),
    ],
)
def test_a_shelf_is_a_sessions_by_its_place_in_the_name(shelf: str, forked: bool, erased: bool) -> None:
    session = SessionId("shown")
    assert (goes_with(session, shelf), is_shelf_of(session, shelf)) == (forked, erased)
