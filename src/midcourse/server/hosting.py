"""Threads beside the one that answers requests: the agents' own, and one for what takes long to read.

Neither shares a loop with HTTP and control: while an agent blocks, or a journal of 10,000 steps is folded for somebody
who looks, a stop is answered all the same.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from midcourse.core.replies import Durability
from midcourse.ports.store import Store
from midcourse.runtime.agents import Agent
from midcourse.runtime.control import Control
from midcourse.runtime.settings import Settings
from midcourse.wiring import open_control

T = TypeVar("T")


@asynccontextmanager
async def hosted(
    store: str | Store,
    *,
    durability: Durability = "power",
    drives: bool = True,
    settings: Settings | None = None,
    agents: Mapping[str, Agent[object]] | None = None,
    redis: str | None = None,
    grace: float = 10.0,
) -> AsyncGenerator[Control]:
    """Controls over a store whose agents run in a thread of their own. At the end each session is let go."""

    def opening() -> Coroutine[Any, Any, Control]:
        return open_control(
            store, durability=durability, drives=drives, settings=settings or Settings(), agents=agents, redis=redis
        )

    host = _Host(opening, grace)
    try:
        yield await host.ready
    finally:
        await host.end()


class _Host:
    """The thread. What it tells goes through the loop of whoever made it."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, Control]], grace: float) -> None:
        self._opening = opening
        self._grace = grace
        self._caller = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()
        self._over = asyncio.Event()
        self.ready: asyncio.Future[Control] = self._caller.create_future()
        threading.Thread(target=self._run, name="midcourse-agents", daemon=True).start()

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        finally:
            self._tell(self._over.set)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            control = await self._opening()
        except BaseException as error:  # noqa: BLE001 - it is raised where the store was asked for
            self._tell(partial(self.ready.set_exception, error))
            return
        self._tell(partial(self.ready.set_result, control))
        await self._asked.wait()
        await control.worker.close(self._grace)

    async def end(self) -> None:
        """Let every session go, and end the thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._asked.set)
        await self._over.wait()

    def _tell(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: the process is ending
            self._caller.call_soon_threadsafe(act)


class Reading:
    """A loop in a thread of its own, for work that would hold this one up."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="midcourse-reading", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work there, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """End the thread; what it reads is read for nobody any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
