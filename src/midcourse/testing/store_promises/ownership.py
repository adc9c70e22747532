"""The promises of a store about owners: one at a time, alive as long as its process, and never one that comes back."""

import asyncio

import msgspec
import pytest

from midcourse.core.ids import CommandId, Epoch, SessionId, WorkerId
from midcourse.errors import OwnerAlive, SessionNotFound, StaleEpoch, StoreError, StoreUnavailable
from midcourse.ports.store import Append, Creation, Deciding, Owned, Store
from midcourse.testing.store_promises.fixtures import ALICE, BOB, SESSION, Crash, StoreGiven, head, owned, rows, started

DRIVEN = ("queued", "running")
OTHER = SessionId("sess_2")


class OwnershipPromises(StoreGiven):
    async def test_a_store_object_is_at_most_one_worker(self, store: Store) -> None:
        await owned(store)
        with pytest.raises(StoreError) as refused:
            await store.enlist(BOB, "")
        assert refused.value.code == "already_enlisted"
        assert (await store.head(SESSION)).alive

    async def test_a_worker_id_is_used_once(self, store: Store, peer: Store, crash: Crash) -> None:
        """A worker that could come back under its old id would own what it had lost."""
        await owned(store)
        for _ in range(2):
            with pytest.raises(StoreError) as refused:
                await peer.enlist(ALICE, "")
            assert refused.value.code == "worker_exists"
            await crash(store)
        assert not (await peer.head(SESSION)).alive
        await peer.enlist(BOB, "")

    async def test_only_an_enlisted_worker_can_own(self, store: Store, peer: Store) -> None:
        """A session is neither created for nor acquired by a worker that this store object is not."""
        await peer.enlist(BOB, "")
        await started(store)
        for attempt in (
            store.create(Creation(head(OTHER), rows(1, 1), worker=ALICE)),
            store.take(SESSION, ALICE),
            store.take(SESSION, BOB),
        ):
            with pytest.raises(StoreError) as refused:
                await attempt
            assert refused.value.code == "not_enlisted"
        with pytest.raises(SessionNotFound):
            await store.head(OTHER)

    async def test_a_session_without_an_owner_can_be_taken(self, store: Store, peer: Store) -> None:
        """The worker that acquires a session owns it under the next epoch, may write to it, and is seen by all."""
        await started(store)
        await peer.enlist(BOB, "at bob's")
        taken = await peer.take(SESSION, BOB)
        assert taken == Owned(head=head(), epoch=Epoch(2), owner=BOB, alive=True, address="at bob's")
        assert msgspec.structs.replace(await store.head(SESSION), heartbeat=None) == taken
        await peer.append(Append(head(position=2), rows(2, 2), epoch=taken.epoch))

    async def test_a_live_owner_keeps_its_session(self, store: Store, peer: Store) -> None:
        epoch = await owned(store)
        await peer.enlist(BOB, "")
        for one, worker in ((peer, BOB), (store, ALICE)):
            with pytest.raises(OwnerAlive) as refused:
                await one.take(SESSION, worker)
            assert ALICE in str(refused.value)
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))

    async def test_nobody_takes_what_is_not_there(self, store: Store) -> None:
        await store.enlist(ALICE, "")
        with pytest.raises(SessionNotFound) as refused:
            await store.take(SESSION, ALICE)
        assert SESSION in str(refused.value)
        with pytest.raises(SessionNotFound):
            await store.head(SESSION)

    async def test_a_dead_owners_session_can_be_taken(self, store: Store, peer: Store, crash: Crash) -> None:
        """After its owner's end a session names it, as dead, and can be acquired; the old epoch is void."""
        epoch = await owned(store)
        await crash(store)
        known = await peer.head(SESSION)
        assert (known.owner, known.alive, known.address) == (ALICE, False, "")
        await peer.enlist(BOB, "")
        taken = await peer.take(SESSION, BOB)
        assert taken.epoch == epoch + 1
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(position=2), rows(2, 2), epoch=epoch))

    async def test_of_two_takers_one_wins(self, store: Store, peer: Store) -> None:
        await started(store)
        await store.enlist(ALICE, "")
        await peer.enlist(BOB, "")
        answers = await asyncio.gather(
            *(one.take(SESSION, worker) for one, worker in ((store, ALICE), (peer, BOB)) * 20), return_exceptions=True
        )
        winners = [answer for answer in answers if isinstance(answer, Owned)]
        assert len(winners) == 1
        assert all(isinstance(answer, OwnerAlive) for answer in answers if answer is not winners[0])
        assert msgspec.structs.replace(await store.head(SESSION), heartbeat=None) == winners[0]

    async def test_epochs_only_grow(self, store: Store, peer: Store) -> None:
        await started(store)
        await store.enlist(ALICE, "")
        await peer.enlist(BOB, "")
        seen = [1]
        for one, worker in ((store, ALICE), (peer, BOB), (store, ALICE), (store, ALICE)):
            epoch = (await one.take(SESSION, worker)).epoch
            await one.append(Append(head(), epoch=epoch, release=True))
            known = await store.head(SESSION)
            assert (known.epoch, known.owner, known.alive) == (epoch, None, False)
            seen.append(epoch)
        assert seen == sorted(set(seen))
        with pytest.raises(StaleEpoch):
            await store.append(Append(head(), epoch=Epoch(seen[-1]), release=True))

    async def test_a_closed_store_gives_up_its_life_and_nothing_else(self, store: Store, peer: Store) -> None:
        """Closing finishes what was enqueued; the worker is dead, its sessions are still its own and can be taken."""
        epoch = await owned(store)
        writes = [
            store.append(Append(head(position=position), rows(position, position), epoch=epoch))
            for position in range(2, 30)
        ]
        await store.close()
        await asyncio.gather(*writes)
        known = await peer.head(SESSION)
        assert (known.head.position, known.owner, known.alive) == (29, ALICE, False)
        await peer.enlist(BOB, "")
        await peer.take(SESSION, BOB)

    async def test_a_closed_store_says_so(self, store: Store, peer: Store) -> None:
        """Every later call is refused with a sentence; closing again is no error, and others continue."""
        await started(store)
        await store.close()
        await store.close()
        for attempt in (
            lambda: store.put(SESSION, CommandId("cmd_1"), b"", 1.0),
            lambda: store.create(Creation(head(OTHER), rows(1, 1), worker=None)),
            lambda: store.head(SESSION),
            store.heads,
            store.changed,
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                await attempt()
        await peer.put(SESSION, CommandId("cmd_1"), b"", 1.0)

    async def test_a_sweep_finds_what_nobody_drives(self, store: Store, peer: Store, crash: Crash) -> None:
        """A session in one of the statuses is unattended if it has no owner, or a dead one."""
        await store.enlist(ALICE, "")
        for number, (worker, status) in enumerate(
            [(ALICE, "running"), (ALICE, "paused"), (None, "queued"), (None, "completed"), (None, "pausing")]
        ):
            await started(store, SessionId(f"sess_{number}"), worker=worker, status=status)
        assert await _unattended(peer) == {"sess_2"}
        await crash(store)
        assert await _unattended(peer) == {"sess_0", "sess_2"}
        found = {one.head.id: one for one in await peer.unattended(DRIVEN, 0.0)}
        assert (found[SessionId("sess_0")].owner, found[SessionId("sess_0")].alive) == (ALICE, False)
        assert (found[SessionId("sess_2")].owner, found[SessionId("sess_2")].epoch) == (None, 1)

    async def test_a_sweep_finds_undecided_commands(self, store: Store, peer: Store, crash: Crash) -> None:
        """A session with an undecided command and no live owner is unattended, whatever its status."""
        epoch = await owned(store, status="paused")
        await started(store, OTHER, status="completed")
        await peer.put(OTHER, CommandId("cmd_1"), b"", 1.0)
        await peer.put(SESSION, CommandId("cmd_1"), b"", 1.0)
        assert await _unattended(peer) == {OTHER}
        await crash(store)
        assert await _unattended(peer) == {OTHER, SESSION}
        await store.append(Append(head(status="paused"), epoch=epoch, deciding=Deciding(CommandId("cmd_1"), b"")))
        assert await _unattended(peer) == {OTHER}

    async def test_a_sweep_says_where_a_command_waits(self, store: Store) -> None:
        """A found session is ``pending`` exactly if a command is undecided, for any other reason it was found for."""
        await started(store)
        await started(store, OTHER, wake_at=1.0)
        await store.put(OTHER, CommandId("cmd_1"), b"", 1.0)
        found = {one.head.id: one.pending for one in await store.unattended(DRIVEN, 5.0)}
        assert found == {SESSION: False, OTHER: True}

    async def test_a_worker_finds_the_commands_to_its_own_sessions(self, store: Store, peer: Store) -> None:
        """``pending`` names each session of the worker with an undecided command once, and no other worker's."""
        epoch = await owned(store)
        await owned(peer, OTHER, worker=BOB)
        await started(store, SessionId("sess_3"), worker=ALICE)
        for session_id in (SESSION, OTHER):
            for command in ("cmd_1", "cmd_2"):
                await peer.put(session_id, CommandId(command), b"", 1.0)
        assert list(await store.pending(ALICE)) == [SESSION]
        assert list(await store.pending(BOB)) == [OTHER]
        for command in ("cmd_1", "cmd_2"):
            await store.append(Append(head(), epoch=epoch, deciding=Deciding(CommandId(command), b"")))
        assert list(await store.pending(ALICE)) == []
        assert list(await store.pending(WorkerId("worker_none"))) == []

    async def test_commands_that_were_left_unanswered_are_found_in_all_sessions(
        self, store: Store, peer: Store
    ) -> None:
        """``unanswered`` gives what was put by then and is undecided, oldest first, for any owner of its session."""
        epoch = await owned(store)
        await owned(peer, OTHER, worker=BOB)
        await peer.put(SESSION, CommandId("cmd_1"), b"late", 3.0)
        await store.put(OTHER, CommandId("cmd_1"), b"early", 1.0)
        await peer.put(SESSION, CommandId("cmd_2"), b"young", 9.0)
        found = [(session_id, row.content, row.put_at) for session_id, row in await store.unanswered(5.0)]
        assert found == [(OTHER, b"early", 1.0), (SESSION, b"late", 3.0)]
        assert [session_id for session_id, _ in await peer.unanswered(5.0, limit=1)] == [OTHER]
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(CommandId("cmd_1"), b"")))
        assert [session_id for session_id, _ in await peer.unanswered(5.0)] == [OTHER]

    async def test_a_sweep_finds_what_must_wake(self, store: Store, peer: Store, crash: Crash) -> None:
        """A session whose ``wake_at`` is past is unattended if it has no live owner; before that time it is not."""
        await owned(store, status="waiting", wake_at=50.0)
        await started(store, OTHER, status="waiting", wake_at=60.0)
        assert await _unattended(peer, now=59.9) == set()
        assert await _unattended(peer, now=60.0) == {OTHER}
        await crash(store)
        assert await _unattended(peer, now=49.9) == set()
        assert await _unattended(peer, now=60.0) == {SESSION, OTHER}

    async def test_a_sweep_takes_no_more_than_it_asked_for(self, store: Store) -> None:
        """``limit`` bounds a sweep; each session is found once, however many reasons it has."""
        for number in range(5):
            session_id = SessionId(f"sess_{number}")
            await started(store, session_id, wake_at=1.0)
            for command in ("cmd_1", "cmd_2"):
                await store.put(session_id, CommandId(command), b"", 1.0)
        assert len(await store.unattended(DRIVEN, 5.0, limit=3)) == 3
        assert len(await store.unattended(DRIVEN, 5.0)) == 5

    async def test_what_is_below_a_session_is_found_by_its_status(self, store: Store) -> None:
        """Children and theirs; not the session itself, nor another whose id only begins alike."""
        for name in ("sess_1", "sess_1.a", "sess_1.a.b", "sess_1.c", "sess_10", "sess_1-2", "sess_1/3", "sess_0.a"):
            await started(store, SessionId(name), status="completed" if name == "sess_1.c" else "running")
        found = await store.below(SessionId("sess_1"), ("running", "paused"))
        assert {head.id for head in found} == {"sess_1.a", "sess_1.a.b"}
        assert await store.below(SessionId("sess_10"), ("running",)) == []

    async def test_a_taken_session_is_attended(self, store: Store) -> None:
        await started(store)
        await store.enlist(ALICE, "")
        assert await _unattended(store) == {SESSION}
        await store.take(SESSION, ALICE)
        assert await _unattended(store) == set()

    async def test_workers_are_told_apart_by_any_name(self, store: Store, peer: Store) -> None:
        odd = WorkerId("../we ird/wörker%2e\n")
        await store.enlist(odd, "")
        await started(store, worker=odd)
        assert (await peer.head(SESSION)).owner == odd
        assert (await peer.head(SESSION)).alive


async def _unattended(store: Store, now: float = 0.0) -> set[str]:
    return {one.head.id for one in await store.unattended(DRIVEN, now)}
