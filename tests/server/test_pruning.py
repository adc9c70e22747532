"""The server's own pruning of the audit log: what is older than it is kept goes, and that is written down."""

import asyncio

import pytest

from midcourse.core.audit import KEPT, PRUNE, AuditEntry
from midcourse.core.ids import SessionId
from midcourse.errors import InvalidInput
from midcourse.ports.audit_log import read_audit
from midcourse.server.audit_retention import check_kept, keep_pruning
from midcourse.server.host_threads import ReadingThread
from midcourse.stores.sqlite.memory import MemoryStore
from tests.server.manual_clock import StillClock
from tests.server.stream_reader import eventually


def entry(at: float) -> AuditEntry:
    return AuditEntry(session=SessionId(""), by="ann", role="operate", action="token.add", at=at)


async def test_what_is_older_than_ninety_days_goes_and_the_rest_stays() -> None:
    store, clock, reading = MemoryStore(), StillClock(), ReadingThread()
    await store.shelve("tokens", {"ann": b"1"}, audit=[entry(1.0), entry(2.0), entry(500.0)])
    clock.seconds = KEPT + 100.0
    pruning = asyncio.create_task(keep_pruning(store, clock, reading))
    try:
        left = await eventually(lambda: read_audit(store), lambda found: found[0].seq == 3)
    finally:
        pruning.cancel()
        reading.close()
    assert [(one.seq, one.entry.action, one.entry.by) for one in left] == [(3, "token.add", "ann"), (4, PRUNE, "local")]


@pytest.mark.parametrize("seconds", [0.0, -1.0, 3600.0, float("inf"), float("nan")])
def test_an_audit_log_is_kept_for_a_day_at_least(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="day or longer"):
        check_kept(seconds)
    assert check_kept(None) is None
    assert check_kept(KEPT) == KEPT
