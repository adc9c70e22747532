"""The promises of a store's shelves: keys in order, writes as a whole, and only by the owner where one is named."""

import asyncio

import pytest

from midcourse.core.ids import CommandId, Epoch, SessionId
from midcourse.errors import Damaged, InboxNotEmpty, SessionNotFound, ShelfChanged, StaleEpoch, StoreError
from midcourse.ports.store import Append, Creation, Store
from midcourse.testing.store_promises.fixtures import (
    ALICE,
    BOB,
    SESSION,
    Crash,
    Damage,
    StoreGiven,
    head,
    owned,
    rows,
    started,
)

SHELF = "shelf"


class ShelfPromises(StoreGiven):
    async def test_what_was_shelved_is_there_for_everybody(self, store: Store, peer: Store) -> None:
        """Values come back byte by byte, empty and large ones too, also through another store object."""
        items = {"empty": b"", "large": b"x" * 3_000_000, "small": b"\x00\xff"}
        await store.shelve(SHELF, items)
        assert dict(await peer.shelved(SHELF)) == items

    async def test_a_key_holds_what_was_put_last(self, store: Store) -> None:
        await store.shelve(SHELF, {"a": b"1", "b": b"1"})
        await store.shelve(SHELF, {"a": b"2"})
        assert list(await store.shelved(SHELF)) == [("a", b"2"), ("b", b"1")]

    async def test_none_takes_a_key_away(self, store: Store) -> None:
        """A key put as None is gone, beside what is put with it; removing a missing key is no error."""
        await store.shelve(SHELF, {"a": b"1", "b": b"1"})
        await store.shelve(SHELF, {"a": None, "c": b"1", "never": None})
        assert list(await store.shelf_keys(SHELF)) == ["b", "c"]

    async def test_keys_come_in_order(self, store: Store) -> None:
        """Keys are ordered by their code points, whatever the order they were put in; ``newest`` turns it round."""
        keys = ["", "a", "a/1", "a/10", "a/2", "b", "\x7f", "é", "\uffff", "\U0001f600"]
        for key in [*keys[5:], *keys[:5]]:
            await store.shelve(SHELF, {key: key.encode()})
        assert [key for key, _ in await store.shelved(SHELF)] == keys
        assert [key for key, _ in await store.shelved(SHELF, newest=True)] == keys[::-1]
        assert list(await store.shelf_keys(SHELF)) == keys

    async def test_a_range_has_both_its_ends(self, store: Store) -> None:
        """The range is from ``first`` to ``last``, both included; an empty end is open."""
        await store.shelve(SHELF, dict.fromkeys("abcde", b""))

        async def keys(first: str, last: str) -> str:
            found = "".join(key for key, _ in await store.shelved(SHELF, first=first, last=last))
            assert "".join(await store.shelf_keys(SHELF, first=first, last=last)) == found
            return found

        assert await keys("b", "d") == "bcd"
        assert await keys("b", "") == "bcde"
        assert await keys("", "b") == "ab"
        assert await keys("bb", "cc") == "c"
        assert await keys("d", "b") == ""

    async def test_a_limit_counts_from_where_the_order_begins(self, store: Store) -> None:
        """The first ones, or with ``newest`` the last ones; none at all for a limit of 0."""
        await store.shelve(SHELF, dict.fromkeys("abcde", b""))
        assert [key for key, _ in await store.shelved(SHELF, limit=2)] == ["a", "b"]
        assert [key for key, _ in await store.shelved(SHELF, first="b", last="d", newest=True, limit=2)] == ["d", "c"]
        assert list(await store.shelved(SHELF, limit=0)) == []

    async def test_shelves_are_apart(self, store: Store) -> None:
        await store.shelve("one", {"a": b"1"})
        await store.shelve("two", {"a": b"2"})
        await store.shelve("one", {"a": None})
        assert list(await store.shelved("two")) == [("a", b"2")]
        assert list(await store.shelved("one")) == []
        assert list(await store.shelved("none")) == []

    async def test_shelves_are_listed_while_they_hold_something(self, store: Store) -> None:
        """The list has each shelf once, in order, by the beginning of its name; an emptied one is gone."""
        for shelf in ("x:2", "x:1", "x", "x;", "y"):
            await store.shelve(shelf, {"a": b"", "b": b""})
        assert list(await store.shelves("x:")) == ["x:1", "x:2"]
        assert list(await store.shelves()) == ["x", "x:1", "x:2", "x;", "y"]
        assert list(await store.shelves("z")) == []
        await store.shelve("x:1", {"a": None, "b": None})
        await store.shelve("x:never", {})
        assert list(await store.shelves("x:")) == ["x:2"]

    async def test_writes_to_a_shelf_keep_their_order(self, store: Store) -> None:
        """The first call is written first, awaited or not."""
        writes = [store.shelve(SHELF, {"a": b"%d" % number, f"{number:03}": b""}) for number in range(50)]
        await writes[-1]
        assert dict(await store.shelved(SHELF, first="a"))["a"] == b"49"
        assert len(await store.shelf_keys(SHELF, last="999")) == 50
        for write in writes[:-1]:
            await write

    async def test_what_is_shelved_with_a_new_session_is_there_with_it_or_not_at_all(self, store: Store) -> None:
        await store.create(
            Creation(head(), rows(1, 1), worker=None, shelves={SHELF: {"a": b"1"}, "other": {"b": b"1"}})
        )
        with pytest.raises(StoreError, match="exists already"):
            await store.create(Creation(head(), rows(1, 1), worker=None, shelves={SHELF: {"a": b"2", "c": b"2"}}))
        assert list(await store.shelved(SHELF)) == [("a", b"1")]
        assert list(await store.shelf_keys("other")) == ["b"]

    async def test_the_owner_may_write_to_a_shelf(self, store: Store) -> None:
        """Under the epoch that the store issued."""
        epoch = await owned(store)
        await store.shelve(SHELF, {"a": b"1"}, owner=(SESSION, epoch))
        assert list(await store.shelf_keys(SHELF)) == ["a"]

    async def test_a_stale_owner_is_refused_and_writes_nothing(self, store: Store, peer: Store, crash: Crash) -> None:
        epoch = await owned(store)
        await store.shelve(SHELF, {"a": b"1"}, owner=(SESSION, epoch))
        await crash(store)
        await peer.enlist(BOB, "")
        taken = await peer.take(SESSION, BOB)
        with pytest.raises(StaleEpoch):
            await store.shelve(SHELF, {"a": None, "b": b"2"}, owner=(SESSION, epoch))
        await peer.shelve(SHELF, {"c": b"3"}, owner=(SESSION, taken.epoch))
        assert list(await peer.shelved(SHELF)) == [("a", b"1"), ("c", b"3")]

    async def test_nobody_writes_as_the_owner_of_a_free_session(self, store: Store) -> None:
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, release=True))
        with pytest.raises(StaleEpoch):
            await store.shelve(SHELF, {"a": b"1"}, owner=(SESSION, epoch))
        assert list(await store.shelves()) == []

    async def test_the_epoch_of_another_worker_is_no_licence(self, store: Store, peer: Store) -> None:
        epoch = await owned(store)
        await peer.enlist(BOB, "")
        with pytest.raises(StaleEpoch):
            await peer.shelve(SHELF, {"a": b"1"}, owner=(SESSION, epoch))

    async def test_an_owner_of_no_session_is_refused(self, store: Store) -> None:
        await store.enlist(ALICE, "")
        with pytest.raises(SessionNotFound):
            await store.shelve(SHELF, {"a": b"1"}, owner=(SessionId("sess_none"), Epoch(1)))
        assert list(await store.shelves()) == []

    async def test_items_come_with_their_append(self, store: Store, peer: Store) -> None:
        """The items of an append are visible to all with its rows, on several shelves; None removes a key."""
        epoch = await owned(store)
        await store.shelve(SHELF, {"old": b"1"})
        shelves = {SHELF: {"a": b"1", "old": None}, "other": {"a": b"2"}}
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, shelves=shelves))
        assert list(await peer.shelved(SHELF)) == [("a", b"1")]
        assert list(await peer.shelved("other")) == [("a", b"2")]

    async def test_a_refused_append_leaves_no_item(self, store: Store, peer: Store) -> None:
        epoch = await owned(store)
        await store.shelve(SHELF, {"old": b"1"})
        lost = {SHELF: {"a": b"1", "old": None}}
        await peer.put(SESSION, CommandId("cmd_1"), b"pause", 5.0)
        with pytest.raises(InboxNotEmpty):
            await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, release=True, shelves=lost))
        with pytest.raises(StoreError):
            await store.append(Append(head(position=9), rows(9, 9), epoch=epoch, shelves=lost))
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(position=2), rows(2, 2), epoch=Epoch(epoch + 1), shelves=lost))
        assert list(await store.shelved(SHELF)) == [("old", b"1")]

    async def test_of_two_who_read_the_same_one_writes(self, store: Store, peer: Store) -> None:
        """With ``expecting``, the second writer is refused, by name, and nothing of its write is there."""
        await store.shelve(SHELF, {"a": b"1", "b": b"1"})
        await peer.shelve(SHELF, {"a": b"2"}, expecting={"a": b"1"})
        with pytest.raises(ShelfChanged, match="'a' on the shelf 'shelf'") as caught:
            await store.shelve(SHELF, {"a": b"3", "b": None, "c": b"3"}, expecting={"b": b"1", "a": b"1"})
        assert (caught.value.fields["shelf"], caught.value.fields["key"]) == (SHELF, "a")
        assert list(await store.shelved(SHELF)) == [("a", b"2"), ("b", b"1")]
        await store.shelve(SHELF, {"a": None}, expecting={"a": b"2"})
        assert list(await peer.shelf_keys(SHELF)) == ["b"]

    async def test_of_two_who_found_nothing_one_writes(self, store: Store, peer: Store) -> None:
        """None expects nothing under that key: not even something empty. A key that is expected need not be written."""
        await store.shelve(SHELF, {"a": b""}, expecting={"a": None, "done": None})
        with pytest.raises(ShelfChanged):
            await peer.shelve(SHELF, {"a": b"2"}, expecting={"a": None})
        with pytest.raises(ShelfChanged):
            await peer.shelve(SHELF, {"b": b"2"}, expecting={"b": b""})
        await peer.shelve(SHELF, {"done": b"1"}, expecting={"a": b""})
        with pytest.raises(ShelfChanged):
            await store.shelve("other", {"a": b"1"}, expecting={"a": b""})
        assert list(await store.shelved(SHELF)) == [("a", b""), ("done", b"1")]

    async def test_many_who_expect_the_same_at_once_are_one(self, store: Store, peer: Store) -> None:
        writes = [
            one.shelve(SHELF, {"a": b"%d" % number}, expecting={"a": None})
            for number in range(10)
            for one in (store, peer)
        ]
        done = await asyncio.gather(*writes, return_exceptions=True)
        assert sum(one is None for one in done) == 1
        assert all(one is None or isinstance(one, ShelfChanged) for one in done)

    async def test_what_is_damaged_is_not_what_was_expected(self, store: Store, damage: Damage) -> None:
        """Neither what it was before nor nothing; and it can still be put anew."""
        await started(store)
        await store.shelve(SHELF, {"a": b"whole"})
        await damage("shelf", SESSION)
        for expected in (b"whole", b"?", None):
            with pytest.raises(ShelfChanged):
                await store.shelve(SHELF, {"a": b"again"}, expecting={"a": expected})

    async def test_a_damaged_item_is_noticed(self, store: Store, damage: Damage) -> None:
        """A value that fails its checksum is an error that names it, wherever it would be read; others are not."""
        await started(store)
        await store.shelve(SHELF, {"a": b"whole", "b": b"whole"})
        await damage("shelf", SESSION)
        with pytest.raises(Damaged, match="'b' on the shelf 'shelf'") as caught:
            await store.shelved(SHELF)
        assert (caught.value.fields["shelf"], caught.value.fields["key"]) == (SHELF, "b")
        assert list(await store.shelved(SHELF, last="a")) == [("a", b"whole")]
        await store.shelve(SHELF, {"b": b"again"})
        assert dict(await store.shelved(SHELF))["b"] == b"again"
