"""An open store: its sessions, and what only a process that has the store itself can do."""

import asyncio
import signal
from collections.abc import Sequence

from midcourse.core.replies import Durability
from midcourse.core.request_checks import check_days
from midcourse.core.session import Session
from midcourse.handle.sessions import Sessions
from midcourse.ports.audit_log import prune_audit
from midcourse.ports.sender import check_people_send
from midcourse.upkeep.erasure import ended_before, erase_sessions


class Midcourse(Sessions):
    """An open store. Made by :func:`open`. Its caller is the operator of its sessions."""

    @property
    def durability(self) -> Durability:
        """The failure that an acknowledged command survives: none, a killed process, or a power failure."""
        return self._worker.store.durability

    async def prune_audit(self, before: float, *, by: str = "local") -> int:
        """Remove the entries from before a time, and write down that it was done. Returns how many it were.

        Raises:
            Damaged: the log is damaged there. Nothing is removed.
        """
        await check_people_send(self._worker.store, "prune the audit log")
        return await prune_audit(self._worker.store, before, by=by, role="operate", now=self._worker.clock.now())

    async def erase_older(self, days: float, *, by: str = "retention", limit: int = 1000) -> Sequence[Session]:
        """Erase the sessions that ended more than so many days ago, oldest first, at most ``limit`` of them.

        ``by`` stays in the journal and the audit log of each.
        """
        check_days(days)
        worker = self._worker
        old = await ended_before(worker.store, worker.clock.now() - days * 86_400, limit=limit)
        why = f"ended more than {days:g} days ago"
        return await erase_sessions(worker, old, by=by, role="operate", reason=why, go_on=True)

    async def work(self, grace: float = 10.0) -> None:
        """Drive sessions until SIGTERM or SIGINT, then drain: take nothing new, let each go at its next safe point.

        Calls in flight have ``grace`` seconds to end, then they are aborted. A call that does not end is waited for; a
        second signal ends the process and leaves it as lost. Nothing is cancelled: another process, or this one started
        again, continues every session.
        """
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for one in signals:
            loop.add_signal_handler(one, asked.set)
        try:
            await asked.wait()
        finally:
            for one in signals:
                loop.remove_signal_handler(one)
        await self.close(grace)
        await self._worker.closed()

    async def close(self, grace: float = 2.0) -> None:
        """Release every session at its next safe point. None is cancelled: who opens the store next continues it.

        A call that does not end keeps its session: no other process takes it before the call, or this process, ends.
        """
        await self._worker.close(grace)
