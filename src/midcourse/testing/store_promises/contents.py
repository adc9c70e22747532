"""The promises of a store about everything else it keeps: heads to list, snapshots, blobs, and notice of writes."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from midcourse.core.codec import Blob, digest_of
from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.errors import Damaged
from midcourse.ports.store import Append, Head, HeadQuery, Store
from midcourse.testing.store_promises.fixtures import ALICE, SESSION, Damage, StoreGiven, head, owned, rows, started


class KeepingPromises(StoreGiven):
    async def test_a_store_says_what_it_survives(self, store: Store) -> None:
        """The durability is one of the three words, and the name identifies the store."""
        assert store.durability in {"nothing", "process", "power"}
        assert "://" in store.name

    async def test_sessions_are_listed_newest_first(self, store: Store) -> None:
        """The list begins with the session created last, and ends at the limit."""
        for number in (2, 0, 3, 1):
            await started(store, SessionId(f"sess_{number}"), created_at=float(number))
        assert _ids(await store.heads()) == ["sess_3", "sess_2", "sess_1", "sess_0"]
        assert _ids(await store.heads(HeadQuery(limit=2))) == ["sess_3", "sess_2"]
        assert _ids(await store.heads(HeadQuery(limit=2, before=SessionId("sess_2")))) == ["sess_1", "sess_0"]
        assert _ids(await store.heads(HeadQuery(before=SessionId("sess_0")))) == []
        assert _ids(await store.heads(HeadQuery(before=SessionId("sess_9")))) == []

    async def test_a_list_read_page_by_page_leaves_out_nothing_created_at_the_same_moment(self, store: Store) -> None:
        """The order is total: no session is listed twice or passed over."""
        for number in range(7):
            await started(store, SessionId(f"sess_{number}"), created_at=1.0)
        seen: list[str] = []
        while page := await store.heads(HeadQuery(limit=2, before=SessionId(seen[-1]) if seen else None)):
            seen += _ids(page)
        assert sorted(seen) == [f"sess_{number}" for number in range(7)]

    async def test_sessions_are_found_by_words_of_their_id_agent_or_goal(self, store: Store) -> None:
        """Whatever the case, and together with the other filters."""
        await started(store, SessionId("sess_a"), goal="Write the MEMO on Zürich", agent="writer")
        await started(store, SessionId("sess_b"), goal="Fix the build", agent="fixer")
        assert _ids(await store.heads(HeadQuery(search="memo"))) == ["sess_a"]
        assert _ids(await store.heads(HeadQuery(search="ZÜRICH"))) == ["sess_a"]
        assert _ids(await store.heads(HeadQuery(search="SESS_B"))) == ["sess_b"]
        assert _ids(await store.heads(HeadQuery(search="writer", agent="fixer"))) == []

    async def test_sessions_are_listed_by_status_and_agent(self, store: Store) -> None:
        """Filters hold together, and follow the head as it changes."""
        await store.enlist(ALICE, "")
        epoch = await started(store, worker=ALICE, status="running", agent="a")
        await started(store, SessionId("sess_2"), status="paused", agent="a")
        await started(store, SessionId("sess_3"), status="paused", agent="b")
        assert set(_ids(await store.heads(HeadQuery(statuses=["paused"])))) == {"sess_2", "sess_3"}
        assert set(_ids(await store.heads(HeadQuery(statuses=["paused", "running"], agent="a")))) == {
            "sess_1",
            "sess_2",
        }
        assert _ids(await store.heads(HeadQuery(agent="none"))) == []
        await store.append(Append(head(position=2, status="paused", agent="a"), rows(2, 2), epoch=epoch))
        assert set(_ids(await store.heads(HeadQuery(statuses=["paused"], agent="a")))) == {"sess_1", "sess_2"}

    async def test_a_damaged_head_is_noticed(self, store: Store, damage: Damage) -> None:
        """A head that fails its checksum is an error when asked for, left out of lists and sweeps, and not acquired."""
        await store.enlist(ALICE, "")
        await started(store)
        await started(store, SessionId("sess_2"))
        await damage("head", SESSION)
        with pytest.raises(Damaged, match=SESSION):
            await store.head(SESSION)
        with pytest.raises(Damaged):
            await store.take(SESSION, ALICE)
        assert _ids(await store.heads()) == ["sess_2"]
        assert [one.head.id for one in await store.unattended(["running"], 0.0)] == ["sess_2"]

    async def test_the_two_newest_snapshots_are_kept(self, store: Store, peer: Store) -> None:
        """Snapshots come newest first; a third one pushes the oldest out."""
        epoch = await owned(store)
        await started(store, SessionId("sess_2"), worker=ALICE)
        assert list(await store.snapshots(SESSION)) == []
        for position in (1, 5, 9):
            await store.save_snapshot(SESSION, Position(position), b"at %d" % position, epoch=epoch)
        await store.save_snapshot(SessionId("sess_2"), Position(3), b"other", epoch=epoch)
        assert list(await peer.snapshots(SESSION)) == [b"at 9", b"at 5"]
        assert list(await peer.snapshots(SessionId("sess_2"))) == [b"other"]
        assert list(await peer.snapshots(SessionId("sess_none"))) == []

    async def test_a_snapshot_replaces_one_at_the_same_position(self, store: Store) -> None:
        epoch = await owned(store)
        for position, content in ((1, b"one"), (2, b"two"), (2, b"two again")):
            await store.save_snapshot(SESSION, Position(position), content, epoch=epoch)
        assert list(await store.snapshots(SESSION)) == [b"two again", b"one"]

    async def test_a_damaged_snapshot_is_skipped(self, store: Store, damage: Damage) -> None:
        epoch = await owned(store)
        for position in (1, 2):
            await store.save_snapshot(SESSION, Position(position), b"at %d" % position, epoch=epoch)
        await damage("snapshot", SESSION)
        assert list(await store.snapshots(SESSION)) == [b"at 1"]

    async def test_the_last_owner_may_still_save_a_snapshot(self, store: Store) -> None:
        """After a release, and before the next owner, the last epoch may save a snapshot: it is no truth."""
        epoch = await owned(store)
        await store.append(Append(head(), epoch=epoch, release=True))
        await store.save_snapshot(SESSION, Position(1), b"parked", epoch=epoch)
        assert list(await store.snapshots(SESSION)) == [b"parked"]

    async def test_blobs_are_found_by_their_digest(self, store: Store, peer: Store) -> None:
        """A blob is kept once, however often it is stored; an unknown digest is None."""
        epoch = await owned(store)
        contents = [b"", b"\x00\xff", b"x" * 3_000_000]
        blobs = [Blob(digest_of(content), content) for content in contents]
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, blobs=blobs))
        await store.append(Append(head(position=3), rows(3, 3), epoch=epoch, blobs=blobs))
        await store.save_snapshot(SESSION, Position(3), b"", epoch=epoch, blobs=[*blobs, Blob("of a snapshot", b"s")])
        for blob in blobs:
            assert (await peer.blobs([blob.digest]))[0] == blob.content
        assert (await peer.blobs(["of a snapshot"]))[0] == b"s"
        assert (await peer.blobs(["unknown"]))[0] is None

    async def test_a_write_of_another_is_noticed(self, store: Store, peer: Store) -> None:
        """``changed`` is true once after others wrote, and false while there are no writes."""
        await started(store)
        await store.changed()
        assert not await store.changed()
        await peer.put(SESSION, CommandId("cmd_1"), b"", 1.0)
        assert await store.changed()
        assert not await store.changed()

    async def test_a_store_serves_several_loops(self, store: Store) -> None:
        """Loops in other threads use the same store object; each is answered on its own loop."""
        await store.enlist(ALICE, "")
        failures: list[BaseException] = []

        async def drive(name: str) -> None:
            session_id = SessionId(f"sess_{name}")
            epoch = await started(store, session_id, worker=ALICE)
            for position in range(2, 42):
                await store.append(Append(head(session_id, position), rows(position, position), epoch=epoch))
                assert (await store.head(session_id)).head.position == position

        def run(name: str) -> None:
            try:
                asyncio.run(drive(name))
            except BaseException as failure:  # noqa: BLE001 - reported by the test below, whatever it is
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        await drive("c")
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert not failures
        assert {one.position for one in await store.heads()} == {41}

    async def test_a_loop_that_is_gone_hurts_nobody(self, store: Store) -> None:
        await started(store)

        async def leave() -> None:
            for number in range(20):
                _ = store.put(SESSION, CommandId(f"cmd_gone_{number}"), b"", 1.0)

        def run() -> None:
            asyncio.run(leave())

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(50):
            await store.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0)
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await store.put(SESSION, CommandId("cmd_last"), b"", 1.0)
        assert len(await store.undecided(SESSION)) == 71


def _ids(heads: Sequence[Head]) -> list[str]:
    return [one.id for one in heads]
