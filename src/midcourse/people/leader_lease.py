"""Choose one notifying server at a time, of several over one store.

One record on a shelf names the leader. A server acquires the lease by replacing the record it has read, which fails if
another one was quicker. It leads until it releases the lease, dies, or is silent for ``SILENT`` seconds. Nothing is
written while there is nothing to send.

This is no full guarantee: a server that hangs for longer than ``SILENT`` while it leads, or has another clock than the
others, may send beside another one. Each thing is still claimed before it is sent (see ``people/outbox.py``), so as
long as their clocks agree one server sends it.
"""

import contextlib
import os
import socket
from pathlib import Path
from typing import Final

import msgspec

from midcourse.core.ids import WorkerId
from midcourse.errors import ShelfChanged
from midcourse.ports.clock import Clock
from midcourse.ports.shelves import decoded, readable
from midcourse.ports.store import Store

SHELF: Final = "turns"
TURN: Final = "telling"
RENEWED: Final = 5.0
"""Seconds for which a turn is not renewed."""
SILENT: Final = 15.0
"""Seconds after which a turn is one of a server that is gone."""
_here: Final[set[str]] = set()
"""The servers of this process."""


class LeaseRecord(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The server that has the turn. ``machine`` is where its process has that number."""

    name: str
    machine: str
    process: int
    at: float


class LeaderLease:
    """One server's part in whose turn it is."""

    def __init__(self, store: Store, clock: Clock, worker: WorkerId) -> None:
        self._store = store
        self._clock = clock
        self._name = str(worker)
        self._machine = _machine()
        self._held: bytes | None = None
        self._held_at = 0.0
        _here.add(self._name)

    async def acquire(self) -> bool:
        """Return True if this server may notify now; it acquires the lease if it is free."""
        now = self._clock.now()
        if self._held is not None and 0 <= now - self._held_at < RENEWED:
            return True
        whole, damaged = await readable(self._store, SHELF, first=TURN, last=TURN)
        if damaged:  # it is unknown whose it was
            await self._store.shelve(SHELF, {TURN: None})
        found = whole[0][1] if whole else None
        other = None if found is None else decoded(found, LeaseRecord)
        if other is not None and other.name != self._name and self._lives(other, now):
            self._held = None
            return False
        claim = LeaseRecord(name=self._name, machine=self._machine, process=os.getpid(), at=now)
        own = msgspec.json.encode(claim)
        try:
            await self._store.shelve(SHELF, {TURN: own}, expecting={TURN: found})
        except ShelfChanged:
            self._held = None
            return False
        self._held, self._held_at = own, now
        return True

    async def end(self) -> None:
        """Release the lease: another server may lead at once."""
        if self._held is not None:
            with contextlib.suppress(ShelfChanged):  # another one has it
                await self._store.shelve(SHELF, {TURN: None}, expecting={TURN: self._held})
            self._held = None
        _here.discard(self._name)

    def _lives(self, claim: LeaseRecord, now: float) -> bool:
        if abs(now - claim.at) > SILENT:
            return False
        if claim.machine != self._machine:
            return True
        # A lost process of this machine is known: its silence is not waited for.
        return claim.name in _here if claim.process == os.getpid() else _runs(claim.process)


def _machine() -> str:
    """Identify what has process numbers of its own: two containers may share a host name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return socket.gethostname()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
