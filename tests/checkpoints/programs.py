"""Programs of these tests, on a clock that can be set."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import midcourse
from midcourse.clock import SystemClock
from midcourse.handle import LocalTransport, Midcourse
from midcourse.wiring import open_control
from tests.promises.harness import QUICK, Place, resumable


class Skipping(SystemClock):
    """The real clock, some time later."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> float:
        """Seconds since 1970."""
        return super().now() + self.skipped

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return super().monotonic() + self.skipped


def held(function: Any, terms: midcourse.Terms, **declared: Any) -> midcourse.Agent[Any]:
    """An agent on these terms that may go on anywhere."""
    return replace(resumable(function, **declared), terms=terms)


@asynccontextmanager
async def opened(
    place: Place,
    *agents: midcourse.Agent[Any],
    clock: SystemClock | None = None,
    redis: str = "",
    drive: bool = True,
    settings: midcourse.Settings = QUICK,
    grace: float = 2.0,
) -> AsyncGenerator[Midcourse]:
    """A program that has ``agents`` and opens the store."""
    control = await open_control(
        await place.store(),
        durability="process",
        drives=drive,
        settings=settings,
        agents={agent.name: agent for agent in agents},
        clock=clock,
        redis=redis,
    )
    mc = Midcourse(LocalTransport(control))
    try:
        yield mc
    finally:
        await mc.close(grace)
