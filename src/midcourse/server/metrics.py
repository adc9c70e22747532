"""The metrics of ``/metrics`` about the store's state. Read when asked for, and not often.

A scrape does not wait for a long read: it is made in the background, for the next scrape.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from midcourse.analysis.reports.counters import Shares, spread
from midcourse.analysis.reports.facts import SessionFacts
from midcourse.analysis.reports.fleet import Fleet, FleetSession, default_policy
from midcourse.core.ids import Position, SessionId
from midcourse.core.session import LIVE
from midcourse.errors import MidcourseError
from midcourse.handle import LocalTransport
from midcourse.people.outbox import Outbox
from midcourse.policy.intervention_shelf import count_alarms
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.clock import Clock
from midcourse.ports.store import Head, HeadQuery, Store, every_head
from midcourse.server.host_threads import ReadingThread
from midcourse.telemetry.metrics import UNCLASSED, Census, FleetRates, Metrics, Rates

log = logging.getLogger("midcourse.server")

EVERY: Final = 10.0
"""Seconds for which a census holds."""
RATES_EVERY: Final = 300.0
"""Seconds for which rates hold: to compute them, journals are read."""
DAY: Final = 86_400.0
MOST_COUNTED: Final = 50_000
"""Sessions that a census counts."""
MOST_RATED: Final = 2000
"""Sessions that rates are of: the newest of the last day. One that has not moved is not read again."""
_FIRST: Final = 1.0
"""Seconds that the first one who asks waits for a census."""


class StoreMetrics:
    """The figures of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.metrics = Metrics(clock)
        self._known: dict[SessionId, tuple[Position, FleetSession]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done_at: dict[str, float] = {}

    async def text(self, local: LocalTransport, reading: ReadingThread, streams: int, accept: str) -> tuple[bytes, str]:
        """Everything as it is now, and the format it is in."""
        worker, standing = local.worker, self.metrics.standing
        standing.owned, standing.streams = len(worker.drivers()), streams
        standing.draining, standing.control_age = worker.is_draining, worker.control_age
        counting = self._beside("census", EVERY, reading, self._count(worker.store))
        self._beside("rates", RATES_EVERY, reading, self._rate(worker.store, worker.settings.policy))
        if counting is not None and not standing.census.at:
            await asyncio.wait({counting}, timeout=_FIRST)
        return await asyncio.to_thread(self.metrics.text, accept)

    def close(self) -> None:
        """Stop: no more scrapes follow."""
        for task in list(self._tasks.values()):
            task.cancel()

    def _beside(
        self, name: str, every: float, reading: ReadingThread, work: Coroutine[Any, Any, None]
    ) -> "asyncio.Task[None] | None":
        """Do it in the reading thread, unless it is being done, or was lately."""
        now = self._clock.monotonic()
        if name in self._tasks or now - self._done_at.get(name, -every) < every:
            work.close()
            return self._tasks.get(name)
        self._done_at[name] = now
        task = self._tasks[name] = asyncio.create_task(self._log_errors(name, reading, work))
        task.add_done_callback(lambda _: self._tasks.pop(name, None))
        return task

    async def _log_errors(self, name: str, reading: ReadingThread, work: Coroutine[Any, Any, None]) -> None:
        try:
            await reading(work)
        except MidcourseError as error:
            log.warning("metrics: the %s could not be made: %s", name, error)
        except Exception:
            log.exception("metrics: the %s could not be made: unexpected", name)

    async def _count(self, store: Store) -> None:
        self.metrics.standing.census = await census(store, self._clock.now())

    async def _rate(self, store: Store, policy: str) -> None:
        now = self._clock.now()
        self.metrics.standing.rates = await rates(store, now, policy, self._known)
        self.metrics.standing.rated_at = now


async def census(store: Store, now: float) -> Census:
    """Return the state of the store.

    Raises:
        StoreError: it cannot be read now.
    """
    sessions: Counter[tuple[str, str]] = Counter()
    asks, oldest = 0, None
    async for head in every_head(store, HeadQuery(statuses=[status.value for status in LIVE])):
        sessions[head.status, head.task_class or UNCLASSED] += 1
        asks += head.asks
        oldest = _older(oldest, head)
        if sessions.total() >= MOST_COUNTED:
            break
    waiting = await Outbox(store).waiting()
    return Census(
        at=now,
        sessions=dict(sessions),
        asks=asks,
        oldest_ask=oldest,
        alarms=await count_alarms(store, since=now - DAY),
        kill_switches=len(await ActiveSwitches(store).switches()),
        webhooks_waiting=len(waiting),
        webhooks_failing=sum(row.tries > 0 for row in waiting),
    )


def _older(oldest: float | None, head: Head) -> float | None:
    opened = [ask.opened_at for ask in head.open_asks]
    return min(opened if oldest is None else [oldest, *opened], default=None)


async def rates(
    store: Store, now: float, policy: str, known: dict[SessionId, tuple[Position, FleetSession]]
) -> FleetRates:
    """Return what became of the last day's sessions, by class and in all, counted as reports count.

    Raises:
        StoreError: it cannot be read now.
    """
    default = await default_policy(store, policy)
    fleet = Fleet(store, now - DAY, now, default=default, most=MOST_RATED, known=known)
    everything = Shares([one.facts async for one in fleet.sessions()])
    by_class: dict[str, list[SessionFacts]] = {}
    for one in everything.all:
        by_class.setdefault(one.task_class, []).append(one)
    for gone in known.keys() - {one.id for one in everything.all}:
        del known[gone]
    return FleetRates(
        classes={name: _rates(Shares(found)) for name, found in by_class.items()},
        ratios={
            "calls_left_accuracy": everything.estimates().within.share,
            "consistency": everything.consistency(fleet.damaged).sessions.share,
        },
    )


def _rates(found: Shares) -> Rates:
    outcomes, worked, tokens = found.outcomes(), spread(found.worked), spread(found.token_rates)
    return Rates(
        sessions=len(found.all),
        interruption_by={one: count / len(found.all) for one, count in found.stopped_by.items()},
        ratios={
            "interruption": found.interrupted().share,
            "completion": found.completed().share,
            "false_positive": found.false_positives().share,
            "stopped_completion": outcomes.stopped.share,
            "unstopped_completion": outcomes.unstopped.share,
            "recovery": found.recoveries().all.share,
            "intervention_return": found.returns().roi,
        },
        spreads={"run_seconds": (worked.p50, worked.p99), "tokens_per_second": (tokens.p50, tokens.p99)},
    )
