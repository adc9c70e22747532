"""The thread that receives commands: wake-ups from other processes, polls of the inbox, and sweeps.

It has a loop of its own: a command from another process is decided, and the gate shut, even while an agent blocks the
loop it runs on.
"""

import asyncio
import logging
from typing import Protocol

from midcourse.core.ids import SessionId, WorkerId
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.bus import Delta, Grown, Note, Wake, Watch
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.runtime.driver import Driver
from midcourse.runtime.failed_writes import FailedWrites
from midcourse.runtime.fanout import Fanout
from midcourse.runtime.settings import Settings
from midcourse.runtime.sweeper import Sweeper, enforce_switch, log_errors
from midcourse.runtime.watchdog import Watchdog

log = logging.getLogger("midcourse")


class Owner(Protocol):
    """The worker that is listened for."""

    id: WorkerId
    store: Store
    clock: Clock
    settings: Settings
    fanout: Fanout
    standing: ActiveSwitches
    sweeper: Sweeper
    failed_writes: FailedWrites
    drives: bool

    @property
    def is_draining(self) -> bool:
        """True if it takes and begins nothing more."""
        ...

    def driver(self, session_id: SessionId) -> Driver | None:
        """Return the driver of a session it owns."""
        ...

    def drivers(self) -> list[Driver]: ...

    async def attend(self, session_id: SessionId) -> None:
        """Acquire a session without a live owner, or continue one whose journal could not be written."""
        ...


class CommandListener:
    """Hears for one worker. Made on the loop the agents run on, which it watches."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._store = owner.store
        self._clock = owner.clock
        self._settings = owner.settings
        self._watchdog = Watchdog(owner.clock, owner.settings.blocked_after)
        self._looked_at = owner.clock.monotonic()
        self._woken: dict[SessionId, None] = {}  # in the order in which they were woken
        self._closing = self._started = False
        self._noted = asyncio.Event()
        self._control = owner.clock.background("midcourse-control")

    def start(self) -> None:
        """Begin to poll the inbox, and to sweep."""
        self._started = True
        self._control.start(self._listen)

    async def close(self) -> None:
        """Stop. What it is just doing, it finishes."""
        self._closing = True
        self._nudge()
        if not self._started:
            self._control.close()
            return
        # Polled, not waited for in a thread: agents may have taken all threads that the loop lends.
        while self._control.is_alive:
            await self._clock.sleep(0.002)

    @property
    def is_listening(self) -> bool:
        """True if its thread lives, and has recently polled the inbox."""
        return self._control.is_alive and self.is_fresh()

    @property
    def age(self) -> float | None:
        """Seconds since its thread polled the inbox; None: it does not live."""
        return self._clock.monotonic() - self._looked_at if self._control.is_alive else None

    def is_fresh(self) -> bool:
        """Return True if the inbox has been polled since this process was last suspended.

        This is shorter than the time after which others report it unreachable: by then the command was carried out.
        """
        return self._clock.monotonic() - self._looked_at < 0.8 * self._settings.unreachable_after

    def hear(self, note: Note) -> None:
        """Take a note from the bus. On its thread."""
        fanout = self._owner.fanout
        match note:
            case Wake(session=session, reply_to=reply_to):
                if reply_to:
                    fanout.tell(session, reply_to, deltas=False)
                self._woken[session] = None
                self._nudge()
            case Watch(session=session, reply_to=reply_to, deltas=deltas):
                fanout.tell(session, reply_to, deltas=deltas)
            case Grown() | Delta():
                fanout.hear(note)

    def _nudge(self) -> None:
        self._control.call_soon(self._noted.set)

    async def _listen(self) -> None:
        owner, poll = self._owner, self._settings.poll
        polled = self._clock.monotonic()
        swept = polled - 2 * poll  # at once: what a dead process left behind continues now
        self._noted.set()
        while not self._closing:
            try:
                async with self._clock.timeout(max(0.0, polled + poll - self._clock.monotonic())):
                    await self._noted.wait()
            except TimeoutError:
                pass
            self._noted.clear()
            woken, self._woken = self._woken, {}
            await asyncio.gather(*(log_errors(self._settle(session_id)) for session_id in woken))
            now = self._clock.monotonic()
            if now >= polled + poll:  # as the wait above counts, or it would wait for nothing and not look
                polled = now
                await log_errors(self._poll(now))
            if owner.drives and not owner.is_draining and now - swept >= 2 * poll:
                swept = now
                await log_errors(owner.sweeper.sweep())
                await log_errors(enforce_switch(owner.standing, owner.drivers))

    async def _settle(self, session_id: SessionId) -> None:
        driver = self._owner.driver(session_id)
        if driver is not None:
            if not await driver.settle():  # decided before the sender was known here: it must look again
                self._owner.fanout.grown(session_id)
        elif session_id in self._owner.failed_writes:
            self._owner.failed_writes.try_soon(session_id)
            await self._owner.attend(session_id)

    async def _poll(self, now: float) -> None:
        """Check for lost wake-ups, and for silent workers."""
        owner = self._owner
        mail: list[Driver] = []
        if owner.drivers() and await self._store.changed():
            pending = await self._store.pending(owner.id)
            mail = [driver for driver in map(owner.driver, pending) if driver is not None]
        for driver in mail:
            driver.shut()
        # From here it is known who has mail, and they wait for it to be read; everybody else may begin calls again.
        was_fresh, self._looked_at = self.is_fresh(), now
        if not was_fresh:
            for driver in owner.drivers():
                driver.wake()
        await asyncio.gather(*(log_errors(_read_inbox(driver)) for driver in mail))
        for driver in owner.drivers():
            driver.name_if_silent()
        self._name_who_blocks()
        for session_id in owner.failed_writes.due(now):
            await log_errors(self._try_again(session_id))

    async def _try_again(self, session_id: SessionId) -> None:
        """Continue a session whose journal could not be written, or write the stops that it is owed."""
        owner = self._owner
        driver = owner.driver(session_id)
        if driver is None and session_id in owner.failed_writes:
            await owner.attend(session_id)
        elif driver is None or driver.journal.broken is None:
            await owner.failed_writes.flush(session_id)
            if driver is not None:
                await driver.settle()

    def _name_who_blocks(self) -> None:
        blocked = self._watchdog.check()
        if blocked is None:
            return
        if not blocked.where:
            words = "the event loop has not turned for %.1f s, and no code of yours holds it: the machine may be busy"
            log.warning(words, blocked.seconds)
            return
        driver = self._owner.driver(blocked.session) if blocked.session else None
        if driver is not None:  # first of all: it may release it, and end, at any moment
            driver.name_as_blocking(blocked)
        whose = f"session {blocked.session}" if driver else "code outside any session"
        log.warning("%s has held its event loop for %.1f s: %s", whose, blocked.seconds, blocked.where)


async def _read_inbox(driver: Driver) -> None:
    try:
        await driver.settle()
    finally:
        driver.unshut()
