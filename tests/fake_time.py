"""Time that jumps, for tests that wait: mark one with ``fake_time`` and it runs on a FakeClock's loop.

For what happens in this process only. A wait for another process, a server's thread or a socket is a real one.
"""

import asyncio
import contextlib
import weakref

from midcourse.ports.store import Store
from midcourse.testing import FakeClock

_CLOCKS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FakeClock]" = weakref.WeakKeyDictionary()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop with a clock of its own."""
    clock = FakeClock()
    loop = clock.new_event_loop()
    _CLOCKS[loop] = clock
    return loop


def running_clock() -> FakeClock | None:
    """Return the clock of the test that runs, if its time is fake."""
    with contextlib.suppress(RuntimeError):  # no loop runs
        return _CLOCKS.get(asyncio.get_running_loop())
    return None


def counted(store: Store) -> Store:
    """Return the store; on fake time, one that lets no time pass while it is busy."""
    clock = running_clock()
    return store if clock is None else clock.counted(store)
