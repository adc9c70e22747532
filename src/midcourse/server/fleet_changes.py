"""Follow the fleet: one poll of the store for all followers, and to each the changes of its part."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from midcourse.handle.contact import with_contact
from midcourse.ports.clock import Clock
from midcourse.ports.store import Head, HeadQuery, Store

MOST: Final = 10_000
"""The newest sessions that are followed; older ones come page by page."""
EVERY: Final = 0.5
"""Seconds between two looks, while anybody follows."""
SHARE: Final = 0.1
"""The largest share of time spent on polling: a larger fleet is polled less often."""


def found_by(query: HeadQuery, heads: Sequence[Head]) -> tuple[dict[str, Head], dict[str, int]]:
    """Return the newest that a query finds, and how many there would be in each status, whichever it asks for."""
    counts: Counter[str] = Counter()
    found: dict[str, Head] = {}
    in_any_status = replace(query, statuses=())
    for head in heads:
        if in_any_status.fits(head):
            counts[head.status] += 1
            if (not query.statuses or head.status in query.statuses) and len(found) < query.limit:
                found[head.id] = head
    return found, dict(counts)


class FleetBoard:
    """The heads of the fleet, newest first. The store is polled once for all followers."""

    def __init__(self, store: Store, clock: Clock, patience: float) -> None:
        self._store = store
        self._clock = clock
        self._patience = patience
        self._looking = asyncio.Lock()
        self._heads: Sequence[Head] = ()
        self._next = 0.0

    async def look(self) -> Sequence[Head]:
        """Return recent heads. One that has not changed is the same object as before."""
        async with self._looking:
            began = self._clock.monotonic()
            if began < self._next:
                return self._heads
            heads = await self._store.heads(HeadQuery(limit=MOST))
            read = await with_contact(self._store, heads, self._clock.now(), self._patience)
            known = {head.id: head for head in self._heads}
            self._heads = [known[head.id] if known.get(head.id) == head else head for head in read]
            ended = self._clock.monotonic()
            self._next = began + max(EVERY * 0.9, (ended - began) / SHARE)
            return self._heads
