"""Parking: when a session at rest leaves memory, and the append that releases it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from midcourse.core import events as ev
from midcourse.core.codec import Blob
from midcourse.core.ids import Position
from midcourse.core.session import ENDED, Status
from midcourse.errors import MidcourseError
from midcourse.runtime.agent_task import AgentTask
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.deadlines import Deadlines
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal

log = logging.getLogger("midcourse")

RESTS: Final = frozenset({Status.PAUSED, Status.WAITING, Status.HALTED})
_TRY_AGAIN: Final = 0.5
"""Seconds until a session that could not be released is tried again, if nothing happens before."""


class Parking:
    """Take a session out of memory: parked, released, or at the end of its process. On the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        task: AgentTask,
        deadlines: Deadlines,
        ctx: RuntimeContext,
        *,
        settle: Callable[[], Awaitable[object]],
        left: Callable[[], None],
        react: Callable[[], None],
    ) -> None:
        self.leaving: asyncio.Task[None] | None = None
        self._journal = journal
        self._gate = gate
        self._task = task
        self._deadlines = deadlines
        self._ctx = ctx
        self._settle = settle
        self._left = left
        self._react = react
        self._rests_since: float | None = None

    def park(self, *, is_stuck: bool) -> None:
        """Leave a session in the store of which nothing lives here. ``is_stuck``: it cannot begin or continue here."""
        status, is_untouched = self._journal.session.status, self._journal.is_untouched
        if self.leaving is not None or (status in RESTS and self._deadlines.is_ahead):
            return
        if status in ENDED or (is_untouched and status in RESTS):
            self.let_go()
        elif status in RESTS:
            self._journal.save_snapshot()
            self.let_go(ev.SessionParked())
        elif status in (Status.QUEUED, Status.RUNNING) and self._gate.draining:
            self.let_go(*(() if is_untouched else (ev.SessionParked(),)))
        elif status in (Status.QUEUED, Status.RUNNING) and is_stuck:
            self.let_go()

    def consider(self) -> None:
        """Stop a warm session that has rested long enough; it is started cold when it is resumed."""
        now = self._ctx.clock.monotonic()
        if self._gate.draining and (not self._task.is_in_its_own_code or self._gate.drain_until <= self._journal.now):
            self._task.take_down()
        elif self._gate.draining:
            self._deadlines.look_again("drain", self._gate.drain_until - self._journal.now)
        elif self._journal.session.status not in RESTS:
            self._rests_since = None
        else:
            self._rests_since = self._rests_since or now
            left = self._rests_since + self._ctx.settings.park_after - now
            if left <= 0 and self._journal.session.resumable:
                self._task.take_down()
            elif left > 0:
                self._deadlines.look_again("park", left)

    def let_go(self, *events: ev.AnyEvent, blobs: tuple[Blob, ...] = (), seen: Position | None = None) -> None:
        """Append ``events`` and release the session, unless something happens first.

        ``seen``: what was known when the events were made; something more, and they are made anew.
        """
        seen = self._journal.session.position if seen is None else seen
        self.leaving = self._ctx.loop.create_task(self._leave(events, blobs, seen))

    async def _leave(self, events: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...], seen: Position) -> None:
        left = moved = False
        try:
            left = await self._journal.release(*events, blobs=blobs, seen=seen)
            moved = left or bool(await self._settle()) or self._journal.session.position != seen
        except MidcourseError as error:
            log.warning("session %s: %s", self._journal.session.id, error)
        except Exception:
            log.exception("session %s: a command could not be decided", self._journal.session.id)
        finally:
            self.leaving = None
            if left:
                self._left()
            elif moved or self._journal.broken is not None:
                self._react()
            else:  # nothing is new: to try again at once would be to spin
                self._deadlines.look_again("leave", _TRY_AGAIN)
