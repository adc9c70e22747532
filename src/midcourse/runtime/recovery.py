"""Settle and check before an agent continues, cold after a crash or warm after a long rest."""

import asyncio
from collections.abc import Awaitable, Callable

from midcourse.errors import MidcourseError
from midcourse.runtime.agent_task import AgentFailed, AgentTask
from midcourse.runtime.call_recovery import CallRecovery
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_start import SessionStart
from midcourse.runtime.world_check import WorldCheck


class Recovery:
    """The calls one session lost with a process, and the world as its tools had observed it. On the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        task: AgentTask,
        ctx: RuntimeContext,
        *,
        settling: CallRecovery,
        starting: SessionStart,
        world: WorldCheck,
        halted: Callable[[], Awaitable[bool]],
        fail: Callable[[AgentFailed], None],
        react: Callable[[], None],
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._journal = journal
        self._gate = gate
        self._task = task
        self._ctx = ctx
        self._settling = settling
        self._starting = starting
        self._world = world
        self._halted = halted
        self._fail = fail
        self._react = react

    def settle_first(self) -> bool:
        """Return whether, before a cold start, lost calls must be settled, or asked about."""
        if not any(True for _ in self._settling.open_calls()) and not self._world.is_to_be_checked:
            refused = self._world.refused()
            if refused is not None:
                self._fail(refused)
            return refused is not None
        self.task = self._ctx.loop.create_task(self._settle_all())
        return True

    async def _settle_all(self) -> None:
        try:
            if await self._halted():
                return
            steps = [call.step for call in self._settling.open_calls()]
            await asyncio.gather(*(self._settling.settle(step, asks=False) for step in steps))
            refused = await self._world.check() if self._world.is_to_be_checked else None
            if refused is not None:
                self._fail(refused)
            self._starting.wait_for_answers()
        except MidcourseError as error:
            self._journal.fail(error)
        finally:
            self.task = None
            self._react()

    def check_world(self) -> None:
        """Check the world after a long rest, before a warm agent passes the gate: is it as its tools had observed it?

        Not while a call of its own is in flight, which could outlive a halt: its write is no change.
        """
        refused = self._world.refused_now()
        if refused is not None:
            self._task.fail_at_gate(refused)
        elif self.task is None and self._world.is_to_be_checked and self._gate.has_waiting and not self._gate.has_calls:
            self.task = self._ctx.loop.create_task(self._check_world_again())

    async def _check_world_again(self) -> None:
        try:
            refused = await self._world.check(is_warm=True)
            if refused is not None and self._task.is_alive:
                self._task.fail_at_gate(refused)
            self._starting.wait_for_answers()
        except MidcourseError as error:
            self._journal.fail(error)
        finally:
            self.task = None
            self._react()
