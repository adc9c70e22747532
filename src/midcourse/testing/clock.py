"""A clock for tests: it jumps to the next deadline when all code is idle, so that no test waits.

Run a test on the clock's own loop, and give the clock to what you test::

    clock = FakeClock()

    async def test() -> None:
        async with midcourse.open("memory://", clock=clock) as mc:
            ...
            await clock.sleep(3600)  # takes no time

    clock.run(test())

``asyncio.sleep`` and ``asyncio.timeout`` wait on the same clock, so that agents and tools need no change.
"""

import asyncio
import random  # noqa: TID251 - chance with a seed
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from math import ulp
from typing import Any, TypeVar

from midcourse.ports.store import Store
from midcourse.testing.wrapped_store import WrappedStore

T = TypeVar("T")

_START = 1_700_000_000.0


class FakeClock:
    """Time that passes only when all is idle: no callback is ready, and no thread and no counted store call runs.

    Real sockets and processes do not count as busy. ``idle`` is how many real seconds to wait for them before each
    jump. A thread holds the clock for at most ``patience`` real seconds. Chance and ids come from ``seed``.
    """

    def __init__(self, *, start: float = _START, seed: int = 0, idle: float = 0.0, patience: float = 5.0) -> None:
        self.idle = idle
        self.patience = patience
        self.in_flight = 0
        self._wall = start
        self._elapsed = 0.0
        self._random = random.Random(seed)
        self._ids = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- for tests

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this clock's loop, to its end."""
        with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
            return runner.run(main)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop that keeps this clock's time: a ``loop_factory``."""
        self._loop = _Loop(self)
        return self._loop

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or, with a negative number, back. What is measured does not change."""
        self._wall += seconds

    def counted(self, store: Store) -> Store:
        """Return a store around one that works in threads: no time passes while it is busy."""
        return _CountedStore(store, self)

    def advance(self, seconds: float) -> None:
        """Let time pass at once, whatever is ready."""
        self._elapsed += max(0.0, seconds)

    # ---- the port

    def now(self) -> float:
        """Seconds since 1970."""
        return self._wall + self._elapsed

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait. With 0, let others have their turn."""
        self._running()
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call ``callback`` on the running loop after so many seconds."""
        return self._running().call_later(max(0.0, seconds), callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call ``callback`` on the running loop when ``monotonic()`` is ``when``."""
        return self._running().call_at(max(self._elapsed, when), callback, *arguments)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Cancel a block that takes longer; it raises ``TimeoutError`` then. None: it may take for ever."""
        self._running()
        return asyncio.timeout(seconds)

    def background(self, name: str) -> "_BackgroundTask":
        """Return a part of the running loop: a test needs no thread of its own for it."""
        return _BackgroundTask(self._running(), name)

    def random(self) -> float:
        """Return a number from 0 up to, and not including, 1."""
        return self._random.random()

    def fresh_id(self) -> str:
        """Twenty hexadecimal digits, in the order in which they were asked for."""
        self._ids += 1
        return f"{int(self.now() * 1000):011x}{self._ids:09x}"

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("This loop does not keep the FakeClock's time. Run the test with clock.run(test()).")
        return loop


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time is the clock's."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock

    def time(self) -> float:
        """Return the clock's time, for every timer of this loop."""
        now = self._clock.monotonic()
        # A timer is due less than this early. With more, time would stop for a reader, and wait for the rest.
        self._clock_resolution = ulp(now)
        return now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Run it in a thread; no time passes until it has ended."""
        running = super().run_in_executor(executor, func, *args)
        _count(self._clock, running)
        return running


class _Selector(selectors.DefaultSelector):
    """Asked to wait until the next timer is due, it moves the clock there."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what came from outside; else let time pass until the next timer is due."""
        clock = self._clock
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None:  # there is no timer: only something from outside ends this
            return super().select(None)
        found = super().select(clock.patience if clock.in_flight else clock.idle)
        if not found:
            clock.advance(timeout)
        return found


class _BackgroundTask:
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``main()`` to its end, then end."""
        self._task = self._loop.create_task(main(), name=self._name)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on that loop, from any thread. Nothing happens once it has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Give up what was never started."""


class _CountedStore(WrappedStore):
    """Every call of it holds the clock until it has ended."""

    def __init__(self, inner: Store, clock: FakeClock) -> None:
        super().__init__(inner)
        self._clock = clock

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        running = asyncio.ensure_future(make())
        _count(self._clock, running)
        return running

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        return await self._write(call, make)


def _count(clock: FakeClock, running: "asyncio.Future[Any]") -> None:
    clock.in_flight += 1

    def ended(_: "asyncio.Future[Any]") -> None:
        clock.in_flight -= 1

    running.add_done_callback(ended)
