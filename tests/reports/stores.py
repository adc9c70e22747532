"""Journals in a store, as sessions that no process drives."""

from collections.abc import Mapping

from msgspec.structs import replace

from midcourse.core.codec import GENESIS, chain
from midcourse.core.events import Record, encode_record
from midcourse.core.fold import Row
from midcourse.ports.store import Creation, Store
from midcourse.runtime.journal import head_of
from tests.reports.journals import Journal


async def keep(store: Store, *journals: Journal, status: Mapping[str, str] | None = None) -> None:
    """Put them there, each with the time at which it began; ``status``: what the heads of some say instead."""
    for journal in journals:
        digest, rows = GENESIS, list[Row]()
        for record in journal.records:
            content = encode_record(Record(record.at, record.event))
            digest = chain(digest, record.position, content)
            rows.append((record.position, content, digest))
        head = replace(head_of(journal.session, digest), created_at=journal.began)
        head = replace(head, status=(status or {}).get(head.id, head.status))
        await store.create(Creation(head, rows, worker=None))
