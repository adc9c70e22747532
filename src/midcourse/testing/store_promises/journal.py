"""The promises of a store's journal: only its owner writes it, in order, all of it or nothing."""

import asyncio

import pytest

from midcourse.core.codec import Blob, digest_of
from midcourse.core.ids import CommandId, Epoch, Position, SessionId
from midcourse.errors import SessionNotFound, StaleEpoch, StoreError
from midcourse.ports.store import Append, Creation, Deciding, Store
from midcourse.testing.store_promises.fixtures import ALICE, BOB, SESSION, StoreGiven, head, owned, rows, started

LARGE = b"large " * 10_000
BLOB = Blob(digest_of(LARGE), LARGE)


class JournalPromises(StoreGiven):
    async def test_a_new_session_can_be_read_back(self, store: Store, peer: Store) -> None:
        """The created session is visible to all, with epoch 1 and its owner."""
        await store.enlist(ALICE, "here")
        epoch = await store.create(Creation(head(position=2), rows(1, 2), worker=ALICE, blobs=[BLOB]))
        assert epoch == Epoch(1)
        for reader in (store, peer):
            known = await reader.head(SESSION)
            assert known.head == head(position=2)
            assert (known.epoch, known.owner, known.alive, known.address) == (1, ALICE, True, "here")
            assert list(await reader.read(SESSION, Position(0))) == rows(1, 2)
            assert (await reader.blobs([BLOB.digest]))[0] == LARGE

    async def test_a_session_may_begin_without_an_owner(self, store: Store) -> None:
        """A session created without an owner has epoch 1, and no worker may write to it."""
        epoch = await started(store)
        known = await store.head(SESSION)
        assert (epoch, known.epoch, known.owner, known.alive, known.address) == (1, 1, None, False, "")
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))

    async def test_an_id_is_created_once(self, store: Store, peer: Store) -> None:
        await owned(store)
        with pytest.raises(StoreError) as refused:
            await peer.create(Creation(head(goal="Another"), rows(1, 1), worker=None, blobs=[BLOB]))
        assert refused.value.code == "session_exists"
        assert (await store.head(SESSION)).head.goal == "Write it down"
        assert (await store.head(SESSION)).owner == ALICE
        assert (await store.blobs([BLOB.digest]))[0] is None

    async def test_of_many_creators_one_wins(self, store: Store, peer: Store) -> None:
        answers = await asyncio.gather(
            *(one.create(Creation(head(), rows(1, 1), worker=None)) for one in (store, peer) * 10),
            return_exceptions=True,
        )
        assert answers.count(Epoch(1)) == 1
        assert {answer.code for answer in answers if isinstance(answer, StoreError)} == {"session_exists"}

    async def test_a_journal_begins_at_one(self, store: Store) -> None:
        with pytest.raises(StoreError) as refused:
            await store.create(Creation(head(position=2), rows(2, 2), worker=None))
        assert refused.value.code == "out_of_order"
        with pytest.raises(SessionNotFound):
            await store.head(SESSION)

    async def test_an_append_adds_its_rows_and_replaces_the_head(self, store: Store, peer: Store) -> None:
        """After an append its rows follow those before, and lists see the new head."""
        epoch = await owned(store)
        now = head(position=3, status="paused", cost=1.5, asks=2, finished_steps=4, wake_at=7.0)
        await store.append(Append(now, rows(2, 3), epoch=epoch, blobs=[BLOB]))
        assert [row[0] for row in await peer.read(SESSION, Position(0))] == [1, 2, 3]
        assert (await peer.head(SESSION)).head == now
        assert list(await peer.heads()) == [now]
        assert (await peer.blobs([BLOB.digest]))[0] == LARGE

    async def test_rows_out_of_order_are_refused_and_nothing_is_written(self, store: Store) -> None:
        """Rows that do not continue the journal are refused, every one of them, with their blobs and their head."""
        epoch = await owned(store)
        for wrong in (rows(3, 4), rows(1, 1), [*rows(2, 2), *rows(4, 4)], rows(2, 2) * 2, rows(2, 3)[::-1]):
            for position in {wrong[-1][0], 1 + len(wrong)}:
                with pytest.raises(StoreError) as refused:
                    await store.append(Append(head(position=position, goal="New"), wrong, epoch=epoch, blobs=[BLOB]))
                assert refused.value.code == "out_of_order"
        with pytest.raises(StoreError, match="head says 9"):
            await store.append(Append(head(position=9, goal="New"), rows(2, 2), epoch=epoch))
        assert list(await store.read(SESSION, Position(0))) == rows(1, 1)
        assert (await store.head(SESSION)).head == head()
        assert (await store.blobs([BLOB.digest]))[0] is None

    async def test_a_stale_writer_is_refused_and_writes_nothing(self, store: Store, peer: Store) -> None:
        """Once another worker owns the session, the old epoch writes no row, head, decision, blob or snapshot."""
        stale = await owned(store)
        await store.append(Append(head(), epoch=stale, release=True))
        await peer.enlist(BOB, "there")
        current = (await peer.take(SESSION, BOB)).epoch
        await peer.put(SESSION, CommandId("cmd_1"), b"pause", 5.0)
        with pytest.raises(StaleEpoch) as refused:
            await store.append(
                Append(
                    head(position=2, goal="Stale"),
                    rows(2, 2),
                    epoch=stale,
                    deciding=Deciding(CommandId("cmd_1"), b"done"),
                    blobs=[BLOB],
                )
            )
        assert SESSION in str(refused.value)
        with pytest.raises(StaleEpoch):
            await store.save_snapshot(SESSION, Position(1), b"stale", epoch=stale, blobs=[BLOB])
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(), epoch=stale, release=True))
        known = await store.head(SESSION)
        assert (known.head, known.epoch, known.owner) == (head(), current, BOB)
        assert len(await store.read(SESSION, Position(0))) == 1
        assert [row.id for row in await store.undecided(SESSION)] == ["cmd_1"]
        assert (await store.blobs([BLOB.digest]))[0] is None
        assert not await store.snapshots(SESSION)

    async def test_an_epoch_counts_for_its_owner_alone(self, store: Store, peer: Store) -> None:
        epoch = await owned(store)
        await peer.enlist(BOB, "there")
        with pytest.raises(StaleEpoch):
            await peer.append(Append(head(position=2), rows(2, 2), epoch=epoch))
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(position=2), rows(2, 2), epoch=Epoch(epoch + 1)))

    async def test_an_append_to_no_session_is_refused(self, store: Store) -> None:
        await store.enlist(ALICE, "")
        with pytest.raises(SessionNotFound):
            await store.append(Append(head(position=2), rows(2, 2), epoch=Epoch(1)))
        with pytest.raises(SessionNotFound):
            await store.save_snapshot(SESSION, Position(1), b"", epoch=Epoch(1))
        with pytest.raises(SessionNotFound):
            await store.append(Append(head(), epoch=Epoch(1), release=True))

    async def test_writes_happen_in_the_order_they_are_called(self, store: Store) -> None:
        """A write gets its place when it is called: a caller need not wait for one before asking for the next."""
        await store.enlist(ALICE, "")
        created = store.create(Creation(head(), rows(1, 1), worker=ALICE))
        appended = [
            store.append(Append(head(position=position), rows(position, position), epoch=Epoch(1)))
            for position in range(2, 52)
        ]
        for write in reversed(appended):
            await write
        await created
        assert [row[0] for row in await store.read(SESSION, Position(0))] == list(range(1, 52))

    async def test_a_refused_write_does_not_take_others_with_it(self, store: Store) -> None:
        await store.enlist(ALICE, "")
        answers = await asyncio.gather(
            store.create(Creation(head(), rows(1, 1), worker=ALICE)),
            store.append(Append(head(position=5), rows(5, 5), epoch=Epoch(1))),
            store.append(Append(head(position=2), rows(2, 2), epoch=Epoch(1))),
            store.append(Append(head(position=3), rows(3, 3), epoch=Epoch(8))),
            store.append(Append(head(position=3), rows(3, 3), epoch=Epoch(1))),
            return_exceptions=True,
        )
        assert [type(answer).__name__ for answer in answers] == [
            "int",
            "StoreError",
            "NoneType",
            "StaleEpoch",
            "NoneType",
        ]
        assert (await store.head(SESSION)).head.position == 3

    async def test_whoever_stops_waiting_does_not_take_the_write_back(self, store: Store) -> None:
        epoch = await owned(store)
        waiting = asyncio.ensure_future(store.append(Append(head(position=2), rows(2, 2), epoch=epoch)))
        waiting.cancel()
        await store.append(Append(head(position=3), rows(3, 3), epoch=epoch))
        assert len(await store.read(SESSION, Position(0))) == 3

    async def test_a_journal_is_read_from_any_position(self, store: Store) -> None:
        epoch = await owned(store)
        await store.append(Append(head(position=10), rows(2, 10), epoch=epoch))
        await started(store, SessionId("sess_2"))
        assert [row[0] for row in await store.read(SESSION, Position(7))] == [8, 9, 10]
        assert [row[0] for row in await store.read(SESSION, Position(2), limit=3)] == [3, 4, 5]
        assert list(await store.read(SESSION, Position(10))) == []
        assert list(await store.read(SessionId("sess_none"), Position(0))) == []

    async def test_hundreds_of_sessions_append_at_the_same_time(self, store: Store) -> None:
        await store.enlist(ALICE, "")

        async def run(number: int) -> None:
            session_id = SessionId(f"sess_{number}")
            epoch = await started(store, session_id, worker=ALICE)
            for position in range(2, 5):
                await store.append(Append(head(session_id, position), rows(position, position), epoch=epoch))

        await asyncio.gather(*(run(number) for number in range(300)))
        for number in range(300):
            assert len(await store.read(SessionId(f"sess_{number}"), Position(0))) == 4

    async def test_bytes_come_back_as_they_were(self, store: Store) -> None:
        """Records and digests are bytes: zeroes, broken UTF-8 and a megabyte of them."""
        for number, record in enumerate((b"", b"\x00\xff\xfe", bytes(range(256)) * 4_096)):
            session_id = SessionId(f"sess_{number}")
            await store.create(Creation(head(session_id), [(Position(1), record, b"\x00" * 16)], worker=None))
            assert list(await store.read(session_id, Position(0))) == [(1, record, b"\x00" * 16)]
