"""Reading the audit log back: from any entry on, and only as far as it can be trusted."""

import pytest

from midcourse.core import commands as cmd
from midcourse.core.audit import PRUNE, AuditEntry
from midcourse.core.audit_export import Title, Verified, verify
from midcourse.core.ids import CommandId, SessionId
from midcourse.errors import Damaged
from midcourse.ports.audit_log import audit_filter, audit_page, export_audit, prune_audit, read_audit
from midcourse.ports.store import Append, InboxRow
from midcourse.runtime.audit_entry import entry_of
from midcourse.runtime.command_outcome import CommandOutcome
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_promises.fixtures import SESSION, head, owned

ID = CommandId("cmd_1")


@pytest.fixture
async def store() -> MemoryStore:
    """A store whose log has five entries."""
    store = MemoryStore()
    epoch = await owned(store)
    entries = [AuditEntry(session=SESSION, by=who, role="steer", action="pause") for who in "abcde"]
    await store.append(Append(head(), epoch=epoch, audit=entries))
    return store


async def read(store: MemoryStore, after: int = 0, limit: int = 100) -> str:
    return "".join(one.entry.by for one in await read_audit(store, after, limit))


async def test_the_log_is_read_page_by_page(store: MemoryStore) -> None:
    assert [await read(store, after, 2) for after in (0, 2, 4, 5, 6)] == ["ab", "cd", "e", "", ""]
    assert await read(store, -1) == "abcde"


@pytest.mark.parametrize(("after", "where"), [(0, 3), (1, 3), (2, 3), (3, 3)])
async def test_a_removed_entry_is_noticed_from_every_side(store: MemoryStore, after: int, where: int) -> None:
    """Also by whoever saw it, and comes back with its number."""
    store.memory.connection.execute("DELETE FROM audit WHERE seq = 3")

    with pytest.raises(Damaged, match=f"damaged at entry {where}: it is missing.*after=4"):
        await read(store, after)
    assert await read(store, 0, 2) == "ab"
    assert await read(store, 4) == "e"


def test_a_command_and_what_came_of_it_make_an_entry() -> None:
    command = cmd.Resume(id=ID, by="ann", role="operate")
    row = InboxRow(seq=1, id=ID, put_at=1.0, content=cmd.encode_command(command))

    assert entry_of(SESSION, row, CommandOutcome(code="agent_unavailable")) == AuditEntry(
        session=SESSION, by="ann", role="operate", action="resume", outcome="agent_unavailable"
    )


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_row_nobody_can_read_makes_an_entry(content: bytes) -> None:
    one = entry_of(SESSION, InboxRow(seq=1, id=ID, put_at=0.0, content=content), CommandOutcome(code="damaged"))

    assert (one.session, one.by, one.action, one.outcome) == (SESSION, "", "unreadable", "damaged")
    assert ID in one.detail


# ---- of several tenants, over a long time


@pytest.fixture
async def shared() -> MemoryStore:
    """A store with an entry a second, in turn of acme, of beta and of nobody's."""
    store = MemoryStore()
    epoch = await owned(store)
    entries = [
        AuditEntry(session=SessionId(f"{whose}x"), by=f"{number}", role="steer", action="pause", at=float(number))
        for number, whose in enumerate(["acme~", "beta~", ""] * 600, 1)
    ]
    await store.append(Append(head(), epoch=epoch, audit=entries))
    return store


async def exported(store: MemoryStore, **wish: object) -> Verified:
    title = Title(made_at=9.0, by="ann", **wish)  # pyright: ignore[reportArgumentType]
    content = b"".join([piece async for piece in export_audit(store, title)])
    return verify(content.splitlines(keepends=True))


async def test_a_tenants_pages_hold_its_own_entries_and_go_on_until_the_end(shared: MemoryStore) -> None:
    wanted = audit_filter(session=None, since=None, tenant="acme")
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page, after = await audit_page(shared, after, 250, wanted)
        assert len(page) <= 250
        found += [one.entry.by for one in page]
    assert found == [str(number) for number in range(1, 1801, 3)]


async def test_the_rare_is_looked_for_only_so_far_at_once(shared: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer says how far it came: nobody waits for the whole log to be read."""
    monkeypatch.setattr("midcourse.ports.audit_log._PAGES", 2)
    wanted = audit_filter(session=None, since=1800.0, tenant=None)
    assert await audit_page(shared, 0, 10, wanted) == ([], 1000)
    [last], end = await audit_page(shared, 1000, 10, wanted)
    assert (last.seq, end) == (1800, None)


async def test_an_export_begins_where_it_is_told_and_proves_what_it_holds(shared: MemoryStore) -> None:
    whole = await exported(shared)
    assert (whole.first, whole.last, len(whole.entries), whole.withheld) == (1, 1800, 1800, 0)
    theirs = await exported(shared, tenant="beta", since=1201.0)
    assert (theirs.first, theirs.last, len(theirs.entries), theirs.withheld) == (1201, 1800, 200, 400)
    assert theirs.digest == whole.digest
    assert len((await exported(shared, session="acme~x")).entries) == 600
    assert (await exported(shared, since=9999.0)).entries == ()
    assert (await exported(MemoryStore())).last == 0


async def test_an_export_of_a_damaged_log_says_so_and_does_not_verify(shared: MemoryStore) -> None:
    shared.memory.connection.execute("DELETE FROM audit WHERE seq = 701")
    with pytest.raises(Damaged, match="entry 501: the log could not be read any further.*damaged at entry 701"):
        await exported(shared)


async def test_what_is_pruned_is_told_and_an_export_of_the_rest_verifies(shared: MemoryStore) -> None:
    assert await prune_audit(shared, 1000.5, by="root", role="operate", now=2000.0) == 1000
    assert await prune_audit(shared, 1000.5, by="root", role="operate", now=2001.0) == 0
    for tenant in (None, "acme", "beta"):
        left = await exported(shared, tenant=tenant)
        assert (left.first, left.last) == (1001, 1801)
        assert [(one.action, one.by) for _, one in left.entries][-1] == (PRUNE, "root")
    page, _ = await audit_page(shared, 0, 3)
    assert [one.seq for one in page] == [1001, 1002, 1003]
    assert await prune_audit(shared, 1e12, by="root", role="operate", now=2000.0) == 800, "not what tells of it"


async def test_a_beginning_that_was_removed_by_hand_is_noticed(shared: MemoryStore) -> None:
    """An anchor that no entry tells of is none."""
    shared.memory.connection.execute("DELETE FROM audit WHERE seq < 3")
    shared.memory.connection.execute("UPDATE audit SET entry = x'' WHERE seq = 3")
    for after in (0, 1):
        with pytest.raises(Damaged, match="damaged at entry 3: .*no entry tells who took it away"):
            await read_audit(shared, after)
    with pytest.raises(Damaged, match="no entry tells who took it away"):
        await exported(shared)
    assert (await read_audit(shared, 4))[0].seq == 5


async def test_an_export_that_was_overtaken_by_pruning_says_so(shared: MemoryStore) -> None:
    export = export_audit(shared, Title(made_at=9.0, by="ann"))
    pieces = [await anext(export), await anext(export)]
    assert await prune_audit(shared, 1000.5, by="root", role="operate", now=2000.0) == 1000
    pieces += [piece async for piece in export]
    with pytest.raises(Damaged, match="entries up to 1000 were pruned meanwhile"):
        verify(b"".join(pieces).splitlines(keepends=True))
