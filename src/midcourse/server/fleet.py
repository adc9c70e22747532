"""The fleet as it changes: one look at the store for all who follow it, and to each what changed of what it follows."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from midcourse.core.tenants import tenant_of
from midcourse.ports.clock import Clock
from midcourse.ports.store import Head, Store
from midcourse.runtime.contact import with_contact

MOST: Final = 10_000
"""The newest sessions that are followed; older ones come page by page."""
EVERY: Final = 0.5
"""Seconds between two looks, while anybody follows."""
SHARE: Final = 0.1
"""Of the time, at most so much is spent on looking: a larger fleet is looked at less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody follows. ``tenant`` None: all tenants."""

    statuses: frozenset[str] = field(default_factory=frozenset)
    agent: str | None = None
    task_class: str | None = None
    label: str | None = None
    search: str = ""
    tenant: str | None = None
    limit: int = MOST

    def of(self, heads: Sequence[Head]) -> tuple[dict[str, Head], dict[str, int]]:
        """The newest of those that are wanted, and how many there are in each status, whichever of them is wanted."""
        counts: Counter[str] = Counter()
        found: dict[str, Head] = {}
        words = self.search.casefold()
        for head in heads:
            if self.tenant is not None and tenant_of(head.id) != self.tenant:
                continue
            if self.agent is not None and head.agent != self.agent:
                continue
            if not head.fits(words, task_class=self.task_class, label=self.label):
                continue
            counts[head.status] += 1
            if (not self.statuses or head.status in self.statuses) and len(found) < self.limit:
                found[head.id] = head
        return found, dict(counts)


class Board:
    """The heads of the fleet, newest first. However many follow, the store is looked at once."""

    def __init__(self, store: Store, clock: Clock, patience: float) -> None:
        self._store = store
        self._clock = clock
        self._patience = patience
        self._looking = asyncio.Lock()
        self._heads: Sequence[Head] = ()
        self._next = 0.0

    async def look(self) -> Sequence[Head]:
        """The heads as they were at most a moment ago. One that has not changed is the same object as before."""
        async with self._looking:
            began = self._clock.monotonic()
            if began < self._next:
                return self._heads
            heads = await self._store.heads(limit=MOST)
            read = await with_contact(self._store, heads, self._clock.now(), self._patience)
            known = {head.id: head for head in self._heads}
            self._heads = [known[head.id] if known.get(head.id) == head else head for head in read]
            ended = self._clock.monotonic()
            self._next = began + max(EVERY * 0.9, (ended - began) / SHARE)
            return self._heads
