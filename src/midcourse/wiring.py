"""The composition root: the only module that names a backend."""

import sys
from collections.abc import Mapping

from midcourse.bus.memory import MemoryBus
from midcourse.errors import InvalidInput, StoreUnavailable
from midcourse.ports.bus import Bus
from midcourse.ports.clock import Clock
from midcourse.ports.store import Durability, Store
from midcourse.runtime.agents import Agent, registered
from midcourse.runtime.clock import SystemClock
from midcourse.runtime.control import Control
from midcourse.runtime.settings import Settings
from midcourse.runtime.worker import Worker
from midcourse.stores.memory import MemoryStore

KINDS = "Use memory:// or sqlite:///file.db (four slashes for an absolute path: sqlite:////var/lib/runs.db)."


async def open_store(url: str, durability: Durability = "power") -> Store:
    """The store a URL names.

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
) -> Control:
    """A worker on a store, listening and sweeping, and the controls over it."""
    opened = await open_store(store, durability) if isinstance(store, str) else store
    worker = Worker(
        opened,
        _bus_for(opened),
        clock or SystemClock(),
        settings,
        registered() if agents is None else agents,
        drives=drives,
    )
    control = Control(worker)
    await worker.open(control)
    return control
