"""Notify the watchers of a session: in this process, and at addresses of other processes.

Nothing here ever waits for a watcher: it is notified that there is more, and reads at its own pace.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from midcourse.core.ids import SessionId
from midcourse.ports.bus import PREVIEWS_KEPT, Bus, Delta, Grown
from midcourse.ports.clock import Clock

REMOTE_SECONDS: Final = 15.0
"""The time for which another process gets wake-ups without subscribing again."""


class Watcher:
    """One reader of one session, on the loop it was made on."""

    def __init__(self, clock: Clock, *, deltas: bool, only_ends: bool) -> None:
        self.wants_deltas = deltas
        self.only_ends = only_ends
        self.deltas: deque[Delta] = deque(maxlen=PREVIEWS_KEPT)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._is_told = False

    def poke(self) -> None:
        """Tell the reader that there is more. From any thread."""
        if self._is_told:  # it has not looked since: one that is stalled costs nothing
            return
        self._is_told = True
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - the documented get_running_loop raises where there is none
            self._moved.set()
            return
        try:
            self._loop.call_soon_threadsafe(self._moved.set)
        except RuntimeError:  # the reader's loop is closed: no task reads any more
            return

    async def wait(self, seconds: float) -> None:
        """Wait until there is more, or for ``seconds``: a lost wake-up must not block."""
        timer = self._clock.call_later(seconds, self._moved.set)
        try:
            await self._moved.wait()
        finally:
            timer.cancel()
        self._moved.clear()
        self._is_told = False  # before it reads: later events are notified anew


class Fanout:
    """The watchers of every session that this process drives or reads."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._lock = threading.Lock()
        self._watchers: dict[SessionId, list[Watcher]] = {}
        self._remote: dict[SessionId, dict[str, tuple[float, bool]]] = {}

    @contextmanager
    def watching(self, session_id: SessionId, *, deltas: bool = False, only_ends: bool = False) -> Generator[Watcher]:
        """Yield a watcher of a session; with ``only_ends`` notified only once the session has left this process."""
        watcher = Watcher(self._clock, deltas=deltas, only_ends=only_ends)
        with self._lock:
            self._watchers.setdefault(session_id, []).append(watcher)
        try:
            yield watcher
        finally:
            with self._lock:
                left = self._watchers[session_id]
                left.remove(watcher)
                if not left:
                    del self._watchers[session_id]

    def tell(self, session_id: SessionId, address: str, *, deltas: bool, seconds: float = REMOTE_SECONDS) -> None:
        """Tell another process too, for the next seconds."""
        with self._lock:
            told = self._remote.setdefault(session_id, {})
            # A watcher with previews that sends a command still sees them.
            deltas = deltas or (address in told and told[address][1])
            told[address] = (self._clock.monotonic() + seconds, deltas)

    def hear(self, note: Grown | Delta) -> list[tuple[str, bool]]:
        """Tell the watchers of this process, and return the other processes that want to know.

        What another process says is not sent on: each listens to the owner itself, and two may listen to each other.
        """
        local, remote = self._audience(note.session)
        for watcher in local:
            if isinstance(note, Delta) and watcher.wants_deltas:
                watcher.deltas.append(note)
                watcher.poke()
            elif isinstance(note, Grown) and not watcher.only_ends:
                watcher.poke()
        return remote

    def grown(self, session_id: SessionId) -> None:
        """Note that the journal has durably grown, or a command was decided."""
        note = Grown(session_id)
        for address, _ in self.hear(note):
            self._bus.send(address, note)

    def left(self, session_id: SessionId) -> None:
        """Note that nothing of the session is in this process any more."""
        self.grown(session_id)
        for watcher in self._audience(session_id)[0]:
            watcher.poke()

    def wake_all(self) -> None:
        """Have every watcher in this process look again."""
        with self._lock:
            watchers = [one for some in self._watchers.values() for one in some]
        for watcher in watchers:
            watcher.poke()

    def preview(self, delta: Delta) -> None:
        """Text that is not durable yet."""
        for address, wants_deltas in self.hear(delta):
            if wants_deltas:
                self._bus.send(address, delta)

    def _audience(self, session_id: SessionId) -> tuple[list[Watcher], list[tuple[str, bool]]]:
        if session_id not in self._watchers and session_id not in self._remote:  # the common case takes no lock
            return [], []
        with self._lock:
            local = list(self._watchers.get(session_id, ()))
            remote = self._remote.get(session_id, {})
            now = self._clock.monotonic()
            for address in [address for address, (until, _) in remote.items() if until < now]:
                del remote[address]
            if not remote:
                self._remote.pop(session_id, None)
            return local, [(address, deltas) for address, (_, deltas) in remote.items()]
