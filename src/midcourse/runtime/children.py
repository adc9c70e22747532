"""Control down the tree: a session's stop reaches its children before it counts as stopped."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, SessionId, StepId
from midcourse.core.session import Session, Status
from midcourse.errors import MidcourseError, Refused, SessionNotFound
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.surroundings import Tree

_WAIT = 5.0
STOPS_CHILDREN: Final = frozenset({Status.PAUSING, Status.CANCELLING, Status.HALTED})
"""Where a parent stands whose stop reaches its children."""


def parent_name(parent: SessionId) -> str:
    """Who a child's command comes from when its parent sent it."""
    return f"{cmd.BY_PARENT}{parent}"


def passed_on_id(child: SessionId, what: str) -> CommandId:
    """The id of a command that a parent passes on to a child: sent again, after a crash too, it is the same command."""
    return CommandId(f"{child}/{what}")


class Children:
    """The children of one session, while it is being stopped. On the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, tree: Tree, *, moved: Callable[[], None]) -> None:
        self.unreached: set[SessionId] = set()
        self._journal = journal
        self._gate = gate
        self._tree = tree
        self._moved = moved
        self._settled: set[CommandId] = set()
        self._tasks: dict[CommandId, asyncio.Task[None]] = {}
        self._lifted: tuple[int, int] | None = None
        self._lifting: asyncio.Task[None] | None = None

    def have_resumed(self) -> bool:
        """Lift this session's stops from the children of earlier turns. True once that was done.

        Those of this turn are resumed by the steps that wait for them.
        """
        session = self._journal.session
        stops = (session.pauses, session.halts)
        left = [child for step, child in session.children.items() if _turn_of(step) != session.turn]
        if not left or stops == self._lifted:
            return True
        if self._lifting is None:
            self._lifting = asyncio.get_running_loop().create_task(self._lift(left, stops))
        return False

    async def _lift(self, children: Sequence[SessionId], stops: tuple[int, int]) -> None:
        try:
            for child in children:
                with contextlib.suppress(MidcourseError):  # it is gone, or its people resume it
                    await self._tree.set_going(child, self._journal.session.id, again=False)
            self._lifted = stops
        finally:
            self._lifting = None
            self._moved()

    def have_stopped(self) -> bool:
        """Send the stop that stands to every child. True once each has stopped, or is listed as not reached."""
        session = self._journal.session
        if not session.children:
            return True
        if self._lifting is not None or any(call.is_setting_going for call in self._gate.begun.values()):
            return False  # a child that is just being created has no inbox yet, and one set going lifts old stops
        waiting = False
        for child in session.children.values():
            command = passed_on(session, child)
            if command is None or command.id in self._settled:
                continue
            waiting = True
            if command.id not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._reach(child, command))
                self._tasks[command.id] = task
        return not waiting

    async def _reach(self, child: SessionId, command: cmd.AnyCommand) -> None:
        try:
            stopping = True
            while stopping:  # the same id again is the same command: it only waits on
                reply = await self._tree.send(child, command, until="stopped", wait=_WAIT)
                stopping = reply.level == "stopping" or reply.finishes_first
                if reply.unreachable_since is not None:
                    self.unreached.add(child)
            # Whom its own stop did not reach, this one did not reach either.
            self.unreached |= set((await self._tree.glance(child)).unreached)
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


def _turn_of(step: StepId) -> int:
    """The turn in whose scope a step lies: ``2`` of ``2.40/spawn kid#=1``."""
    return int(step.partition("/")[0].partition(".")[0])


def passed_on(session: Session, child: SessionId) -> cmd.AnyCommand | None:
    """The command that passes on the stop that stands over a parent, the same one each time."""
    by = parent_name(session.id)
    if session.status is Status.PAUSING and session.pause is not None:
        grace = session.pause.grace
        again = f"/again_{session.pause.renewals}" if session.pause.renewals else ""
        identity = passed_on_id(child, f"{session.pause.id}/{grace}{again}")
        return cmd.Pause(id=identity, by=by, reason=session.pause.reason, grace=grace)
    if session.status is Status.CANCELLING and session.cancel is not None:
        grace = session.cancel.grace
        undo = session.cancel.undo
        force = session.cancel.force
        identity = passed_on_id(
            child, f"cancel_{session.turn}/{grace}/{undo}/{session.halts}{'/force' if force else ''}"
        )
        reason = session.cancel.reason
        role: cmd.Role = "operate" if session.cancel.operates else "steer"
        return cmd.Cancel(id=identity, by=by, role=role, reason=reason, grace=grace, undo=undo, force=force)
    if session.status is Status.HALTED:
        return cmd.Halt(id=passed_on_id(child, f"halt_{session.halts}"), by=by, role="operate")
    return None
