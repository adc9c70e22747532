"""The promises of a store about erasing: no text of a session can be read any more, after one transaction."""

import pytest

from midcourse.core.audit import AuditEntry, AuditRow, check, encode_entry, without_detail
from midcourse.core.codec import Blob, digest_of
from midcourse.core.ids import CommandId, Epoch, Position, SessionId
from midcourse.errors import InboxNotEmpty, StaleEpoch, StoreError
from midcourse.ports.store import Append, Creation, Deciding, Erasure, Head, Store
from midcourse.testing.store_promises.fixtures import ALICE, BOB, SESSION, StoreGiven, head, rows

OTHER = SessionId("sess_2")
OUTCOME = b'{"code":"session_erased"}'


def _blob(text: str) -> Blob:
    content = text.encode()
    return Blob(digest_of(content), content)


def _naming(blob: Blob) -> bytes:
    return b'{"value":{"blob":"%s"}}' % blob.digest.encode()


def _erased(position: int) -> Head:
    return head(position=position, goal="erased", status="completed", digest=b"\x02" * 16)


class ErasingPromises(StoreGiven):
    async def _ended(self, store: Store) -> Epoch:
        await store.enlist(ALICE, "")
        epoch = await store.create(Creation(head(position=2), rows(1, 2), worker=ALICE))
        await store.put(SESSION, CommandId("cmd_1"), b"a secret wish", 1.0)
        await store.append(
            Append(head(position=2), epoch=epoch, deciding=Deciding(CommandId("cmd_1"), b"a secret answer"))
        )
        await store.save_snapshot(SESSION, Position(2), b"a secret snapshot", epoch=epoch)
        return epoch

    async def test_erasing_replaces_the_journal_and_keeps_nothing_else(self, store: Store) -> None:
        """The journal is the given one, the head too; snapshots are gone, commands keep their ids, no owner is left."""
        epoch = await self._ended(store)
        kept = rows(1, 3, before=b"\x07" * 16)
        await store.erase(Erasure(_erased(3), kept, epoch=epoch, outcome=OUTCOME))
        assert list(await store.read(SESSION, Position(0))) == kept
        assert await store.snapshots(SESSION) == []
        command = await store.row(SESSION, CommandId("cmd_1"))
        assert command is not None
        assert (command.id, command.put_at, command.content, command.outcome) == ("cmd_1", 1.0, b"", OUTCOME)
        owned = await store.head(SESSION)
        assert (owned.head, owned.owner) == (_erased(3), None)

    async def test_a_blob_goes_with_the_last_session_that_names_it(self, store: Store) -> None:
        """A blob that another session's journal names stays, however it was stored."""
        mine, shared, borrowed = _blob("mine"), _blob("shared"), _blob("borrowed")
        await store.enlist(ALICE, "")
        epoch = await store.create(Creation(head(), rows(1, 1), worker=ALICE, blobs=(mine, shared, borrowed)))
        row = (Position(1), _naming(borrowed), b"\x01" * 16)  # names what it has not stored itself
        other = await store.create(Creation(head(OTHER), [row], worker=ALICE))
        await store.append(Append(head(OTHER), epoch=other, blobs=(shared,)))
        await store.erase(Erasure(_erased(1), rows(1, 1), epoch=epoch, outcome=OUTCOME))
        found = await store.blobs([mine.digest, shared.digest, borrowed.digest])
        assert found == [None, b"shared", b"borrowed"]
        await store.erase(
            Erasure(
                head(OTHER, goal="erased"),
                [(Position(1), b"{}", b"\x01" * 16)],
                epoch=other,
                outcome=OUTCOME,
                shelves={},
            )
        )
        assert await store.blobs([shared.digest, borrowed.digest]) == [None, None]

    async def test_erasing_changes_shelves_and_the_audit_log_with_it(self, store: Store) -> None:
        """Items are put and taken away, details go and the log still follows, and a new entry is at its end."""
        epoch = await self._ended(store)
        await store.shelve("a", {"keep": b"1", "go": b"2", "change": b"3"})
        said = AuditEntry(session=SESSION, by="ann", role="steer", action="pause", detail="a secret reason", at=1.0)
        done = AuditEntry(session=SESSION, by="bo", role="operate", action="erase", at=2.0)
        await store.append(Append(head(position=2), epoch=epoch, audit=(said,)))
        await store.erase(
            Erasure(
                _erased(2),
                rows(1, 2),
                epoch=epoch,
                outcome=OUTCOME,
                shelves={"a": {"go": None, "change": b"4"}},
                forgotten=[AuditRow(1, without_detail(encode_entry(said)), b"")],
                audit=(done,),
            )
        )
        assert list(await store.shelved("a")) == [("change", b"4"), ("keep", b"1")]
        first, second = check(await store.audit())
        assert (first.entry.by, first.entry.action, first.entry.detail) == ("ann", "pause", "")
        assert second.entry == done

    async def test_an_anchor_of_the_audit_log_stays_one(self, store: Store) -> None:
        """The log may be trimmed between the reading of it and the erasing."""
        epoch = await self._ended(store)
        said = AuditEntry(session=SESSION, by="ann", role="steer", action="pause", detail="a secret reason", at=1.0)
        await store.append(Append(head(position=2), epoch=epoch, audit=(said,)))
        assert await store.trim_audit(2.0, AuditEntry(session=SESSION, by="", role="", action="audit.prune", at=3.0))
        forgotten = [AuditRow(1, without_detail(encode_entry(said)), b"")]
        await store.erase(Erasure(_erased(2), rows(1, 2), epoch=epoch, outcome=OUTCOME, forgotten=forgotten))
        assert [one.entry.action for one in check(await store.audit())] == ["audit.prune"]

    async def test_only_the_owner_erases(self, store: Store, peer: Store) -> None:
        epoch = await self._ended(store)
        await peer.enlist(BOB, "")
        for one, number in ((peer, epoch), (store, Epoch(epoch + 1))):
            with pytest.raises(StaleEpoch):
                await one.erase(Erasure(_erased(2), rows(1, 2), epoch=number, outcome=OUTCOME))
        assert (await store.head(SESSION)).head.goal == "Write it down"

    async def test_nothing_is_erased_over_an_undecided_command_or_with_rows_left_out(self, store: Store) -> None:
        """A caller waits for the command, and left out rows would be an unwanted loss."""
        epoch = await self._ended(store)
        with pytest.raises(StoreError) as refused:
            await store.erase(Erasure(_erased(1), rows(1, 1), epoch=epoch, outcome=OUTCOME))
        assert refused.value.code == "out_of_order"
        await store.put(SESSION, CommandId("cmd_2"), b"wait", 2.0)
        with pytest.raises(InboxNotEmpty):
            await store.erase(Erasure(_erased(2), rows(1, 2), epoch=epoch, outcome=OUTCOME))
        assert len(await store.snapshots(SESSION)) == 1
        assert (await store.head(SESSION)).head.goal == "Write it down"
