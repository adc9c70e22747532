"""The runs of an agent that were over when another one began: what its class and its estimates rest on."""

from bisect import bisect_right
from itertools import islice
from math import inf
from typing import Final

from midcourse.core.ids import SessionId
from midcourse.policy.signals.calls_left import CallHistory
from midcourse.ports.store import Head, HeadQuery, Store

RUNS: Final = 200
"""The newest, which are enough."""


class PastRuns:
    """The completed sessions of one agent, newest first; each is read once, and no further back than is asked."""

    def __init__(self, store: Store, agent: str, tenant: str) -> None:
        self._store = store
        self._agent = agent
        self._tenant = tenant
        self._runs: list[Head] = []
        self._last: SessionId | None = None
        self._ends = False

    async def before(self, at: float = inf) -> CallHistory:
        """Return what those of one turn needed that were over by then; of all, if no time is given."""
        while True:
            first = bisect_right(self._runs, -at, key=lambda run: -run.created_at) if at < inf else 0
            over = (run for run in self._runs[first:] if run.created_at + run.worked <= at)
            found = list(islice(over, RUNS))
            if len(found) == RUNS or self._ends:
                break
            await self._read()
        whole = [run for run in found if run.turn == 1]
        calls, seconds = (run.finished_steps for run in whole), (run.worked for run in whole)
        return CallHistory(calls=tuple(sorted(calls)), seconds=tuple(sorted(seconds)))

    async def _read(self) -> None:
        query = HeadQuery(
            statuses=("completed",), agent=self._agent, tenant=self._tenant, limit=RUNS, before=self._last
        )
        page = await self._store.heads(query)
        self._runs += page
        self._ends = len(page) < RUNS
        self._last = page[-1].id if page else None
