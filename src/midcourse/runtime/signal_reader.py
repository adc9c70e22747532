"""Measure the signals of sessions for display, and continue from the last reading when asked again."""

import asyncio
from collections import OrderedDict
from typing import Final

from midcourse.core import events as ev
from midcourse.core.ids import Position, SessionId
from midcourse.core.session import LIVE
from midcourse.core.signals import Signals
from midcourse.core.tenants import tenant_of
from midcourse.policy.signals.session_signals import Gauges
from midcourse.ports.store import Head
from midcourse.runtime.session_loader import read_events
from midcourse.runtime.supervisor import Supervisor

_KEPT: Final = 32
"""The number of sessions whose measurements are kept: the last ones that were read."""
_PAGE: Final = 200
"""Events that are measured before others have their turn."""


class _Looked:
    """A session that is read."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.gauges: Gauges | None = None


class SignalReader:
    """Reads what is new of a journal each time, not all of it. For one event loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._looked: OrderedDict[SessionId, _Looked] = OrderedDict()

    async def read(self, head: Head) -> Signals:
        """Return the signals of a session as they are now.

        Raises:
            Damaged: its journal, or its policy, is.
        """
        looked = self._looked.setdefault(head.id, _Looked())
        self._looked.move_to_end(head.id)
        while len(self._looked) > _KEPT:
            self._looked.popitem(last=False)
        async with looked.lock:  # who asks at the same time has no need to measure it a second time
            gauges = await self._measured(looked, head)
        now = max(self._supervisor.clock.now(), gauges.at) if head.status in LIVE else None
        return Signals(
            policy=gauges.policy,
            task_class=gauges.task_class,
            position=gauges.position,
            at=gauges.at if now is None else now,
            signals=gauges.shown(now),
        )

    async def _measured(self, looked: _Looked, head: Head) -> Gauges:
        gauges = looked.gauges
        while gauges is None or gauges.position < head.position:
            after = Position(0 if gauges is None else gauges.position)
            page = await read_events(self._supervisor.store, head.id, after, _PAGE)
            for record in page:
                if gauges is None:
                    assert isinstance(record.event, ev.SessionCreated)
                    gauges = looked.gauges = await self._gauges(record.event, tenant_of(head.id))
                gauges.read(record)
            if not page:
                break
        assert gauges is not None, "a session has a first event"
        return gauges

    async def _gauges(self, created: ev.SessionCreated, tenant: str) -> Gauges:
        supervisor, terms = self._supervisor, created.terms
        oversight, is_watched = await supervisor.measuring(created.agent, terms, tenant)
        return Gauges(oversight, is_watched=is_watched)
