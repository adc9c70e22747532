"""The real clock: the one module that asks the machine for time, chance and fresh ids."""

import asyncio
import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from midcourse.ports.clock import Clock


def _counter() -> Callable[[], float]:
    """Return the counter that continues while the machine is suspended; Linux has it beside the usual one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot is None else partial(time.clock_gettime, boot)


# Not the program's shared generator: after `random.seed(0)`, or a fork, all workers would wait equally long.
_random = random.SystemRandom()


class SystemClock:
    """Time, chance and ids as this machine gives them."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    monotonic = staticmethod(_counter())
    """Return seconds that never go back. They continue while process or machine sleep, so a stall shows."""

    async def sleep(self, seconds: float) -> None:
        """Wait. With 0, let others have their turn."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call ``callback`` on the running loop after so many seconds."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call ``callback`` on the running loop when ``monotonic()`` is ``when``."""
        return self.call_later(when - self.monotonic(), callback, *arguments)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Cancel a block that takes longer; it raises ``TimeoutError`` then. None: it may take for ever."""
        return asyncio.timeout(seconds)

    def background(self, name: str) -> "BackgroundThread":
        """Return a loop of its own on a thread of its own."""
        return BackgroundThread(name)

    def random(self) -> float:
        """Return a number from 0 up to, and not including, 1."""
        return _random.random()

    def fresh_id(self) -> str:
        """Twenty hexadecimal digits, time first, so that ids of one process sort roughly by age."""
        return f"{int(time.time() * 1000):011x}{secrets.token_hex(5)[:9]}"


class BackgroundThread:
    """A loop on a thread of its own: it turns while an agent holds the loop that the agents run on."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """True if the coroutine has started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``main()`` to its end, then end."""
        self._thread = threading.Thread(target=self._run, args=(main,), name=self._name, daemon=True)
        self._thread.start()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on that loop, from any thread. Nothing happens once it has ended."""
        with contextlib.suppress(RuntimeError):  # closed while a note was on its way
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Give up what was never started."""
        self._loop.close()

    def _run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(main())
        finally:
            self._loop.close()


async def wait(clock: Clock, tasks: "Iterable[asyncio.Future[Any]]", seconds: float) -> bool:
    """Wait until all ``tasks`` have ended, but no longer than ``seconds``; return whether they have. Cancel none."""
    awaited = set(tasks)
    with contextlib.suppress(TimeoutError):
        async with clock.timeout(seconds):
            await asyncio.wait(awaited)
    return all(task.done() for task in awaited)
