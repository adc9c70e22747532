"""Opens a store in this process, or connects to a server that has one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from midcourse.api.midcourse import Midcourse
from midcourse.client import RemoteMidcourse
from midcourse.core.replies import Durability
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.store import Store
from midcourse.runtime.settings import Settings
from midcourse.wiring import open_control, open_remote


@asynccontextmanager
async def open(
    store: str | Store = "sqlite:///midcourse.db",
    *,
    durability: Durability = "power",
    drive: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    redis: str | None = None,
    grace: float = 2.0,
    meter: Meter | None = None,
) -> AsyncGenerator[Midcourse]:
    """Open a store, and go on with every session in it that was left running and whose agent is registered here.

    ``drive=False`` opens it to look and to steer only. Leaving the block lets sessions go at their next safe point
    (calls in flight within ``grace`` seconds); it cancels none. ``redis`` is the URL of the Redis in which people can
    read the checkpoints of agents that say ``backend: redis``; without it, what ``MIDCOURSE_REDIS_URL`` names.
    ``meter`` hears what happens: ``midcourse.telemetry.spans.Spans``, say.
    """
    control = await open_control(
        store,
        durability=durability,
        drives=drive,
        settings=settings or Settings(),
        clock=clock,
        redis=redis,
        meter=meter or UNMETERED,
    )
    midcourse = Midcourse(control)
    try:
        yield midcourse
    finally:
        await midcourse.close(grace)


@asynccontextmanager
async def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    patience: float = 30.0,
    clock: Clock | None = None,
) -> AsyncGenerator[RemoteMidcourse]:
    """Steer the sessions of a server, with the verbs of an open store.

    Without ``url`` and ``token`` those in ``MIDCOURSE_URL`` and ``MIDCOURSE_TOKEN`` are taken. ``patience``: how many
    seconds a connection that was lost is tried again. Leaving the block stops nothing on the server.
    """
    remote = open_remote(url, token, patience=patience, clock=clock)
    try:
        yield remote
    finally:
        await remote.close()
