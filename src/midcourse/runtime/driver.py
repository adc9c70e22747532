"""Drives one session: decides its inbox, runs its agent, and makes what is alive match what the journal says.

Commands are decided (``inbox``) on whichever thread they arrive, under the journal's lock. ``react`` then acts, on the
agent's loop, by looking at the folded state alone: it may run any number of times, and what it missed it does the next.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from midcourse.core import events as ev
from midcourse.core.codec import decode
from midcourse.core.commands import AnyCommand, Intervene, encode_command
from midcourse.core.ids import CommandId, SessionId, StepId
from midcourse.core.replies import RunningCall
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import AgentUnavailable, Damaged, Diverged, Interrupt, MidcourseError, StoreError, without_path
from midcourse.policy.pace import Pace
from midcourse.ports.active_switches import halt_of
from midcourse.ports.sender import enter_agent
from midcourse.ports.store import InboxRow
from midcourse.runtime.agent_task import AgentFailed, AgentReturned, AgentTask
from midcourse.runtime.agents import Agent
from midcourse.runtime.call_recovery import CallRecovery
from midcourse.runtime.calls import CallInFlight
from midcourse.runtime.children import Children
from midcourse.runtime.command_inbox import CommandInbox
from midcourse.runtime.command_outcome import CommandOutcome
from midcourse.runtime.conclusion import Conclusion
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.deadlines import Deadlines
from midcourse.runtime.gate import LETS_RUN, Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.parking import RESTS, Parking
from midcourse.runtime.recovery import Recovery
from midcourse.runtime.rollback import Rollback
from midcourse.runtime.run import Run
from midcourse.runtime.run_history import load_run_history
from midcourse.runtime.session_budget import SessionBudget
from midcourse.runtime.session_loader import content_of
from midcourse.runtime.session_start import SessionStart, at_once
from midcourse.runtime.steps import Steps
from midcourse.runtime.tools import AgentPlace
from midcourse.runtime.undo import UndoRunner
from midcourse.runtime.watchdog import Blocked, task_name
from midcourse.runtime.world_check import WorldCheck

log = logging.getLogger("midcourse")

STOPS: Final = frozenset({"ask", "pause", "stop"})
"""The decisions of a policy that pause."""


class Driver:
    """The owner's side of one session. Without an agent it only decides, finishes stops, and releases."""

    def __init__(
        self,
        journal: Journal,
        agent: Agent[object] | None,
        ctx: RuntimeContext,
        *,
        gone: Callable[["Driver"], None],
        unavailable: AgentUnavailable | None = None,
        sponsor: "Driver | None" = None,
        orphaned: bool = False,
        is_recovering: bool = False,
        is_clear: bool = False,
    ) -> None:
        react = self.react  # one object for all its parts: the collector visits each, of every session
        self.journal = journal
        self.gate = Gate(
            journal,
            is_fresh=ctx.is_fresh,
            on_wait=react,
            is_held=lambda: self._world.holds,
            is_owed=partial(ctx.owes, journal.session.id),
        )
        self._agent = agent
        self._unavailable = unavailable
        self._ctx = ctx
        self._gone = gone
        self._task = AgentTask(self.gate, ctx.clock, cleanup=ctx.settings.cleanup, moved=react)
        self._inbox = CommandInbox(
            journal,
            self.gate,
            ctx.store,
            running=self.running,
            decided=self.wake,
            unavailable=unavailable,
            longest_correction=ctx.longest_correction,
            lets_priced_end=ctx.tree.lets_priced_end,
        )
        begins = sponsor.unless_stopped if sponsor else at_once if orphaned else None
        self._starting = SessionStart(journal, ctx.admission, begins)
        self._children = Children(journal, self.gate, ctx.tree, moved=react)
        moved = AgentPlace(journal.session.origin, agent.origin if agent is not None else "")
        self._undo_runner = UndoRunner(journal, self.gate, ctx, moved)
        self._call_recovery = CallRecovery(journal, self.gate, ctx, self._undo_runner, moved=react)
        self._rollback = Rollback(journal, ctx, self._undo_runner, self._call_recovery, moved=react)
        self._world = WorldCheck(journal, ctx, moved, is_cold=is_recovering)
        self.session_budget = SessionBudget(
            journal,
            self.gate,
            ctx.tree,
            at_cap=self._inbox.stop_at_cap,
            with_parent=self._inbox.stop_with_parent,
        )
        self._steps = Steps(
            journal,
            self.gate,
            ctx,
            settling=self._call_recovery,
            moved=react,
            diverged=self._diverged,
            purse=self.session_budget,
        )
        self._deadlines = Deadlines(journal, self.gate, self._inbox, self._children, ctx.clock, react=react)
        self._parking = Parking(
            journal,
            self.gate,
            self._task,
            self._deadlines,
            ctx,
            settle=self.settle,
            left=self._end,
            react=react,
        )
        self._recovery = Recovery(
            journal,
            self.gate,
            self._task,
            ctx,
            settling=self._call_recovery,
            starting=self._starting,
            world=self._world,
            halted=self._is_halted,
            fail=self.fail,
            react=react,
        )
        self._conclusion = Conclusion(
            journal,
            self.gate,
            self._task,
            ctx,
            children=self._children,
            rollback=self._rollback,
            deadlines=self._deadlines,
            parking=self._parking,
            has_agent=agent is not None or unavailable is not None,
            react=react,
            react_soon=lambda: self._soon(react),
        )
        self._over = False
        self._is_recovering = is_recovering
        self._is_clear = is_clear
        self._start_task: asyncio.Task[None] | None = None
        self._last_run_call = ctx.clock.monotonic()
        self._silence_told = False

    @property
    def id(self) -> SessionId:
        return self.journal.session.id

    # ---- on any thread

    async def settle(self, put: InboxRow | None = None) -> dict[CommandId, CommandOutcome]:
        """Decide every undecided command, in inbox order; return what was decided here, once it is durable.

        ``put``: the row that was just put, which saves reading if it is the only one.
        """
        return await self._inbox.settle(put)

    async def recover(self) -> None:
        """Decide the inbox first, even if this driver is woken in between; then act on the journal."""
        try:
            await self._inbox.settle()
        except MidcourseError as error:
            self.journal.fail(error)  # nothing was decided: it is acquired again from what is durable
        finally:
            self._is_recovering = False
            self.wake()

    def shut(self) -> None:
        """Shut the gate before a stop is written: nothing begins until it is decided."""
        self._inbox.shut()

    def stop_ahead(self, stop: AnyCommand) -> None:
        """Abort what a stop is going to abort, side by side with its write: in this turn, if on the agent's loop."""
        if asyncio._get_running_loop() is not self._ctx.loop:  # noqa: SLF001 - the documented get_running_loop raises where there is none
            self._on_loop(lambda: self.stop_ahead(stop))
            return
        with self.journal.lock:
            foreseen = self._inbox.foresee(stop)
        if foreseen is not None:
            self._deadlines.stop_ahead(self.calls(), foreseen)

    def unshut(self) -> None:
        """Undo ``shut``: the stop was decided or refused, and the status alone counts again."""
        self._inbox.unshut()

    def running(self) -> tuple[RunningCall, ...]:
        """Return everything of the session that has begun and has not ended. On any thread."""
        with self.journal.lock:
            now = self._ctx.clock.monotonic()
            calls = [call.running(now) for call in self.gate.begun.values() if not call.has_ended]
            undos = self._undo_runner.running()
            calls.extend(undos)
            being_undone = {undo.step for undo in undos}
            calls.extend(call for call in self._call_recovery.running() if call.step not in being_undone)
            if self._task.is_in_its_own_code:
                seconds = round(max(0.0, now - self._last_run_call), 3)
                calls.append(RunningCall(StepId("agent"), "the agent's own code", "agent", 1, seconds))
            return tuple(calls)

    def calls(self) -> list[CallInFlight]:
        """Return the calls that have begun and not ended. On any thread."""
        with self.journal.lock:
            return [] if self._over else list(self.gate.begun.values())

    def show_risk(self, risk: float | None) -> None:
        """Tell lists of the risk that was measured last, with the next append."""
        self.journal.risk = risk

    def keep_pace(self, pace: Pace) -> None:
        """Journal the session this often from now on."""
        self.journal.pace = pace

    @property
    def session(self) -> Session:
        return self.journal.session

    @property
    def now(self) -> float:
        """The session's time, which no step of the wall clock moves."""
        return self.journal.now

    @property
    def has_agent(self) -> bool:
        """True if its agent can run here."""
        return self._agent is not None

    @property
    def may_ask(self) -> bool:
        """True if its agent may ask people."""
        return self._agent is not None and self._agent.asks

    @property
    def is_recovering(self) -> bool:
        """True if commands that it found in its inbox are still to be decided."""
        return self._is_recovering

    async def step_in(self, command: Intervene) -> None:
        """Journal a policy's decision; while the session is released, put it into the inbox for its next owner.

        Raises:
            StoreError: it could not be written.
        """
        with contextlib.suppress(StoreError, Damaged):  # the journal is broken now: the next owner decides it
            if await self._inbox.step_in(command):
                return
        stops = command.decision.level in STOPS
        if stops:
            self.shut()
        try:
            await self.obey(command)
        finally:
            if stops:
                self.unshut()

    @property
    def error(self) -> BaseException | None:
        """The agent's exception in this process, if it ended so: the journal keeps only its text."""
        return self._task.error

    @property
    def is_over(self) -> bool:
        """True if nothing of the session is left in this process."""
        return self._over

    def wake(self) -> None:
        """Have ``react`` run on the agent's loop. On any thread."""
        self._on_loop(self.react)

    def _on_loop(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._ctx.loop.call_soon_threadsafe(act)

    # ---- acting, on the agent's loop

    def react(self) -> None:
        """Make what is alive match what the journal says."""
        self.gate.release_aborted()
        if self._over or self._parking.leaving is not None or self._is_recovering:
            return
        if self.journal.broken is not None:
            self._abandon()
            return
        self._conclusion.note_return()
        self._deadlines.meet()
        self._call_recovery.check_again()
        self.gate.release_stale()
        self._deadlines.stop_calls()
        status = self.journal.session.status
        if status in ENDED:
            self._conclusion.finish_undo()
        elif status is Status.CANCELLING:
            self._conclusion.finish_cancel()
        elif isinstance(self._task.ending, AgentFailed) and status is not Status.HALTED:
            self._conclusion.fail(self._task.ending)
        elif status is Status.PAUSING:
            self._conclusion.finish_pause()
        elif status in LETS_RUN or status is Status.QUEUED:
            self._continue()
        elif status is Status.HALTED:
            self._children.have_stopped()  # a person may have resumed one while this session was paused
        self._release_if_idle()

    def _continue(self) -> None:
        """Running, as far as the session is concerned: start the agent, or let it pass the gate."""
        self._children.release_reopened()
        if isinstance(self._task.ending, Interrupt):
            interrupt, self._task.ending = self._task.ending, None
            if self._agent is not None and not self._agent.asks:
                self.fail(AgentFailed("may_not_ask", f"This agent may not ask anybody, and asked: {interrupt.prompt}"))
                self._soon(self.react)
                return
            self._starting.ask_for_agent(interrupt)
        if self._unavailable is not None and self._task.ending is None:
            self.fail(AgentFailed(self._unavailable.code, self._unavailable.message))
        if self._agent is None or self.gate.draining or not self._starting.is_let_in(self, self._agent):
            return
        if self._task.is_alive:
            self._recovery.check_world()
            self.gate.release_waiters()
            if self.journal.session.asks:
                self._soon(self._note_waiting)
        # Cold and waiting, it stays in the store until there is an answer: to start it would undo its parking.
        elif (
            self._task.ending is None
            and self._start_task is None
            and self._recovery.task is None
            and self.journal.session.status is not Status.WAITING
            and not self._recovery.settle_first()
        ):
            may = self._starting.may_start(self._agent)
            if isinstance(may, AgentFailed):
                self.fail(may)
            elif may:
                self._start_task = self._ctx.loop.create_task(self._start(self._agent))

    def _soon(self, act: Callable[[], None]) -> None:
        """Run it after the woken tasks have had their chance to continue."""
        loop = self._ctx.loop
        loop.call_soon(loop.call_soon, act)

    def _note_waiting(self) -> None:
        with self.journal.lock:
            session = self.journal.session
            # An ask that has just been answered is no longer open, although its path has not continued yet.
            if session.status is Status.RUNNING and session.asks and self.gate.is_open and self.gate.only_asking:
                self.journal.note(ev.SessionWaiting())
        self.react_to_rest()

    def react_to_rest(self) -> None:
        """Look whether the session has come to rest since."""
        if not self._over and self._parking.leaving is None and self.journal.broken is None:
            self._release_if_idle()

    # ---- the agent

    async def _start(self, agent: Agent[object]) -> None:
        enter_agent(self.id)  # this task, the agent's, and those of its tools
        if await self._is_halted():
            self._start_task = None
            self.react()
            return
        try:
            await self.session_budget.look_below()
            state = decode(await content_of(self._ctx.store, self.journal.log.state))
            history = await load_run_history(self._ctx.store, self.journal.log)
        except MidcourseError as error:
            self._task.end_with(AgentFailed(error.code, without_path(error)))
        else:
            if self.session.status is not Status.QUEUED and self.session.status not in LETS_RUN:
                self._start_task = None  # stopped since: it is started when it continues
                self.react()
                return
            if not self._starting.begin():
                self._start_task = None
                self._parking.let_go()
                return
            self.touch()
            run = Run(
                self.journal,
                self.gate,
                self._steps,
                clock=self._ctx.clock,
                state=state,
                history=history,
                may_ask=agent.asks,
                retry=agent.retry,
                touch=self.touch,
                release=self._undo_runner.release,
            )
            name = task_name(self.id, "agent")
            saved = (lambda: run.state, run.history.grown)
            self._task.start(agent.name, lambda: agent.function(run), *saved, task_name=name)
        finally:
            self._start_task = None
        self.react()

    async def _is_halted(self) -> bool:
        """Return True if a kill switch keeps the agent from beginning. Checked once it is durable that it runs."""
        if self._is_clear:  # its creator has checked
            self._is_clear = False
            return False
        try:
            switch = await self._ctx.standing.switch_over(self.session)
            if switch is not None:
                await self.obey(halt_of(switch, self.session))
        except MidcourseError as error:  # it is unknown whether it may begin: it is acquired again
            self.journal.fail(error)
            return True
        return switch is not None

    async def obey(self, command: AnyCommand) -> None:
        """Put a command into the session's own inbox, and decide it.

        Raises:
            StoreError: it could not be written.
        """
        await self._ctx.store.put(self.id, command.id, encode_command(command), self._ctx.clock.now())
        await self.settle()

    def unless_stopped(self, act: Callable[[], None]) -> bool:
        """Do it if no stop stands against this session's calls, and return whether it was done."""
        with self.journal.lock:
            if not self.gate.lets_calls_continue:
                return False
            act()
            return True

    def fail(self, failure: AgentFailed) -> None:
        """Fail the session once nothing of it runs."""
        self._task.end_with(failure)
        self._soon(self.react)

    def _diverged(self, error: Diverged) -> None:
        self._task.fail_at_gate(AgentFailed(error.code, error.message))

    def touch(self) -> None:
        """Note that the agent made a ``run.*`` call: it can be paused there."""
        self._last_run_call = self._ctx.clock.monotonic()
        self._silence_told = False

    def name_as_blocking(self, blocked: Blocked) -> None:
        """Say that this session's code holds the loop. On the control loop."""
        with self.journal.lock:
            if self.journal.session.status not in ENDED and not self.journal.broken and not self.journal.leaving:
                self.journal.append(ev.LoopBlocked(seconds=blocked.seconds, where=blocked.where))

    def name_if_silent(self) -> None:
        """Name an agent that has made no ``run.*`` call for long. Called now and then, on the control loop."""
        with self.journal.lock:
            silent = self._ctx.clock.monotonic() - self._last_run_call
            if (
                self._silence_told
                or silent < self._ctx.settings.silent_after
                or not self._task.is_in_its_own_code
                or self.journal.session.status not in (Status.RUNNING, Status.PAUSING)
                or self.journal.broken
                or self.journal.leaving
            ):
                return
            self._silence_told = True
            told = ev.AgentSilent(seconds=round(silent, 1))
            self.journal.append(told)
        log.warning("session %s: no run.* call for %.0f s: %s", self.id, silent, told.advice)

    # ---- release

    def drain(self, until: float) -> None:
        """Take the session out of memory at its next safe point; calls in flight may run until then."""
        self.gate.draining, self.gate.drain_until = True, self.journal.now + until - self._ctx.clock.now()
        self.react()

    @property
    def _is_busy(self) -> bool:
        """True if something of it runs beside its agent."""
        tasks = self._start_task is not None or self._recovery.task is not None
        return tasks or self.gate.has_calls or self._rollback.is_running

    def _release_if_idle(self) -> None:
        """Park what has rested long enough, and let a session go once nothing of it is in memory."""
        self._world.note_rest()
        session = self.journal.session
        if session.status in RESTS:
            self._ctx.admission.left(self.id)
        if self._is_busy:
            return
        if self._task.is_alive:
            self._parking.consider()
        elif session.status in LETS_RUN and isinstance(self._task.ending, AgentReturned):
            self._conclusion.complete(self._task.ending)
        elif session.status is not Status.HALTED or self._children.have_stopped():
            is_nobodys = self._agent is None and self._unavailable is None
            self._parking.park(is_stuck=is_nobodys or self._starting.waits_for_its_parent)

    def _abandon(self) -> None:
        """Stop everything that lives, and leave the session as it is in the store: the journal cannot be written."""
        for call in list(self.gate.begun.values()):
            call.cut = True
            call.stop()
        if self._task.is_alive:
            self._task.take_down()
        elif not self._is_busy:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._ctx.admission.left(self.id)
        self._deadlines.forget()
        if self.session.parent is not None:
            self._ctx.tree.count_child(self.session.parent, self.id, self.session_budget.so_far.spent)
        self._gone(self)
