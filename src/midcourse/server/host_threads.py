"""Threads beside the one that answers requests: the agents' own, and one for long reads.

Neither shares a loop with HTTP and control: while an agent blocks, or a journal of 10,000 steps is folded for a reader,
a stop is answered all the same.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from midcourse import Agent, Settings
from midcourse.core.replies import Durability
from midcourse.handle import LocalTransport
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.store import Store
from midcourse.wiring import open_control

log = logging.getLogger("midcourse.server")
T = TypeVar("T")
_AGENTS = "midcourse-agents"
_LAST_MOMENT = 5.0
"""Seconds beyond grace and cleanup after which a thread that does not end is left behind."""


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
    meter: Meter = UNMETERED,
) -> AsyncGenerator[LocalTransport]:
    """Yield an open store whose agents run in a thread of their own. At the end each session is released."""
    chosen = settings or Settings()

    async def opening() -> LocalTransport:
        control = await open_control(
            store,
            durability=durability,
            drives=drives,
            settings=chosen,
            agents=agents,
            redis=redis,
            meter=meter,
        )
        return LocalTransport(control)

    host = _Host(opening, grace, patience=grace + chosen.cleanup + _LAST_MOMENT)
    try:
        yield await host.ready
    finally:
        await host.end()


async def drained(local: LocalTransport, grace: float) -> None:
    """Release every session, on the agents' loop; or return without, if an agent's code holds that."""
    worker = local.worker
    worker.take_nothing_more()
    draining = asyncio.run_coroutine_threadsafe(worker.drain(grace), worker.loop)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace + worker.settings.cleanup + _LAST_MOMENT):
            await asyncio.wrap_future(draining)


class _Host:
    """The thread. Its messages go through the loop of its maker."""

    def __init__(
        self, opening: Callable[[], Coroutine[Any, Any, LocalTransport]], grace: float, *, patience: float
    ) -> None:
        self._opening = opening
        self._grace = grace
        self._patience = patience
        self._caller = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()
        self._over = asyncio.Event()
        self._local: LocalTransport | None = None
        self.ready: asyncio.Future[LocalTransport] = self._caller.create_future()
        threading.Thread(target=self._run, name=_AGENTS, daemon=True).start()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                living = loop.create_task(self._live())
                while not living.done():
                    try:
                        loop.run_until_complete(living)
                    except (SystemExit, KeyboardInterrupt) as error:
                        # A task of an agent's own. It would end the loop, and with it the agents of everybody.
                        name = type(error).__name__  # not what it says: a log is not erased
                        log.error("an agent's code wanted to end this process (%s); nothing but its task ended", name)
        finally:
            self._tell(self._over.set)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            local = await self._opening()
        except BaseException as error:  # noqa: BLE001 - it is raised where the store was asked for
            self._tell(partial(self.ready.set_exception, error))
            return
        self._local = local
        self._tell(partial(self.ready.set_result, local))
        await self._asked.wait()
        await local.worker.close(self._grace)
        await local.worker.closed()

    async def end(self) -> None:
        """Release every session, and end the thread; or leave it behind, if an agent's code holds it and does not end.

        What is left behind ends with the process. Its sessions continue from their journals, as after a crash.
        """
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._asked.set)
        while True:
            try:
                async with asyncio.timeout(self._patience):
                    await self._over.wait()
            except TimeoutError:
                if self._local is not None and self._local.worker.is_closing_after_calls:
                    continue  # it says what it waits for
                log.error("the agents' loop is held and does not end; it is left behind. Nothing answered is lost")
            return

    def _tell(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: the process is ending
            self._caller.call_soon_threadsafe(act)


def is_left_behind() -> bool:
    """Return True if an agent's code holds a thread that was to end: Python would wait for it."""
    return any(thread.name == _AGENTS for thread in threading.enumerate())


class ReadingThread:
    """A loop in a thread of its own, for work that would hold this one up."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="midcourse-reading", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work there, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """End the thread; its reads are dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
