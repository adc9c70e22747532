"""One machine on one thread: the loops of its processes turn in an order, and at times, that one seed chooses.

A process has a loop for each of its threads. Within a loop callbacks keep their order, as asyncio promises; between
loops chance decides. Time passes when nothing is ready, and a little with each callback. A process that is killed is
never heard of again: none of its ``finally`` blocks runs, as with SIGKILL.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from hashlib import blake2b
from random import Random
from typing import Any, Final

from midcourse.runtime import thread_pool

START: Final = 1_700_000_000.0
COST: Final = 40e-6
"""Seconds that a callback takes, at most."""
AT_ONCE: Final = 200_000
"""Callbacks that may run before a second has passed; more, and something spins."""
READS: Final = 50_000
"""Looks at the clock within one callback; more, and it never ends."""


class Spins(BaseException):
    """A callback that does not end, or callbacks without end in no time."""


class Machine:
    """Time, chance and what happens when."""

    def __init__(self, seed: int) -> None:
        self.time = 0.0
        self.chance = Random(f"{seed} machine")
        self.processes: list[Process] = []
        self.living: list[Process] = []
        self.spins = ""
        self.moments: dict[float, float] = {}
        """What its wall clocks have told, with the time that it was: they may be set."""
        self.trace: list[str] = []
        self.turns = 0
        self._digest = blake2b(digest_size=16)
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._ids = 0
        self._second, self._in_second = 0, 0
        self._reads = 0

    @property
    def digest(self) -> str:
        """What tells two runs apart: every choice that was made."""
        return self._digest.hexdigest()

    def tell(self, what: str) -> None:
        """Write into the trace."""
        self.trace.append(f"{self.time:10.4f} {what}")

    def look(self) -> float:
        """The time, for code under test: one that looks without end is caught here."""
        self._reads += 1
        if self._reads > READS:
            self.spins = "a callback does not end"
            raise Spins(self.spins)
        return self.time

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Do something at a time, outside every loop."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, act))

    def after(self, most: float, act: Callable[[], object], *, least: float = 0.0) -> None:
        """Do something after a time that chance chooses."""
        self.at(self.time + self.chance.uniform(least, most), act)

    def fresh_id(self) -> str:
        """An id of its own."""
        self._ids += 1
        return f"{int((START + self.time) * 1000):011x}{self._ids:09x}"

    def run(self, until: float, *, done: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen, until a time or until something is done."""
        while self.time < until and not self.spins and not done():
            turning = [loop for process in self.living if not process.stopped for loop in process.loops]
            for loop in turning:
                loop.move_due()
            ready = [loop for loop in turning if loop.ready]
            if ready:
                self._turn(ready)
            else:
                times = [loop.next_due for loop in turning if loop.next_due is not None]
                if self._events:
                    times.append(self._events[0][0])
                self.time = max(self.time, min(*times, until)) if times else until
            while self._events and self._events[0][0] <= self.time and not self.spins:
                with suppress(Spins):  # ``spins`` says so, and ends the run
                    heapq.heappop(self._events)[2]()

    def _turn(self, ready: "list[Loop]") -> None:
        which = self.chance.randrange(len(ready)) if len(ready) > 1 else 0
        loop = ready[which]
        self._digest.update(bytes((which, len(ready))))
        self.turns += 1
        second = int(self.time)
        self._in_second = self._in_second + 1 if second == self._second else 0
        self._second = second
        if self._in_second > AT_ONCE:
            self.spins = f"{AT_ONCE} callbacks within a second"
            return
        self._reads = 0
        asyncio._set_running_loop(loop)  # noqa: SLF001
        loop.turn()
        asyncio._set_running_loop(None)  # noqa: SLF001
        self.time += self.chance.random() * COST


@contextmanager
def running(loop: "Loop | None") -> Generator[None]:
    """Make ``loop`` the running one."""
    before = asyncio._get_running_loop()  # noqa: SLF001 - the one way to have several loops on one thread
    asyncio._set_running_loop(loop)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(before)  # noqa: SLF001


class Process:
    """One process: it turns, stands still, or is dead."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.alive = True
        self.stopped = False
        self.stood = 0.0
        """Seconds that it stood still."""
        self.ahead = 0.0
        """Seconds that its wall clock is ahead."""
        self.loops: list[Loop] = []
        self.held: list[Callable[[], None]] = []
        """What its threads do once it goes on."""
        self.errors: list[str] = []
        self.on_death: list[Callable[[], None]] = []
        self.loop = self.new_loop()
        machine.processes.append(self)
        machine.living.append(self)

    @property
    def turns(self) -> bool:
        """Whether it does anything."""
        return self.alive and not self.stopped

    def new_loop(self) -> "Loop":
        """A loop for another of its threads."""
        loop = Loop(self)
        self.loops.append(loop)
        return loop

    def start(self, main: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run something on its first loop."""
        return self.loop.create_task(main)

    def stop(self) -> None:
        """Stand still."""
        self.stopped, self.stood = True, self.stood - self.machine.time

    def go_on(self) -> None:
        """Go on after a stop."""
        self.stopped, self.stood = False, self.stood + self.machine.time
        held, self.held = self.held, []
        for act in held:
            act()

    def kill(self) -> None:
        """End it at once."""
        if self.alive:
            self.alive = False
            self.machine.living.remove(self)
            for act in self.on_death:
                act()


class Loop(asyncio.AbstractEventLoop):
    """The loop of one thread of a process. Its owner, the machine, turns it callback by callback."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.machine = process.machine
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._closed = False

    @property
    def next_due(self) -> float | None:
        """When its next timer is due."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def move_due(self) -> None:
        """What is due is ready."""
        while self._timers and self._timers[0][0] <= self.machine.time:
            self.ready.append(heapq.heappop(self._timers)[2])

    def turn(self) -> None:
        """Run one callback."""
        handle = self.ready.popleft()
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - what every loop does

    # ---- what asyncio and the code under test use

    def time(self) -> float:
        """The machine's time."""
        return self.machine.look()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call it in its turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it after a while."""
        return self.call_at(self.machine.time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it at a time."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride] - nothing here makes tasks of generators
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[Any]":
        """A task of this loop."""
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """What runs in a thread runs at once, in some moment, and is heard of in another."""
        if executor is not None:
            func = thread_pool.carriable(func)  # as the threads of a worker do
        outside: Future[Any] = Future()
        answer = asyncio.wrap_future(outside, loop=self)

        def begin() -> None:
            if not self.process.alive:
                return
            if self.process.stopped:
                self.process.held.append(begin)
                return
            try:
                with running(None):
                    value, error = func(*args), None
            except BaseException as raised:  # noqa: BLE001 - the thread's outcome, whatever it is
                value, error = None, raised
            self.machine.after(0.05, lambda: end(value, error))

        def end(value: object, error: BaseException | None) -> None:
            if self.process.alive and not outside.done():
                outside.set_result(value) if error is None else outside.set_exception(error)

        self.machine.after(0.01, begin)
        return answer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Something that nobody waited for went wrong."""
        if self.process.alive:
            error = context.get("exception")
            self.process.errors.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """The same."""
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Whether it turns now."""
        return asyncio._get_running_loop() is self  # noqa: SLF001

    def is_closed(self) -> bool:
        """Whether its process has ended."""
        return not self.process.alive
