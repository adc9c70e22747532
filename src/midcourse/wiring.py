"""The composition root: opens stores and connections, and is the only module that names a backend."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from midcourse.bus.memory import MemoryBus
from midcourse.clock import SystemClock
from midcourse.core.replies import Durability
from midcourse.core.session import ENDED
from midcourse.errors import InvalidInput, StoreUnavailable
from midcourse.handle.ctrl_c import CtrlC
from midcourse.handle.http import RemoteMidcourse
from midcourse.handle.http.address import address_of, token_of
from midcourse.handle.http.connection import HttpConnection
from midcourse.handle.local import LocalTransport
from midcourse.handle.midcourse import Midcourse
from midcourse.handle.opening import Opening
from midcourse.ports.bus import Bus
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.projection import Projection
from midcourse.ports.store import Store
from midcourse.projections.checkpoints import Checkpoints, Unconfigured
from midcourse.projections.redis_connection import RedisBoard
from midcourse.runtime.agents import Agent, registered
from midcourse.runtime.control import Control
from midcourse.runtime.settings import Settings
from midcourse.runtime.worker import Worker
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.upkeep.restore import Restored, halt_all

if TYPE_CHECKING:
    from midcourse.stores.sqlite.maintenance import File

KINDS = "Use memory:// or sqlite:///file.db (four slashes for an absolute path: sqlite:////var/lib/runs.db)."

REDIS_URL = "MIDCOURSE_REDIS_URL"
"""The environment variable that names the Redis of readable checkpoints."""


async def open_store(url: str, durability: Durability = "power") -> Store:
    """Open the store a URL names.

    Raises:
        InvalidInput: no such kind of store.
        StoreUnavailable: it cannot be opened; the sentence says why.
    """
    kind, separator, path = url.partition("://")
    if kind == "memory" and separator:
        return MemoryStore()
    if kind == "sqlite" and separator and path.startswith("/") and len(path) > 1:
        return await _open_sqlite(path[1:], durability)
    raise InvalidInput(f"Unknown store '{url}'. {KINDS}", field="store")


async def _open_sqlite(path: str, durability: Durability) -> Store:
    if sys.platform == "win32":
        raise StoreUnavailable("Midcourse's SQLite store runs on Linux and macOS. On Windows, run it inside WSL.")
    # Imported here: it needs a system with POSIX locks, and importing midcourse must work without one.
    from midcourse.stores.sqlite import SqliteStore

    return await SqliteStore.open(path, durability=durability)


def sqlite_version() -> str:
    """Return the version of SQLite in this Python.

    Raises:
        StoreUnavailable: it cannot be used.
    """
    from midcourse.stores.sqlite.connection import usable_version

    return usable_version()


def compact(path: Path) -> tuple[int, int]:
    """Write a store's file anew, and empty its log; its bytes before and after.

    Raises:
        StoreUnavailable: there is none, or another program uses it all the time.
    """
    from midcourse.stores.sqlite import maintenance

    return maintenance.compact(path)


def back_up(path: Path, to: Path, progress: Callable[[int, int], None]) -> int:
    """Copy a store that may be in use to a new file, check the copy, and return its bytes.

    Raises:
        InvalidInput: there is such a file. StoreUnavailable: there is no such store. Damaged: the copy is not whole.
    """
    from midcourse.stores.sqlite import maintenance

    return maintenance.back_up(path, to, SystemClock().now(), progress)


async def restore(backup: Path, to: Path, progress: Callable[[str, int, int], None]) -> Restored:
    """Make a store at ``to`` of a backup. What had not ended is halted before anybody can find it there.

    Raises:
        InvalidInput: there is a store already.
        StoreUnavailable: there is no such backup, or no room for it. Damaged: it is not whole.
    """
    from midcourse.stores.sqlite import maintenance

    made_at = await asyncio.to_thread(maintenance.backup_time, backup)
    part = maintenance.staging_path(to)
    try:
        await asyncio.to_thread(maintenance.unpack, backup, part, lambda done, every: progress("copied", done, every))
        control = await open_control(
            f"sqlite:///{part}", durability="power", drives=False, settings=Settings(), agents={}, redis=""
        )
        try:
            restored = await halt_all(control, made_at, lambda done, every: progress("halted", done, every))
        finally:
            await control.worker.close(0.0)
        maintenance.settle(part, to)
    finally:
        maintenance.remove_staged(part)
    return restored


def examine(path: Path, *, deep: bool) -> "File":
    """Return the state of a store's file. ``deep``: all of it is read.

    Raises:
        StoreUnavailable: there is none.
        Damaged: it cannot be read.
    """
    from midcourse.stores.sqlite import maintenance

    return maintenance.examine(path, deep=deep)


async def try_redis(url: str) -> str:
    """Write to a Redis something that is gone after a second, and say how people call that Redis.

    Raises:
        InvalidInput: the URL names none, or the extra is not installed.
        StoreUnavailable: it does not take it.
    """
    board = RedisBoard(url)
    try:
        await board.put("midcourse:doctor", b"{}", 1.0)
    finally:
        await board.close()
    return board.name


def _bus_for(store: Store) -> Bus:
    """Other processes can only be woken where there can be other processes."""
    if store.durability == "nothing":
        return MemoryBus()
    from midcourse.bus.local import LocalBus

    return LocalBus()


async def open_control(
    store: str | Store,
    *,
    durability: Durability,
    drives: bool,
    settings: Settings,
    agents: Mapping[str, Agent[object]] | None = None,
    clock: Clock | None = None,
    redis: str | None = None,
    meter: Meter = UNMETERED,
    recovers: bool = True,
) -> Control:
    """Return a worker on a store with its controls, listening and sweeping. ``recovers``: it takes what it finds.

    ``redis`` is where readable checkpoints go: None for what ``MIDCOURSE_REDIS_URL`` names, empty for nowhere.
    """
    address = os.environ.get(REDIS_URL, "") if redis is None else redis
    board = RedisBoard(address) if address else None
    time = clock or SystemClock()
    opened = await open_store(store, durability) if isinstance(store, str) else store
    checkpoints: Projection = Unconfigured() if board is None else Checkpoints(opened, time, board)
    worker = Worker(
        opened,
        _bus_for(opened),
        time,
        settings,
        registered() if agents is None else agents,
        drives=drives,
        checkpoints=checkpoints,
        meter=meter,
        recovers=recovers,
    )
    control = Control(worker)
    await worker.open(control)
    return control


def open(
    store: str | Store = "sqlite:///midcourse.db",
    *,
    durability: Durability = "power",
    drive: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    redis: str | None = None,
    grace: float = 2.0,
    meter: Meter | None = None,
    recover: bool = True,
) -> Opening[Midcourse]:
    """Open a store, and continue every session in it that was left running and whose agent is registered here.

    ``recover=False`` leaves those alone: it drives what it starts, and the sessions that get a command. ``drive=False``
    opens it only to read and to steer. Leaving the block releases sessions at their next safe point (calls in flight
    within ``grace`` seconds); it cancels none. ``redis`` is the URL of the Redis in which people can read the
    checkpoints of agents with ``backend: redis``; without it, what ``MIDCOURSE_REDIS_URL`` names. ``meter`` gets the
    measurements: ``midcourse.telemetry.spans.Spans``, say.
    """

    @asynccontextmanager
    async def inside() -> AsyncGenerator[Midcourse]:
        with CtrlC() as interrupt:
            control = await open_control(
                store,
                durability=durability,
                drives=drive,
                recovers=recover,
                settings=settings or Settings(),
                clock=clock,
                redis=redis,
                meter=meter or UNMETERED,
            )
            midcourse = Midcourse(LocalTransport(control))
            try:
                yield midcourse
            finally:
                kept = sum(driver.session.status not in ENDED for driver in control.worker.drivers())
                await midcourse.close(grace)
                if drive:
                    interrupt.tell(kept, control.worker.store.name, control.worker.store.durability)

    return Opening("open", inside())


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    patience: float = 30.0,
    clock: Clock | None = None,
) -> Opening[RemoteMidcourse]:
    """Steer the sessions of a server, with the verbs of an open store.

    Without ``url`` and ``token`` those in ``MIDCOURSE_URL`` and ``MIDCOURSE_TOKEN`` are used. ``patience``: how many
    seconds a connection that was lost is tried again. Leaving the block stops nothing on the server.
    """

    @asynccontextmanager
    async def inside() -> AsyncGenerator[RemoteMidcourse]:
        remote = RemoteMidcourse(HttpConnection(address_of(url), token_of(token), clock or SystemClock(), patience))
        try:
            yield remote
        finally:
            await remote.close()

    return Opening("connect", inside())
