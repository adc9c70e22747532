"""Whose turn it is to tell: of several servers over one store, one at a time.

A shelf has no "put if absent". Each server lays a claim beside the others', looks again after a moment, and the oldest
claim has the turn, until its server lets it go, dies, or says nothing for ``SILENT`` seconds. Nothing is written while
there is nothing to tell.

What this does not promise: a server that stands still for longer than ``SILENT`` in the middle of its turn, or sees
another clock than the others, may tell beside another one. What it sends then has the same id.
"""

import asyncio
import os
import socket
from typing import Final

import msgspec

from midcourse.core.ids import WorkerId
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store

SHELF: Final = "turns"
SETTLING: Final = 0.2
"""Seconds between a claim and the look that decides."""
RENEWED: Final = 5.0
"""Seconds for which a claim is not renewed."""
SILENT: Final = 15.0
"""Seconds after which a claim is one of a server that is gone."""
_here: Final[set[str]] = set()
"""The claimants of this process."""


class Claim(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A server that wants the turn, or has it."""

    name: str
    host: str
    process: int
    since: float
    at: float
    holds: bool = False


class Turn:
    """One server's part in whose turn it is."""

    def __init__(self, store: Store, clock: Clock, worker: WorkerId) -> None:
        self._store = store
        self._clock = clock
        self._own = Claim(name=str(worker), host=socket.gethostname(), process=os.getpid(), since=0.0, at=0.0)
        _here.add(self._own.name)

    async def is_mine(self) -> bool:
        """Whether this server may tell now; it takes the turn if nobody has it."""
        now = self._clock.now()
        if self._own.holds and 0 <= now - self._own.at < RENEWED:
            return True
        others = await self._others(now)
        if any(one.holds for one in others):
            await self._let_go()
            return False
        if self._own.holds:
            await self._write(at=now, holds=True)
            return True
        await self._write(at=now, since=now)
        await asyncio.sleep(SETTLING)
        others = await self._others(self._clock.now())
        is_first = all((self._own.since, self._own.name) < (one.since, one.name) for one in others)
        if any(one.holds for one in others) or not is_first:
            await self._let_go()
            return False
        await self._write(at=self._clock.now(), holds=True)
        return True

    async def end(self) -> None:
        """Let it go: another server may go on at once."""
        await self._let_go()
        _here.discard(self._own.name)

    async def _let_go(self) -> None:
        if self._own.at:
            await self._store.shelve(SHELF, {self._own.name: None})
        self._own = msgspec.structs.replace(self._own, holds=False, since=0.0, at=0.0)

    async def _write(self, *, at: float, since: float | None = None, holds: bool = False) -> None:
        began = self._own.since if since is None else since
        self._own = msgspec.structs.replace(self._own, at=at, since=began, holds=holds)
        await self._store.shelve(SHELF, {self._own.name: msgspec.json.encode(self._own)})

    async def _others(self, now: float) -> list[Claim]:
        """The claims of those that live; what the dead left is cleared away."""
        found = [msgspec.json.decode(content, type=Claim) for _, content in await self._store.shelved(SHELF)]
        others = [one for one in found if one.name != self._own.name]
        dead = [one.name for one in others if not self._lives(one, now)]
        if dead:
            await self._store.shelve(SHELF, dict.fromkeys(dead))
        return [one for one in others if one.name not in dead]

    def _lives(self, claim: Claim, now: float) -> bool:
        if abs(now - claim.at) > SILENT:
            return False
        if claim.host != self._own.host:
            return True
        # A process of this machine that is gone is known to be: nobody waits for its silence.
        return claim.name in _here if claim.process == self._own.process else _runs(claim.process)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
