"""Control down the tree: a session's stop reaches its children before it counts as stopped."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core.decisions import decide
from midcourse.core.evolution import with_events
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import MidcourseError, Refused, SessionNotFound
from midcourse.ports.store import Head, Store
from midcourse.runtime.context import SessionTree
from midcourse.runtime.gate import LETS_RUN, Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_loader import load

log = logging.getLogger("midcourse")

_WAIT = 5.0
STOPS_CHILDREN: Final = frozenset({Status.PAUSING, Status.CANCELLING, Status.HALTED})
"""The statuses of a parent whose stop reaches its children."""


def parent_name(parent: SessionId) -> str:
    """Return the sender of a child's command that its parent sent."""
    return f"{cmd.BY_PARENT}{parent}"


def passed_on_id(child: SessionId, what: str) -> CommandId:
    """Return the id of a command that a parent passes on to a child: after a crash it is sent again as the same one."""
    return CommandId(f"{child}/{what}")


class Children:
    """The children of one session, while it is being stopped. On the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, tree: SessionTree, *, moved: Callable[[], None]) -> None:
        self.unreached: set[SessionId] = set()
        self._journal = journal
        self._gate = gate
        self._tree = tree
        self._moved = moved
        self._settled: set[CommandId] = set()
        self._reopened: tuple[SessionId, ...] = ()
        self._searched: CommandId | None = None
        self._search: asyncio.Task[None] | None = None
        self._released = -1
        self._tasks: dict[CommandId, asyncio.Task[None]] = {}

    def have_stopped(self) -> bool:
        """Send the stop that stands to every child. True once each has stopped, or is listed as not reached."""
        session = self._journal.session
        if not session.may_have_children:
            return True
        if any(call.is_setting_going for call in self._gate.begun.values()):
            return False  # a child that is just being created has no inbox yet, and one set going lifts old stops
        stop = passed_on(session, session.id)
        if stop is not None and self._searched != stop.id:
            if self._search is None:
                self._search = asyncio.get_running_loop().create_task(self._find_reopened(stop.id))
            waiting = True  # those that are known are reached meanwhile
        else:
            waiting = False
        for child in (*session.children.values(), *self._reopened):
            command = passed_on(session, child)
            if command is None or command.id in self._settled:
                continue
            waiting = True
            if command.id not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._reach(child, command))
                self._tasks[command.id] = task
        return not waiting

    async def _find_reopened(self, stop: CommandId) -> None:
        """Look for the children that had ended and that a person has opened a new turn of since."""
        try:
            self._reopened = tuple(await self._tree.reopened(self._journal.session))
        except MidcourseError as error:
            self._reopened = ()
            log.warning("session %s: cannot look for children that work again: %s", self._journal.session.id, error)
        finally:
            self._search = None
        self._searched = stop
        self._moved()

    def release_reopened(self) -> None:
        """Lift what a stop of this session, which stands no more, holds of children that no step waits for."""
        session = self._journal.session
        stops = session.pauses + session.halts
        if session.has_spawned and stops and self._released != stops and self._search is None:
            self._released = stops
            self._search = asyncio.get_running_loop().create_task(self._release())

    async def _release(self) -> None:
        session = self._journal.session
        try:
            for child in await self._tree.reopened(session):
                await self._tree.start_child(child, session.id, again=False)
        except MidcourseError as error:
            self._released = -1
            log.warning("session %s: a child may still be paused with it: %s", session.id, error)
        finally:
            self._search = None
            self._moved()

    async def _reach(self, child: SessionId, command: cmd.AnyCommand) -> None:
        try:
            stopping = True
            while stopping:  # the same id again is the same command: it only waits on
                reply = await self._tree.send(child, command, until="stopped", wait=_WAIT)
                stopping = reply.level == "stopping" or reply.finishes_first
                if reply.unreachable_since is not None:
                    self.unreached.add(child)
            self.unreached.update((await self._tree.look_up(child)).unreached)  # what it could not reach itself
        except Refused as refused:
            # It has ended, or is being stopped by somebody else; but what a kill switch holds is an operator's to end.
            # A halted child takes no pause: it would go on once the switch is lifted, so it counts as not reached.
            if refused.code == "operator_only" or refused.fields.get("status") == Status.HALTED:
                self.unreached.add(child)
        except SessionNotFound:
            pass  # it was never born
        except MidcourseError:
            self.unreached.add(child)
        finally:
            del self._tasks[command.id]
        self._settled.add(command.id)
        self._moved()


def passed_on(session: Session, child: SessionId) -> cmd.AnyCommand | None:
    """Return the command that passes on a parent's present stop, the same one each time."""
    by = parent_name(session.id)
    # A child whose own parent has ended gets the stop of one further up, whose names may be the same.
    above = "" if child.rpartition(".")[0] == session.id else f"{session.id}/"
    if session.status is Status.PAUSING and session.pause is not None:
        grace = session.pause.grace
        again = f"/again_{session.pause.renewals}" if session.pause.renewals else ""
        identity = passed_on_id(child, f"{above}{session.pause.id}/{grace}{again}")
        return cmd.Pause(id=identity, by=by, reason=session.pause.reason, grace=grace)
    if session.status is Status.CANCELLING and session.cancel is not None:
        grace = session.cancel.grace
        undo = session.cancel.undo
        force = session.cancel.force
        identity = passed_on_id(
            child, f"{above}cancel_{session.turn}/{grace}/{undo}/{session.halts}{'/force' if force else ''}"
        )
        reason = session.cancel.reason
        role: cmd.Role = "operate" if session.cancel.operates else "steer"
        return cmd.Cancel(id=identity, by=by, role=role, reason=reason, grace=grace, undo=undo, force=force)
    if session.status is Status.HALTED:
        return cmd.Halt(id=passed_on_id(child, f"{above}halt_{session.halts}"), by=by, role="operate")
    return None


def foreseen(session: Session, command: cmd.AnyCommand, child: SessionId, at: float) -> cmd.AnyCommand | None:
    """Return what a session will pass on to a child of a stop that is not in its journal yet; None: nothing."""
    with contextlib.suppress(Refused):
        return passed_on(with_events(session, decide(session, command), at), child)
    return None


async def is_orphaned(store: Store, child: Head) -> bool:
    """Return whether no parent will begin this child: its parent has ended, or no step of it waits for the child.

    The second is a child of an earlier turn. A parent that is stopped may still come back to it.

    Raises:
        Damaged: the parent cannot be read.
        SessionNotFound: there is no such parent.
    """
    if child.parent is None:
        return False
    parent = (await store.head(child.parent)).head
    if parent.status in LETS_RUN:
        return child.id not in (await load(store, parent)).state.session.children.values()
    return parent.status in ENDED
