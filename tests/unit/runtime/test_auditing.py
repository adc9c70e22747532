"""Reading the audit log back: from any entry on, and only as far as it can be trusted."""

import pytest

from midcourse.core import commands as cmd
from midcourse.core.audit import AuditEntry
from midcourse.core.ids import CommandId
from midcourse.errors import Damaged
from midcourse.ports.store import InboxRow
from midcourse.runtime.auditing import entry_of, read_audit
from midcourse.runtime.outcomes import Outcome
from midcourse.stores.memory import MemoryStore
from midcourse.testing.store_promises.given import SESSION, head, owned

ID = CommandId("cmd_1")


@pytest.fixture
async def store() -> MemoryStore:
    """A store whose log has five entries."""
    store = MemoryStore()
    epoch = await owned(store)
    entries = [AuditEntry(session=SESSION, by=who, role="steer", action="pause") for who in "abcde"]
    await store.append(head(), [], epoch=epoch, audit=entries)
    return store


async def read(store: MemoryStore, after: int = 0, limit: int = 100) -> str:
    return "".join(one.entry.by for one in await read_audit(store, after, limit))


async def test_the_log_is_read_page_by_page(store: MemoryStore) -> None:
    assert [await read(store, after, 2) for after in (0, 2, 4, 5, 6)] == ["ab", "cd", "e", "", ""]
    assert await read(store, -1) == "abcde"


@pytest.mark.parametrize(("after", "where"), [(0, 3), (1, 3), (2, 3), (3, 3)])
async def test_a_removed_entry_is_noticed_from_every_side(store: MemoryStore, after: int, where: int) -> None:
    """Also by whoever saw it, and comes back with its number."""
    del store.memory.audit[2]

    with pytest.raises(Damaged, match=f"damaged at entry {where}: it is missing.*after=4"):
        await read(store, after)
    assert await read(store, 0, 2) == "ab"
    assert await read(store, 4) == "e"


def test_a_command_and_what_came_of_it_make_an_entry() -> None:
    command = cmd.Resume(id=ID, by="ann", role="operate")
    row = InboxRow(seq=1, id=ID, put_at=1.0, content=cmd.encode_command(command))

    assert entry_of(SESSION, row, Outcome(code="agent_unavailable")) == AuditEntry(
        session=SESSION, by="ann", role="operate", action="resume", outcome="agent_unavailable"
    )


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_row_nobody_can_read_makes_an_entry(content: bytes) -> None:
    one = entry_of(SESSION, InboxRow(seq=1, id=ID, put_at=0.0, content=content), Outcome(code="damaged"))

    assert (one.session, one.by, one.action, one.outcome) == (SESSION, "", "unreadable", "damaged")
    assert ID in one.detail
