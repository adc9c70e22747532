"""Readiness: the store can be written to, commands are received, and the process is not shutting down."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from midcourse.errors import MidcourseError, StoreFull
from midcourse.handle import LocalTransport
from midcourse.ports.clock import Clock

SHELF: Final = "readiness"
"""The shelf for the test write."""
SECONDS: Final = 2.0
"""The longest time for a store to be written to and read."""
HOLDS: Final = 2.0
"""Seconds for which a result is reused: a caller, who needs no token, must not keep a disk busy."""
HOLDS_BAD: Final = 0.25
"""The time that a failure is reused."""
ASKED_WITHIN: Final = 60.0
"""Seconds after which nothing is believed to ask any more where to send requests."""
OK: Final = "ok"


@dataclass(frozen=True, slots=True)
class Readiness:
    """The results: ``ok``, or the fault, for each thing that was checked."""

    checks: Mapping[str, str] = field(default_factory=dict[str, str])
    is_draining: bool = False

    @property
    def wrong(self) -> str:
        """The faults, as a sentence; empty without one."""
        return "; ".join(f"{name}: {found}" for name, found in self.checks.items() if found != OK)


class Health:
    """Checks the worker of a server, and its store now and then."""

    def __init__(self) -> None:
        self._store: tuple[float, str] | None = None
        self._looking: asyncio.Task[str] | None = None
        self._asked_at: float | None = None

    def is_asked(self, clock: Clock) -> bool:
        """Return True if something asks where to send requests, such as a load balancer."""
        return self._asked_at is not None and clock.monotonic() - self._asked_at <= ASKED_WITHIN

    async def readiness(self, local: LocalTransport | None, *, is_leaving: bool = False) -> Readiness:
        """Return the present state. It names no path, no address and no text of an error: it is public."""
        if local is None:
            return Readiness({"server": "has not started, or has ended"})
        worker = local.worker
        self._asked_at = worker.clock.monotonic()
        listens = OK if worker.is_listening else "the thread that hears commands is late, or has ended"
        checks = {"store": await self._store_of(local), "control": listens}
        return Readiness(checks, is_leaving or worker.is_draining)

    async def _store_of(self, local: LocalTransport) -> str:
        now = local.clock.monotonic()
        if self._store is not None and now - self._store[0] < (HOLDS if self._store[1] == OK else HOLDS_BAD):
            return self._store[1]
        if self._looking is None:  # who asks meanwhile waits for the same look
            self._looking = asyncio.create_task(_try(local))
            self._looking.add_done_callback(self._looked)
        found = await asyncio.shield(self._looking)
        self._store = local.clock.monotonic(), found
        return found

    def _looked(self, _task: "asyncio.Task[str]") -> None:
        self._looking = None


async def _try(local: LocalTransport) -> str:
    """Write to the store and read it back."""
    worker = local.worker
    content = worker.id.encode()
    try:
        async with worker.clock.timeout(SECONDS):
            await worker.store.shelve(SHELF, {"last": content})
            await worker.store.shelved(SHELF)
    except TimeoutError:
        return f"does not answer within {SECONDS:g} s"
    except StoreFull:
        return "no space is left"
    except MidcourseError as error:
        return f"cannot be written to ({error.code})"
    except Exception:  # noqa: BLE001 - whatever it is: the store does not work, and the log of who writes says why
        return "cannot be written to"
    return OK
