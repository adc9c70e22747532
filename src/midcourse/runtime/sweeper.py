"""Sweep now and then: for sessions without a live owner, and for kill switches that were not enforced."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from itertools import groupby
from math import inf
from typing import Any, Final

from midcourse.core.commands import Cancel, Pause, encode_command
from midcourse.core.ids import Position, SessionId, depth_of
from midcourse.core.session import NEEDS_DRIVING, Session, Status
from midcourse.errors import Damaged, MidcourseError, SessionNotFound
from midcourse.ports.active_switches import ActiveSwitches, halt_of, must_halt
from midcourse.ports.clock import Clock
from midcourse.ports.store import Head, Owned, Store
from midcourse.runtime.children import STOPS_CHILDREN, is_orphaned, parent_name, passed_on, passed_on_id
from midcourse.runtime.deadlines import AHEAD
from midcourse.runtime.driver import Driver
from midcourse.runtime.session_loader import load

log = logging.getLogger("midcourse")

_SWEEP: Final = 1000
_EVERY: Final = 10_000
"""The number of sessions checked when the wall clock may have been set back."""
_NAMED: Final = 10
_GOES_ON: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED})
"""The statuses in which an acquired session may begin calls; in others it only finishes a stop or an undo."""
_AT_ONCE: Final = 32
"""Sessions taken at the same time by a sweep: enough to share commits, few enough to hear commands in between."""


class Sweeper:
    """Has a worker attend to what is left behind. On the control loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        has_agent: Callable[[Head], bool],
        has_tools: Callable[[Session], bool],
        attend: Callable[[SessionId], Awaitable[None]],
        is_own: Callable[[SessionId], bool] | None = None,
    ) -> None:
        """``is_own``: which sessions it takes, of those that only need to be driven; None: every one."""
        self._store = store
        self._clock = clock
        self._has_agent = has_agent
        self._has_tools = has_tools
        self._attend = attend
        self._is_own = is_own
        self._missed: set[str] = set()
        self._offset: float | None = None
        self._named: set[SessionId] = set()
        self._left_to_others: dict[SessionId, Position] = {}
        self._lacking: dict[SessionId, Session] = {}

    def left(self, session: Session) -> None:
        """Note that this process released a session, and acquires it no more if the rest needs the agent's tools."""
        self._lacking.pop(session.id, None)
        if session.waits_for_tools and session.needs:
            self._lacking[session.id] = session
        elif session.status is Status.CANCELLING or session.is_being_undone:
            self._left_to_others[session.id] = session.position
        else:
            self._left_to_others.pop(session.id, None)

    async def sweep(self) -> None:
        """Claim every session that needs a driver and has no living owner."""
        statuses = sorted(status.value for status in NEEDS_DRIVING)
        now = self._clock.now()
        found = [*await self._store.unattended(statuses, now, limit=_SWEEP)]
        if self._is_queued_again(now):
            # By this clock they would wake too late. Their next owner counts on from their last event.
            known = {owned.head.id for owned in found}
            every = await self._store.unattended((), inf, limit=_EVERY)
            found += [one for one in every if one.head.updated_at > now + AHEAD and one.head.id not in known]
        needy = [owned for owned in found if self._can_help(owned)]
        for owned in found:
            self._name_missing_agent(owned.head)
        self._name_taken([owned.head for owned in needy if not owned.pending])
        # Parents first: what lies in their inbox may stop their children.
        needy.sort(key=_depth)
        for _, generation in groupby(needy, key=_depth):
            alike = list(generation)
            for start in range(0, len(alike), _AT_ONCE):
                batch = alike[start : start + _AT_ONCE]
                await asyncio.gather(*(log_errors(self._adopt(owned)) for owned in batch))

    def _is_queued_again(self, now: float) -> bool:
        """Return True if the wall clock may have been set back since the last sweep; unknown before the first."""
        before, self._offset = self._offset, now - self._clock.monotonic()
        return before is None or self._offset < before - AHEAD

    async def _adopt(self, owned: Owned) -> None:
        """Acquire a session without an owner; but not a child that a stop of its parent's is still to reach."""
        try:
            if not owned.pending and owned.head.status in _GOES_ON and await self._is_left_to_its_parent(owned.head):
                return
        except (Damaged, SessionNotFound) as error:
            await self._pause_orphan(owned.head, error)
        await self._attend(owned.head.id)

    async def _is_left_to_its_parent(self, head: Head) -> bool:
        """Return True if a stop is still to reach it, or it has not begun and its parent is to begin it."""
        if await self._waits_for_a_stop(head):
            return True
        if head.status != Status.QUEUED or head.parent is None:
            return False
        above = await self._store.head(head.parent)
        if above.head.status == Status.CANCELLED:
            reason = "its parent was cancelled before it began"
            cancel = Cancel(id=passed_on_id(head.id, "orphan"), by=parent_name(head.parent), reason=reason)
            await self._store.put(head.id, cancel.id, encode_command(cancel), self._clock.now())
        return not await is_orphaned(self._store, head)

    async def _pause_orphan(self, child: Head, error: MidcourseError) -> None:
        """Pause a child once if what stands above it cannot be read: a stop may be on its way, and nothing can tell.

        Not in the parent's name: a worker that does not know yet that it lost the parent would lift the pause again.
        """
        why = f"a session above it cannot be read: {error.message}"
        pause = Pause(id=passed_on_id(child.id, "orphaned"), by="midcourse", reason=why)
        log.error("session %s is paused: %s", child.id, why)
        await self._store.put(child.id, pause.id, encode_command(pause), self._clock.now())

    async def _waits_for_a_stop(self, child: Head) -> bool:
        """Return True if a stop of its parent, or of any session above that, is still to reach it."""
        while child.parent is not None:
            above = await self._store.head(child.parent)
            if await self._store.undecided(child.parent):
                return True
            if above.head.status in STOPS_CHILDREN:
                parent = (await load(self._store, above.head)).state.session
                # No stop comes to a child that had ended: a person has opened a new turn of it since.
                stop = passed_on(parent, child.id) if child.id in parent.children.values() else None
                # A stop that has reached it is done: a person who lifted that since wants it to continue.
                if stop is not None and await self._store.row(child.id, stop.id) is None:
                    if above.head.status == Status.HALTED and not above.alive:
                        await self._attend(child.parent)  # its owner died, and its head may not say that it needs one
                    return True
            child = above.head
        return False

    def _name_taken(self, heads: list[Head]) -> None:
        """Say which sessions that no process drove this one takes, each once."""
        fresh = [head for head in heads if head.id not in self._named]
        self._named.update(head.id for head in fresh)
        if fresh:
            names = ", ".join(f"{head.id} ({head.agent}, {head.status})" for head in fresh[:_NAMED])
            more = f" and {len(fresh) - _NAMED} more" if len(fresh) > _NAMED else ""
            log.info("takes over what no process drove: %s%s. open(recover=False) would leave them", names, more)

    def _name_missing_agent(self, head: Head) -> None:
        """Log once which agent is missing, if no other process drives it: a forgotten import must not go unnoticed."""
        is_left_alone = self._is_own is not None and not self._is_own(head.id)
        if is_left_alone or self._has_agent(head) or head.agent in self._missed or head.parent:
            return
        if head.status in (Status.RUNNING, Status.QUEUED, Status.CANCELLING):
            self._missed.add(head.agent)
            log.warning(
                "session %s is %s and no process drives it: agent '%s' is not registered in this process. "
                "Import the module that defines it (for an agent file: load_agents), or start a program that does.",
                head.id,
                head.status,
                head.agent,
            )

    def _can_help(self, owned: Owned) -> bool:
        """Return False for a session that only needs its agent: a process that has it takes it."""
        head = owned.head
        if owned.pending:
            return True
        if self._is_own is not None and not self._is_own(head.id):
            return False
        if head.id in self._lacking:
            return self._has_tools(self._lacking[head.id])
        if head.status not in (Status.RUNNING, Status.QUEUED):
            return self._has_agent(head) or self._left_to_others.get(head.id) != head.position
        return self._has_agent(head)


async def enforce_switch(standing: ActiveSwitches, drivers: Callable[[], list[Driver]]) -> None:
    """Halt what a kill switch covers and still runs here: its thrower may have died before sending."""
    await standing.flush()
    for switch in await standing.recent():
        for driver in drivers():
            if must_halt(switch, driver.session):
                await log_errors(driver.obey(halt_of(switch, driver.session)))


async def log_errors(act: Coroutine[Any, Any, None]) -> None:
    """Log errors: the control loop outlives those of one session or one read."""
    try:
        await act
    except MidcourseError as error:
        log.warning("control: %s", error)
    except Exception:
        log.exception("control: unexpected")


def _depth(owned: Owned) -> int:
    return depth_of(owned.head.id)
