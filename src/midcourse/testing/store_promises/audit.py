"""The promises of a store's audit log: entries are written with their append or not at all, in one permanent order."""

import asyncio

import pytest

from midcourse.core.audit import PRUNE, AuditEntry, digest_of_entry, encode_entry, linked
from midcourse.core.codec import GENESIS
from midcourse.core.ids import CommandId, Epoch, SessionId
from midcourse.errors import Damaged, InboxNotEmpty, MidcourseError, StaleEpoch, StoreError, StoreUnavailable
from midcourse.ports.audit_log import read_audit
from midcourse.ports.store import Append, Creation, Deciding, Store
from midcourse.testing.store_promises.fixtures import (
    ALICE,
    BOB,
    SESSION,
    Damage,
    StoreGiven,
    head,
    owned,
    rows,
    started,
)

ONE, TWO = CommandId("cmd_1"), CommandId("cmd_2")
OTHER = SessionId("sess_2")


def entry(detail: str, *, session: SessionId = SESSION, at: float = 5.0) -> AuditEntry:
    """Ann pauses the session."""
    return AuditEntry(session=session, by="ann", role="steer", action="pause", outcome="ok", detail=detail, at=at)


TELLING = AuditEntry(session=SessionId(""), by="root", role="operate", action=PRUNE, at=99.0)


async def audited(store: Store, after: int = 0, limit: int = 100) -> list[str]:
    """Return the details in the log, checked."""
    return [one.entry.detail for one in await read_audit(store, after, limit)]


class AuditPromises(StoreGiven):
    async def test_a_new_store_has_an_empty_audit_log(self, store: Store) -> None:
        """There is nothing to read, from anywhere, and an append without entries adds nothing."""
        epoch = await owned(store)
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))
        assert list(await store.audit()) == []
        assert list(await store.audit(7)) == []

    async def test_entries_come_with_their_append(self, store: Store, peer: Store) -> None:
        """The entries of an append are visible to all, as they were given, with the rows and the decision."""
        epoch = await owned(store)
        await peer.put(SESSION, ONE, b"pause", 5.0)
        two = [entry("one"), entry("two", at=6.5)]
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"ok"), audit=two))
        for reader in (store, peer):
            assert [one.entry for one in await read_audit(reader)] == two
        assert list(await peer.undecided(SESSION)) == []

    async def test_entries_come_with_the_session_they_tell_of(self, store: Store, peer: Store) -> None:
        """The entry about a session's creation is in the log with the session; a refused session leaves none."""
        await store.create(Creation(head(), rows(1, 1), worker=None, audit=[entry("made")]))
        for refused in (
            peer.create(Creation(head(), rows(1, 1), worker=None, audit=[entry("again")])),
            store.create(Creation(head(OTHER), rows(2, 2), worker=None, audit=[entry("out of order")])),
        ):
            with pytest.raises(StoreError):
                await refused
        assert await audited(peer) == ["made"]
        await peer.create(Creation(head(OTHER), rows(1, 1), worker=None, audit=[entry("one"), entry("two")]))
        assert await audited(store) == ["made", "one", "two"]

    async def test_the_end_of_the_log_is_known(self, store: Store, peer: Store) -> None:
        """The end is known without reading the log, for any last writer, and after old entries were removed."""
        assert await store.audit_end() == 0
        await store.create(Creation(head(), rows(1, 1), worker=None, audit=[entry("one"), entry("two", at=9.0)]))
        assert (await store.audit_end(), await peer.audit_end()) == (2, 2)
        assert await store.trim_audit(8.0, entry("gone", at=9.0)) == 1
        assert await peer.audit_end() == 3

    async def test_a_refused_append_leaves_no_entry(self, store: Store, peer: Store) -> None:
        """Whatever an append is refused for, its entries are not there, and no number is used up."""
        epoch = await owned(store)
        await peer.enlist(BOB, "")
        await peer.put(SESSION, ONE, b"pause", 5.0)
        await peer.put(SESSION, TWO, b"pause", 5.0)
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(ONE, b"ok"), audit=[entry("kept")]))
        lost = [entry("lost")]
        refused: list[MidcourseError] = []
        for attempt in (
            store.append(Append(head(), epoch=Epoch(epoch + 1), audit=lost)),
            peer.append(Append(head(), epoch=epoch, audit=lost)),
            store.append(Append(head(position=3), rows(3, 3), epoch=epoch, audit=lost)),
            store.append(Append(head(), epoch=epoch, deciding=Deciding(ONE, b"ok"), audit=lost)),
            store.append(Append(head(), epoch=epoch, deciding=Deciding(CommandId("none"), b"ok"), audit=lost)),
            store.append(Append(head(), epoch=epoch, release=True, audit=lost)),
        ):
            with pytest.raises(StoreError) as told:
                await attempt
            refused.append(told.value)
        assert [type(one) for one in refused] == [StaleEpoch] * 2 + [StoreError] * 3 + [InboxNotEmpty]
        assert await audited(peer) == ["kept"]
        await store.append(Append(head(), epoch=epoch, audit=[entry("next")]))
        assert [row.seq for row in await store.audit()] == [1, 2]

    async def test_a_refused_append_takes_no_other_entries_with_it(self, store: Store) -> None:
        epoch = await owned(store)
        await asyncio.gather(
            store.append(Append(head(), epoch=epoch, audit=[entry("one")])),
            store.append(Append(head(), epoch=Epoch(9), audit=[entry("stale")])),
            store.append(Append(head(), epoch=epoch, audit=[entry("two"), entry("three")])),
            store.append(Append(head(position=9), rows(9, 9), epoch=epoch, audit=[entry("out of order")])),
            store.append(Append(head(), epoch=epoch, audit=[entry("four")])),
            return_exceptions=True,
        )
        assert await audited(store) == ["one", "two", "three", "four"]

    async def test_two_writers_make_one_order_without_gaps(self, store: Store, peer: Store) -> None:
        """However many append at once, to whichever session: every entry once, each writer's in its order, no gap."""
        mine = await owned(store)
        yours = await owned(peer, OTHER, worker=BOB)
        written = [
            one.append(Append(head(which), epoch=epoch, audit=[entry(f"{letter} {number}", session=which)]))
            for number in range(60)
            for one, which, epoch, letter in ((store, SESSION, mine, "a"), (peer, OTHER, yours, "b"))
        ]
        await asyncio.gather(*written)
        log = await read_audit(store, limit=1000)
        assert [one.seq for one in log] == list(range(1, 121))
        for letter, session_id in (("a", SESSION), ("b", OTHER)):
            theirs = [one.entry for one in log if one.entry.session == session_id]
            assert [one.detail for one in theirs] == [f"{letter} {number}" for number in range(60)]
        assert list(await peer.audit(limit=1000)) == list(await store.audit(limit=1000))

    async def test_each_row_carries_the_running_digest(self, store: Store, peer: Store) -> None:
        """The digest of a row covers its bytes, its number and every row before it, by any writer."""
        mine = await owned(store)
        yours = await owned(peer, OTHER, worker=BOB)
        for number in range(4):
            one, which, epoch = ((store, SESSION, mine), (peer, OTHER, yours))[number % 2]
            await one.append(Append(head(which), epoch=epoch, audit=[entry(f"{number}", session=which)]))
        digest = GENESIS
        for number, row in enumerate(await store.audit()):
            content = encode_entry(entry(f"{number}", session=(SESSION, OTHER)[number % 2]))
            digest = linked(digest, number + 1, digest_of_entry(content))
            assert (row.seq, row.content, row.digest) == (number + 1, content, digest)

    async def test_the_log_is_read_from_any_number(self, store: Store) -> None:
        """Entries after a number come in order, not more of them than asked for, and none from behind the end."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry(f"{number}") for number in range(1, 11)]))
        assert await audited(store, 7) == ["8", "9", "10"]
        assert await audited(store, 2, 3) == ["3", "4", "5"]
        assert await audited(store, 0, 1) == ["1"]
        for end in (10, 11, 500):
            assert await audited(store, end) == []

    async def test_a_changed_entry_is_noticed(self, store: Store, damage: Damage) -> None:
        """A reader gets an error that names the place; what came before and after can still be read."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one"), entry("two")]))
        await damage("audit", SESSION)
        await store.append(Append(head(), epoch=epoch, audit=[entry("three"), entry("four")]))
        for after in (0, 1):
            with pytest.raises(Damaged, match="damaged at entry 2") as told:
                await audited(store, after)
            assert told.value.fields["seq"] == 2
        assert await audited(store, 0, 1) == ["one"]
        assert await audited(store, 2) == ["three", "four"]

    async def test_an_entry_missing_at_the_end_is_noticed(self, store: Store, peer: Store, damage: Damage) -> None:
        """A reader gets an error instead of an end; later entries take later numbers, so that the gap stays."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one"), entry("two")]))
        await damage("audit_end", SESSION)
        assert await audited(peer, 0, 1) == ["one"]
        for after in (0, 1):
            with pytest.raises(Damaged, match="damaged at entry 2: it is missing"):
                await audited(peer, after)
        await store.append(Append(head(), epoch=epoch, audit=[entry("three"), entry("four")]))
        assert [row.seq for row in await peer.audit()] == [1, 3, 4]
        with pytest.raises(Damaged, match=r"damaged at entry 2: it is missing.*after=3"):
            await audited(peer)
        assert await audited(peer, 3) == ["four"]

    async def test_an_emptied_log_is_noticed(self, store: Store, damage: Damage) -> None:
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one")]))
        await damage("audit_end", SESSION)
        with pytest.raises(Damaged, match="damaged at entry 1"):
            await audited(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("two")]))
        with pytest.raises(Damaged, match="damaged at entry 1"):
            await audited(store)

    async def test_the_log_outlives_what_it_tells_of(self, store: Store, peer: Store) -> None:
        """Entries stay when their writer closes the store and its session goes to another owner."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one")]))
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.audit()
        await peer.enlist(BOB, "")
        taken = await peer.take(SESSION, BOB)
        await peer.append(Append(head(), epoch=taken.epoch, audit=[entry("two")]))
        assert await audited(peer) == ["one", "two"]

    async def test_many_sessions_share_the_log(self, store: Store) -> None:
        await store.enlist(ALICE, "")
        names = [SessionId(f"sess_{number}") for number in range(5)]
        for name in names:
            epoch = await started(store, name, worker=ALICE)
            await store.append(Append(head(name), epoch=epoch, audit=[entry("", session=name)]))
        assert [one.entry.session for one in await read_audit(store)] == names

    async def test_a_shelf_brings_entries_as_an_append_does(self, store: Store, peer: Store) -> None:
        """Entries are written with the items or not at all, in the one order of the log."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one")]))
        await peer.shelve("tokens", {"ann": b"1"}, audit=[entry("two", session=SessionId(""))])
        with pytest.raises(StaleEpoch):
            await peer.shelve("tokens", {"bob": b"1"}, owner=(SESSION, epoch), audit=[entry("lost")])
        assert await audited(peer) == ["one", "two"]

    async def test_old_entries_are_taken_away_and_the_rest_still_follows(self, store: Store, peer: Store) -> None:
        """An anchor takes their place, an entry reports it, numbers continue, and all readers see the same."""
        epoch = await owned(store)
        entries = [entry(f"{number}", at=float(number)) for number in range(1, 7)]
        await store.append(Append(head(), epoch=epoch, audit=entries))
        assert await store.trim_audit(4.0, TELLING) == 3
        for reader in (store, peer):
            assert await audited(reader) == ["4", "5", "6", "up to entry 3: 3 of them"]
            assert await audited(reader, 0, 2) == ["4", "5"]
            assert await audited(reader, 1, 2) == ["4", "5"]
            assert await audited(reader, 3, 1) == ["4"]
            assert await audited(reader, 5) == ["6", "up to entry 3: 3 of them"]
        anchor, *_ = await store.audit()
        assert (anchor.seq, anchor.content) == (3, b"")
        await store.append(Append(head(), epoch=epoch, audit=[entry("8")]))
        assert [one.seq for one in await read_audit(peer)] == [4, 5, 6, 7, 8]

    async def test_nothing_old_is_nothing_taken_away_and_nothing_told(self, store: Store) -> None:
        """A trim that finds nothing leaves the log as it is, empty or not; one may be followed by another."""
        assert await store.trim_audit(9.0, TELLING) == 0
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one", at=1.0), entry("two", at=5.0)]))
        assert await store.trim_audit(1.0, TELLING) == 0
        assert await audited(store) == ["one", "two"]
        assert await store.trim_audit(2.0, TELLING) == 1
        assert await store.trim_audit(2.0, TELLING) == 0
        assert await store.trim_audit(6.0, TELLING) == 1
        assert await audited(store) == ["up to entry 1: 1 of them", "up to entry 2: 1 of them"]

    async def test_a_trim_goes_on_where_the_last_one_ended(self, store: Store) -> None:
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry(f"{number}", at=1.0) for number in range(5)]))
        assert [await store.trim_audit(2.0, TELLING, limit=2) for _ in range(4)] == [2, 2, 1, 0]
        assert [one.entry.action for one in await read_audit(store)] == [PRUNE] * 3

    async def test_a_removal_by_hand_is_noticed_after_a_trim_too(self, store: Store, damage: Damage) -> None:
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one", at=1.0), entry("two", at=5.0)]))
        await store.trim_audit(2.0, TELLING)
        await damage("audit_end", SESSION)
        with pytest.raises(Damaged, match="damaged at entry 3: it is missing"):
            await audited(store)

    async def test_a_damaged_entry_is_not_taken_away(self, store: Store, damage: Damage) -> None:
        """A trim would hide the damage."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("one", at=1.0), entry("two", at=1.0)]))
        await damage("audit", SESSION)
        with pytest.raises(Damaged, match="damaged at entry 2"):
            await store.trim_audit(9.0, TELLING)
        assert await audited(store, 0, 1) == ["one"]
