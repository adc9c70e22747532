"""What every driver of a process shares: the store, the clock, who listens, the threads, the agents' loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.runtime.fanout import Fanout
from midcourse.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every driver of a process shares."""

    store: Store
    clock: Clock
    fanout: Fanout
    settings: Settings
    threads: Executor
    loop: asyncio.AbstractEventLoop
    is_fresh: Callable[[], bool]
