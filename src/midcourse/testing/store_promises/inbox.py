"""The promises of a store's inbox: anyone may put a command, it is kept in order, and decided once."""

import asyncio

import pytest

from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.errors import Damaged, InboxNotEmpty, SessionNotFound, StoreError
from midcourse.ports.store import Append, Deciding, InboxRow, Store
from midcourse.testing.store_promises.fixtures import SESSION, Damage, StoreGiven, head, owned, rows, started

ONE, TWO = CommandId("cmd_1"), CommandId("cmd_2")


class InboxPromises(StoreGiven):
    async def test_anyone_may_put_a_command(self, store: Store, peer: Store) -> None:
        """A command from any store object is in the inbox, undecided, visible to its owner."""
        await owned(store)
        put = await peer.put(SESSION, ONE, b"pause", 5.0)
        assert put == InboxRow(seq=put.seq, id=ONE, put_at=5.0, content=b"pause", outcome=None)
        assert list(await store.undecided(SESSION)) == [put]
        assert await store.row(SESSION, ONE) == put

    async def test_a_command_needs_its_session(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.put(SESSION, ONE, b"pause", 5.0)
        assert await store.row(SESSION, ONE) is None
        assert list(await store.undecided(SESSION)) == []

    async def test_commands_stay_in_the_order_they_were_put(self, store: Store, peer: Store) -> None:
        """Undecided commands come in the order in which they were put, by number from 1, without a gap."""
        await owned(store)
        names = [CommandId(f"cmd_{9 - number}") for number in range(8)]
        for number, name in enumerate(names):
            await (store, peer)[number % 2].put(SESSION, name, b"", 100.0 - number)
        waiting = await store.undecided(SESSION)
        assert [row.id for row in waiting] == names
        assert [row.seq for row in waiting] == list(range(1, 1 + len(names)))

    async def test_an_id_is_one_command(self, store: Store, peer: Store) -> None:
        await owned(store)
        first = await store.put(SESSION, ONE, b"pause", 5.0)
        assert await peer.put(SESSION, ONE, b"cancel", 6.0) == first
        assert list(await store.undecided(SESSION)) == [first]

    async def test_a_hundred_puts_of_an_id_are_one_command(self, store: Store, peer: Store) -> None:
        await owned(store)
        answers = await asyncio.gather(
            *((store, peer)[number % 2].put(SESSION, ONE, b"%d" % number, 1.0) for number in range(100))
        )
        assert len({(row.seq, row.content) for row in answers}) == 1
        assert len(await store.undecided(SESSION)) == 1

    async def test_an_id_is_unique_for_ever(self, store: Store, peer: Store) -> None:
        """A retry after the decision gets the decided row with its outcome, and the inbox stays empty."""
        epoch = await owned(store)
        await peer.put(SESSION, ONE, b"pause", 5.0)
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"paused")))
        again = await peer.put(SESSION, ONE, b"pause", 9.0)
        assert (again.put_at, again.content, again.outcome) == (5.0, b"pause", b"paused")
        assert list(await store.undecided(SESSION)) == []

    async def test_the_same_id_in_another_session_is_another_command(self, store: Store) -> None:
        other = SessionId("sess_2")
        await owned(store)
        await started(store, other)
        await store.put(SESSION, ONE, b"pause", 5.0)
        await store.put(other, ONE, b"cancel", 5.0)
        assert [row.content for row in await store.undecided(SESSION)] == [b"pause"]
        assert [row.content for row in await store.undecided(other)] == [b"cancel"]

    async def test_one_append_decides_one_row(self, store: Store, peer: Store) -> None:
        """An append marks its command decided, together with its rows, and leaves every other command alone."""
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"pause", 5.0)
        await store.put(SESSION, TWO, b"resume", 6.0)
        await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"")))
        assert [row.id for row in await peer.undecided(SESSION)] == [TWO]
        decided = await peer.row(SESSION, ONE)
        assert decided is not None
        assert decided.outcome == b""
        assert len(await peer.read(SESSION, Position(0))) == 2

    async def test_a_command_can_be_decided_without_a_row(self, store: Store) -> None:
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"resume", 5.0)
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(ONE, b"refused")))
        assert list(await store.undecided(SESSION)) == []
        assert len(await store.read(SESSION, Position(0))) == 1

    async def test_what_a_command_says_can_be_forgotten_with_its_decision(self, store: Store, peer: Store) -> None:
        """Only its answer is kept, and a retry gets that."""
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"a secret", 5.0)
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(ONE, b"refused", forgets=True)))
        kept = await peer.row(SESSION, ONE)
        assert kept is not None
        assert (kept.content, kept.outcome, kept.put_at) == (b"", b"refused", 5.0)

    async def test_a_command_is_decided_once(self, store: Store) -> None:
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"pause", 5.0)
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(ONE, b"first")))
        with pytest.raises(StoreError) as refused:
            await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"second")))
        assert refused.value.code == "already_decided"
        decided = await store.row(SESSION, ONE)
        assert decided is not None
        assert decided.outcome == b"first"
        assert (await store.head(SESSION)).head.position == 1
        assert len(await store.read(SESSION, Position(0))) == 1

    async def test_what_was_never_put_cannot_be_decided(self, store: Store) -> None:
        epoch = await owned(store)
        with pytest.raises(StoreError) as refused:
            await store.append(Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"done")))
        assert refused.value.code == "command_not_found"
        assert len(await store.read(SESSION, Position(0))) == 1

    async def test_a_session_is_not_let_go_while_a_command_is_undecided(self, store: Store, peer: Store) -> None:
        """No releasing append releases a session with an undecided command, or writes."""
        epoch = await owned(store)
        await peer.put(SESSION, ONE, b"resume", 5.0)
        with pytest.raises(InboxNotEmpty):
            await store.append(Append(head(), epoch=epoch, release=True))
        with pytest.raises(InboxNotEmpty):
            await store.append(Append(head(position=2, status="paused"), rows(2, 2), epoch=epoch, release=True))
        await peer.put(SESSION, TWO, b"pause", 6.0)
        with pytest.raises(InboxNotEmpty):
            await store.append(
                Append(head(position=2), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"ok"), release=True)
            )
        known = await store.head(SESSION)
        assert (known.head, known.owner) == (head(), known.owner)
        assert known.alive
        assert [row.id for row in await store.undecided(SESSION)] == [ONE, TWO]
        assert len(await store.read(SESSION, Position(0))) == 1

    async def test_the_append_that_decides_the_last_command_may_let_go(self, store: Store) -> None:
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"pause", 5.0)
        await store.append(
            Append(
                head(position=2, status="paused"), rows(2, 2), epoch=epoch, deciding=Deciding(ONE, b"ok"), release=True
            )
        )
        known = await store.head(SESSION)
        assert (known.owner, known.epoch, known.head.status) == (None, epoch, "paused")

    async def test_a_put_and_a_release_at_the_same_time_never_both_pass_unseen(self, store: Store, peer: Store) -> None:
        """If the session was released, the command came later, and a sweep finds it; else its owner still has it."""
        await owned(store)
        epoch = (await store.head(SESSION)).epoch
        for number in range(20):
            released, put = await asyncio.gather(
                store.append(Append(head(), epoch=epoch, release=True)),
                peer.put(SESSION, CommandId(f"cmd_{number}"), b"", 1.0),
                return_exceptions=True,
            )
            assert isinstance(put, InboxRow)
            if released is None:
                assert [one.head.id for one in await store.unattended([], 0.0)] == [SESSION]
                break
            assert isinstance(released, InboxNotEmpty)
            assert (await store.head(SESSION)).alive
            await store.append(Append(head(), epoch=epoch, deciding=Deciding(put.id, b"")))

    async def test_a_damaged_command_is_never_followed(self, store: Store, damage: Damage) -> None:
        """A command that fails its checksum is listed without content; asked for by its id, it is an error."""
        epoch = await owned(store)
        await store.put(SESSION, ONE, b"pause", 5.0)
        await store.put(SESSION, TWO, b"cancel", 6.0)
        await damage("command", SESSION)
        assert [(row.id, row.content) for row in await store.undecided(SESSION)] == [(ONE, b"pause"), (TWO, b"")]
        with pytest.raises(Damaged, match=TWO):
            await store.row(SESSION, TWO)
        with pytest.raises(Damaged):
            await store.put(SESSION, TWO, b"cancel", 6.0)
        await store.append(Append(head(), epoch=epoch, deciding=Deciding(TWO, b"refused")))
        assert [row.id for row in await store.undecided(SESSION)] == [ONE]
