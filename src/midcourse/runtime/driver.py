"""Drives one session: decides its inbox, runs its agent, and makes what is alive match what the journal says.

Commands are decided (``inbox``) on whichever thread they arrive, under the journal's lock. ``react`` then acts, on the
agent's loop, by looking at the folded state alone: it may run any number of times, and what it missed it does the next.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Blob, decode, value_of
from midcourse.core.commands import AnyCommand, Intervene, encode_command
from midcourse.core.decisions import next_turn
from midcourse.core.effects import UndoChoice, may_abort
from midcourse.core.ids import CommandId, Position, SessionId, StepId, pause_id
from midcourse.core.pace import Pace
from midcourse.core.receipt import begins_anew
from midcourse.core.replies import RunningCall
from midcourse.core.session import ENDED, Message, Session, Status
from midcourse.errors import AgentUnavailable, Diverged, Interrupt, MidcourseError, without_path
from midcourse.ports.clock import Timer
from midcourse.ports.sender import enter_agent
from midcourse.runtime.agent_task import AgentTask, Failed, Returned
from midcourse.runtime.agents import Agent
from midcourse.runtime.calls import Call
from midcourse.runtime.children import Children
from midcourse.runtime.gate import LETS_RUN, Gate
from midcourse.runtime.growing import load_history
from midcourse.runtime.inbox import Inbox
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of
from midcourse.runtime.outcomes import Outcome
from midcourse.runtime.purse import Purse
from midcourse.runtime.rollback import Rollback
from midcourse.runtime.run import Run
from midcourse.runtime.settling import Settling
from midcourse.runtime.standing import halt_of
from midcourse.runtime.starting import Starting, at_once
from midcourse.runtime.steps import Steps
from midcourse.runtime.surroundings import Surroundings
from midcourse.runtime.tools import Moved
from midcourse.runtime.undoing import Undoing
from midcourse.runtime.watchdog import Blocked, task_name
from midcourse.runtime.world import World

log = logging.getLogger("midcourse")

RESTS: Final = frozenset({Status.PAUSED, Status.WAITING, Status.HALTED})
AHEAD: Final = 1.0
"""Seconds that a journal may be ahead of the wall clock; more, and the wall clock was set back."""
_TRY_AGAIN: Final = 0.5
"""Seconds until a session that could not be released is tried again, if nothing happens before."""
STOPS: Final = frozenset({"ask", "pause", "stop"})
"""What a policy decides that pauses."""


class Driver:
    """The owner's side of one session. Without an agent it only decides, finishes stops, and lets go."""

    def __init__(
        self,
        journal: Journal,
        agent: Agent[object] | None,
        around: Surroundings,
        *,
        gone: Callable[["Driver"], None],
        unavailable: AgentUnavailable | None = None,
        sponsor: "Driver | None" = None,
        orphaned: bool = False,
        is_recovering: bool = False,
        is_clear: bool = False,
    ) -> None:
        self.journal = journal
        self.gate = Gate(
            journal,
            is_fresh=around.is_fresh,
            stood=self.react,
            is_held=lambda: self._world.holds,
            is_owed=lambda: around.owes(self.id),
        )
        self._agent = agent
        self._unavailable = unavailable
        self._around = around
        self._gone = gone
        self._task = AgentTask(self.gate, around.clock, cleanup=around.settings.cleanup, moved=self.react)
        self._inbox = Inbox(
            journal, self.gate, around.store, running=self.running, decided=self.wake, unavailable=unavailable
        )
        begins = sponsor.unless_stopped if sponsor else at_once if orphaned else None
        self._starting = Starting(journal, around.admission, begins)
        self._children = Children(journal, self.gate, around.tree, moved=self.react)
        moved = Moved(journal.session.origin, agent.origin if agent is not None else "")
        self._undoing = Undoing(journal, self.gate, around, moved)
        self._settling = Settling(journal, self.gate, around, self._undoing, moved=self.react)
        self._rollback = Rollback(journal, around, self._undoing, self._settling, moved=self.react)
        self._world = World(journal, around, moved, is_cold=is_recovering)
        self.purse = Purse(
            journal,
            self.gate,
            around.tree,
            at_cap=self._inbox.stop_at_cap,
            with_parent=self._inbox.stop_with_parent,
        )
        self._steps = Steps(
            journal,
            self.gate,
            around,
            settling=self._settling,
            moved=self.react,
            diverged=self._diverged,
            purse=self.purse,
        )
        self._over = False
        self._is_recovering = is_recovering
        self._is_clear = is_clear
        self._leaving: asyncio.Task[None] | None = None
        self._start_task: asyncio.Task[None] | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._heard: int | None = None
        self._timers: dict[str, Timer] = {}
        self._rests_since: float | None = None
        self._last_run_call = around.clock.monotonic()
        self._silence_told = False

    @property
    def id(self) -> SessionId:
        """The session's id."""
        return self.journal.session.id

    # ---- on any thread

    async def settle(self) -> dict[CommandId, Outcome]:
        """Decide every undecided command, in inbox order; return what was decided here, once it is durable."""
        return await self._inbox.settle()

    async def recover(self) -> None:
        """Decide the inbox first, whoever wakes this driver meanwhile; then act on what the journal says."""
        try:
            await self._inbox.settle()
        except MidcourseError as error:
            self.journal.give_up(error)  # nothing was decided: it is taken again from what is durable
        finally:
            self._is_recovering = False
            self.wake()

    def shut(self) -> None:
        """A stop is on its way: nothing begins until it is decided. Before anything is written."""
        self._inbox.shut()

    def unshut(self) -> None:
        """The stop has been decided or refused: the status alone speaks again."""
        self._inbox.unshut()

    def running(self) -> tuple[RunningCall, ...]:
        """Everything of the session that has begun and has not ended. On any thread."""
        with self.journal.lock:
            now = self._around.clock.monotonic()
            calls = [call.running(now) for call in self.gate.begun.values()]
            undos = self._undoing.running()
            calls.extend(undos)
            being_undone = {undo.step for undo in undos}
            calls.extend(call for call in self._settling.running() if call.step not in being_undone)
            if self._task.is_in_its_own_code:
                seconds = round(max(0.0, now - self._last_run_call), 3)
                calls.append(RunningCall(StepId("agent"), "the agent's own code", "agent", 1, seconds))
            return tuple(calls)

    def calls(self) -> list[Call]:
        """The calls that have begun and not ended. On any thread."""
        with self.journal.lock:
            return [] if self._over else list(self.gate.begun.values())

    def show_risk(self, risk: float | None) -> None:
        """Tell lists of the risk that was measured last, with the next append."""
        self.journal.risk = risk

    def keep_pace(self, pace: Pace) -> None:
        """From now on it is written down this often."""
        self.journal.pace = pace

    @property
    def session(self) -> Session:
        """The session as it is, durable or not."""
        return self.journal.session

    @property
    def now(self) -> float:
        """The session's time, which no step of the wall clock moves."""
        return self.journal.now

    @property
    def has_agent(self) -> bool:
        """Whether its agent can run here."""
        return self._agent is not None

    @property
    def may_ask(self) -> bool:
        """Whether its agent may ask people anything."""
        return self._agent is not None and self._agent.asks

    @property
    def is_recovering(self) -> bool:
        """Whether commands that it found in its inbox are still to be decided."""
        return self._is_recovering

    async def step_in(self, command: Intervene) -> None:
        """Put a policy's decision into the inbox, and decide it. What stops shuts the gate before it is written.

        Raises:
            StoreError: it could not be written.
        """
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
        """What the agent raised in this process, if that is how it ended: the journal keeps only its words."""
        return self._task.error

    @property
    def is_over(self) -> bool:
        """Whether nothing of the session is left in this process."""
        return self._over

    def wake(self) -> None:
        """Have ``react`` run on the agent's loop. On any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._around.loop.call_soon_threadsafe(self.react)

    # ---- acting, on the agent's loop

    def react(self) -> None:
        """Make what is alive match what the journal says."""
        if self._over or self._leaving is not None or self._is_recovering:
            return
        if self.journal.broken is not None:
            self._abandon()
            return
        if self._heard is None and isinstance(self._task.ending, Returned):
            self._heard = len(self.journal.session.messages)
        self._meet_deadlines()
        self._settling.stir()
        self.gate.freshen()
        self._stop_calls()
        status = self.journal.session.status
        if status in ENDED:
            self._finish_undo()
        elif status is Status.CANCELLING:
            self._finish_cancel()
        elif isinstance(self._task.ending, Failed) and status is not Status.HALTED:
            self._fail(self._task.ending)
        elif status is Status.PAUSING:
            self._finish_pause()
        elif status in LETS_RUN or status is Status.QUEUED:
            self._go_on()
        elif status is Status.HALTED:
            self._children.have_stopped()  # a person may have resumed one while this session was paused
        self._let_go_if_nothing_lives()

    def _go_on(self) -> None:
        """Running, as far as the session is concerned: start the agent, or let it pass the gate."""
        self._children.release_reopened()
        if isinstance(self._task.ending, Interrupt):
            interrupt, self._task.ending = self._task.ending, None
            if self._agent is not None and not self._agent.asks:
                self.fail(Failed("may_not_ask", f"This agent may not ask anybody, and asked: {interrupt.prompt}"))
                self._soon(self.react)
                return
            self._starting.ask_for_agent(interrupt)
        if self._unavailable is not None and self._task.ending is None:
            self.fail(Failed(self._unavailable.code, self._unavailable.message))
        if self._agent is None or self.gate.draining or not self._starting.is_let_in(self, self._agent):
            return
        if self._task.is_alive:
            self._check_world()
            self.gate.look_again()
            if self.journal.session.asks:
                self._soon(self._say_if_waiting)
        # Cold and waiting, it lies in the store until somebody answers: to start it would undo its parking.
        elif (
            self._task.ending is None
            and self._start_task is None
            and self._recovery is None
            and self.journal.session.status is not Status.WAITING
            and not self._settle_first()
        ):
            may = self._starting.may_start(self._agent)
            if isinstance(may, Failed):
                self.fail(may)
            elif may:
                self._start_task = self._around.loop.create_task(self._start(self._agent))

    def _settle_first(self) -> bool:
        """Before an agent starts cold: whether calls that were lost with a process must be settled, or asked about."""
        if not any(True for _ in self._settling.open_calls()) and not self._world.is_to_be_checked:
            refused = self._world.refused()
            if refused is not None:
                self.fail(refused)
            return refused is not None
        self._recovery = self._around.loop.create_task(self._settle_all())
        return True

    async def _settle_all(self) -> None:
        try:
            if await self._is_halted():
                return
            steps = [call.step for call in self._settling.open_calls()]
            await asyncio.gather(*(self._settling.settle(step, asks=False) for step in steps))
            refused = await self._world.check() if self._world.is_to_be_checked else None
            if refused is not None:
                self.fail(refused)
            self._starting.wait_for_answers()
        except MidcourseError as error:
            self.journal.give_up(error)
        finally:
            self._recovery = None
            self.react()

    def _check_world(self) -> None:
        """Before a warm agent passes the gate after a long rest: whether the world is as its tools had observed it.

        Not while a call of its own is in flight, which could outlive a halt: its write is no change.
        """
        refused = self._world.refused_now()
        if refused is not None:
            self._fail_at_gate(refused)
        elif (
            self._recovery is None
            and self._world.is_to_be_checked
            and self.gate.has_waiting
            and not self.gate.has_calls
        ):
            self._recovery = self._around.loop.create_task(self._check_world_again())

    async def _check_world_again(self) -> None:
        try:
            refused = await self._world.check(is_warm=True)
            if refused is not None and self._task.is_alive:
                self._fail_at_gate(refused)
            self._starting.wait_for_answers()
        except MidcourseError as error:
            self.journal.give_up(error)
        finally:
            self._recovery = None
            self.react()

    def _fail_at_gate(self, failure: Failed) -> None:
        """The agent must not get a chance to catch this and continue along another path."""
        self._task.end_with(failure)
        self._task.take_down()

    def _soon(self, act: Callable[[], None]) -> None:
        """After those who were woken have had their chance to go on."""
        loop = self._around.loop
        loop.call_soon(loop.call_soon, act)

    def _say_if_waiting(self) -> None:
        with self.journal.lock:
            session = self.journal.session
            # An ask that has just been answered is no longer open, although its path has not gone on yet.
            if session.status is Status.RUNNING and session.asks and self.gate.is_open and self.gate.only_asking:
                self.journal.note(ev.SessionWaiting())
        self.react_to_rest()

    def react_to_rest(self) -> None:
        """Look whether the session has come to rest since."""
        if not self._over and self._leaving is None and self.journal.broken is None:
            self._let_go_if_nothing_lives()

    def _stop_calls(self) -> None:
        """Abort the calls whose grace is over; look again when the next one's will be."""
        now = self.journal.now
        later: list[float] = []
        for call in list(self.gate.begun.values()):
            deadline = self._deadline_of(call)
            if deadline is not None and deadline <= now:
                call.stop()
            elif deadline is not None:
                later.append(deadline)
        if later:
            self._look_again("grace", min(later) - now)

    def _deadline_of(self, call: Call) -> float | None:
        if call.cut:
            return 0.0
        if call.kind == "child":
            return self._child_deadline()
        if not may_abort(call.effect):  # it finishes, whatever the grace, unless this process ends
            return self.gate.drain_until if self.gate.draining else None
        return self._deadline(call.step)

    def _deadline(self, step: StepId) -> float | None:
        """When a call in flight must end; None if it may finish."""
        session = self.journal.session
        if session.status is Status.HALTED or self.gate.draining:
            return self.gate.drain_until if self.gate.draining else 0.0
        if session.status is Status.PAUSING and session.pause is not None:
            return None if session.pause.grace is None else session.pause.since + session.pause.grace
        if session.status is Status.CANCELLING and session.cancel is not None:
            return session.cancel.since + session.cancel.grace
        call = session.calls.get(step)
        if call is None or call.redirected is None:
            return None
        message = session.messages[call.redirected]
        return None if message.grace is None else message.at + message.grace

    def _child_deadline(self) -> float | None:
        """A call that waits for a child ends once the child has been stopped too, and never by a grace of its own."""
        if self.gate.draining:
            return 0.0
        stops = self.journal.session.status in (Status.PAUSING, Status.CANCELLING, Status.HALTED)
        return 0.0 if stops and self._children.have_stopped() else None

    def _look_again(self, why: str, delay: float) -> None:
        if why in self._timers:
            self._timers[why].cancel()
        self._timers[why] = self._around.clock.call_later(delay, self.react)

    def _meet_deadlines(self) -> None:
        if not self.journal.session.deadlines:
            return
        now = self.journal.now
        with self.journal.lock:
            self._inbox.expire(now)
            deadlines = self.journal.session.deadlines
        if deadlines:
            self._look_again("deadline", min(deadlines) - now)

    def _finish_pause(self) -> None:
        """Nothing runs, and the agent stands still: the pause is complete."""
        if not self._children.have_stopped() or self.gate.has_calls or self._task.is_in_its_own_code:
            return
        if self._rollback.is_running:
            return
        with self.journal.lock:
            session = self.journal.session
            if session.status is Status.PAUSING:
                unreached = tuple(sorted(self._children.unreached))
                self.journal.append(ev.SessionPaused(unknown=session.lost, unreached=unreached))

    def _finish_cancel(self) -> None:
        """Calls first, then the agent, then what is rolled back, then the receipt."""
        cancel = self.journal.session.cancel
        if not self._children.have_stopped() or self.gate.has_calls or cancel is None:
            return
        if self._task.is_alive:
            left = cancel.since + cancel.grace - self.journal.now
            if self._task.is_in_its_own_code and left > 0:
                self._look_again("cancel", left)
            else:
                self._task.take_down()
            return
        if self._rolls_back(cancel.undo):
            return
        unreached = tuple(sorted(self._children.unreached))
        receipt = self._rollback.told(cancel.receipt.values())
        ended = ev.SessionCancelled(receipt=receipt, unreached=unreached)
        if begins_anew(self.session):
            self._leaving = self._around.loop.create_task(self._restart(ended, self.session.position))
        else:
            self._let_go(ended)

    async def _restart(self, ended: ev.SessionCancelled, seen: Position) -> None:
        """Nothing of it is left: what was forced to end begins anew, and then it has ended. Again after a crash."""
        try:
            new = await self._around.tree.restart(self.session)
        except MidcourseError as error:
            self._leaving = None
            self.journal.give_up(error)  # it is taken again, and tries again
            self.react()
        else:
            self._let_go(replace(ended, restarted_as=new), seen=seen)  # unless something was decided meanwhile

    def _finish_undo(self) -> None:
        """A session that had ended is rolled back."""
        undo = self.journal.session.undo
        if undo is not None and not undo.done and not self._rolls_back("all"):
            self._let_go(ev.UndoFinished(receipt=self._rollback.told(undo.receipt.values())))

    def _rolls_back(self, choice: UndoChoice) -> bool:
        """Whether something is still being rolled back, here or (let go of) by a process that has the tools."""
        if self._rollback.is_done(choice):
            return False
        if self._rollback.is_running:
            return True
        # Whoever takes the session next goes on with it.
        if self._rollback.lacks_tools or (self.gate.draining and self._rollback.is_needed(choice)):
            self._let_go()
            return True
        if self._agent is None and self._unavailable is None and self._rollback.is_needed(choice):
            self._let_go()
        else:
            self._rollback.start(choice)
        return True

    def _fail(self, failure: Failed) -> None:
        if self.gate.has_calls or self._task.is_alive:  # what is in flight ends by itself; its result is kept
            return
        failed = ev.SessionFailed(code=failure.code, message=failure.message, step=failure.step)
        with self.journal.lock:
            self._end_turn((*self._closing(), failed))

    def _end_turn(self, ended: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...] = ()) -> None:
        """Nothing comes after this turn. A cancel that has waited for its end rolls back what it was to. Locked."""
        session = self.journal.session
        stop = session.deferred
        if stop is not None and stop.stop == "cancel":
            ended = (*(ev.MessageWithdrawn(message=one.id, by=stop.by) for one in session.queue), *ended)
            if stop.undo == "all":
                self.journal.append(*ended, ev.UndoRequested(by=stop.by, reason=stop.reason), blobs=blobs)
                self._soon(self.react)
                return
        self._let_go(*ended, blobs=blobs)

    def _closing(self) -> tuple[ev.AnyEvent, ...]:
        return tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="withdrawn") for ask in self.journal.session.asks)

    # ---- the agent

    async def _start(self, agent: Agent[object]) -> None:
        enter_agent(self.id)  # this task, the agent's, and those of its tools
        if await self._is_halted():
            self._start_task = None
            self.react()
            return
        try:
            state = decode(await content_of(self._around.store, self.journal.log.state))
            history = await load_history(self._around.store, self.journal.log)
        except MidcourseError as error:
            self._task.end_with(Failed(error.code, without_path(error)))
        else:
            if self.session.status is not Status.QUEUED and self.session.status not in LETS_RUN:
                self._start_task = None  # stopped since: it is started when it goes on
                self.react()
                return
            if not self._starting.begin():
                self._start_task = None
                self._let_go()
                return
            self.touch()
            run = Run(
                self.journal,
                self.gate,
                self._steps,
                clock=self._around.clock,
                state=state,
                history=history,
                may_ask=agent.asks,
                retry=agent.retry,
                touch=self.touch,
                release=self._undoing.release,
            )
            name = task_name(self.id, "agent")
            saved = (lambda: run.state, run.history.grown)
            self._task.start(agent.name, lambda: agent.function(run), *saved, task_name=name)
        finally:
            self._start_task = None
        self.react()

    async def _is_halted(self) -> bool:
        """Whether a kill switch keeps the agent from beginning. Looked up when it is durable that the session runs."""
        if self._is_clear:  # whoever created it has looked
            self._is_clear = False
            return False
        try:
            switch = await self._around.standing.over(self.session)
            if switch is not None:
                await self.obey(halt_of(switch, self.session))
        except MidcourseError as error:  # nobody knows whether it may begin: it is taken again
            self.journal.give_up(error)
            return True
        return switch is not None

    async def obey(self, command: AnyCommand) -> None:
        """Put a command into the session's own inbox, and decide it.

        Raises:
            StoreError: it could not be written.
        """
        await self._around.store.put(self.id, command.id, encode_command(command), self._around.clock.now())
        await self.settle()

    def unless_stopped(self, act: Callable[[], None]) -> bool:
        """Do it if no stop stands against this session's calls, and return whether it was done."""
        with self.journal.lock:
            if not self.gate.lets_calls_continue:
                return False
            act()
            return True

    def fail(self, failure: Failed) -> None:
        """The session cannot go on; it says why once nothing of it runs."""
        self._task.end_with(failure)
        self._soon(self.react)

    def _diverged(self, error: Diverged) -> None:
        self._fail_at_gate(Failed(error.code, error.message))

    def touch(self) -> None:
        """The agent made a ``run.*`` call: it can be paused there."""
        self._last_run_call = self._around.clock.monotonic()
        self._silence_told = False

    def name_as_blocking(self, blocked: Blocked) -> None:
        """Say that this session's code holds the loop. On the control loop."""
        with self.journal.lock:
            if self.journal.session.status not in ENDED and not self.journal.broken and not self.journal.leaving:
                self.journal.append(ev.LoopBlocked(seconds=blocked.seconds, where=blocked.where))

    def name_if_silent(self) -> None:
        """Name an agent that has made no ``run.*`` call for long. Called now and then, on the control loop."""
        with self.journal.lock:
            silent = self._around.clock.monotonic() - self._last_run_call
            if (
                self._silence_told
                or silent < self._around.settings.silent_after
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

    # ---- letting go

    def drain(self, until: float) -> None:
        """Take the session out of memory at its next safe point; calls in flight may go on until then."""
        self.gate.draining, self.gate.drain_until = True, self.journal.now + until - self._around.clock.now()
        self.react()

    def _let_go_if_nothing_lives(self) -> None:
        """Park what has rested long enough, and let a session go once nothing of it is in memory."""
        self._world.note_rest()
        session = self.journal.session
        if session.status in RESTS:
            self._around.admission.left(self.id)
        if self.gate.has_calls or self._start_task or self._recovery or self._rollback.is_running:
            return
        if self._task.is_alive:
            self._consider_parking()
            return
        match session.status:
            case Status.RUNNING | Status.WAITING if isinstance(self._task.ending, Returned):
                if self._rollback.problem:
                    words = f"What the session holds could not be let go: {self._rollback.problem}"
                    self._task.ending = Failed("release_failed", words)
                    self._soon(self.react)
                elif self._rollback.has_released():
                    self._complete(self._task.ending)
            case Status.HALTED if not self._children.have_stopped():
                pass
            case Status.PAUSED | Status.WAITING | Status.HALTED if self._is_ahead:
                pass
            case _ if self.journal.is_untouched and session.status in RESTS:
                self._let_go()
            case Status.PAUSED | Status.WAITING | Status.HALTED:
                self.journal.save_snapshot()
                self._let_go(ev.SessionParked())
            case Status.QUEUED | Status.RUNNING:
                if self.gate.draining:
                    self._let_go(*(() if self.journal.is_untouched else (ev.SessionParked(),)))
                elif (self._agent is None and self._unavailable is None) or self._starting.waits_for_its_parent:
                    self._let_go()
            case Status.COMPLETED | Status.FAILED | Status.CANCELLED if self._leaving is None:
                self._let_go()
            case _:
                pass

    @property
    def _is_ahead(self) -> bool:
        """Whether the wall clock was set back behind a session with a deadline, which a sweep would wake too late."""
        ahead = self.journal.now - self._around.clock.now()
        return bool(self.journal.session.deadlines) and ahead > AHEAD and not self.gate.draining

    def _consider_parking(self) -> None:
        """A warm session that has rested long enough is taken down, to be started cold when it is resumed."""
        now = self._around.clock.monotonic()
        if self.gate.draining and (not self._task.is_in_its_own_code or self.gate.drain_until <= self.journal.now):
            self._task.take_down()
        elif self.gate.draining:
            self._look_again("drain", self.gate.drain_until - self.journal.now)
        elif self.journal.session.status not in RESTS:
            self._rests_since = None
        else:
            self._rests_since = self._rests_since or now
            left = self._rests_since + self._around.settings.park_after - now
            if left <= 0 and self.journal.session.resumable:
                self._task.take_down()
            elif left > 0:
                self._look_again("park", left)

    def _complete(self, returned: Returned) -> None:
        result, blob = value_of(returned.result)
        state, another = value_of(returned.state)
        history, third = (NOTHING, None) if returned.grown is None else value_of(returned.grown)
        blobs = tuple(one for one in (blob, another, third) if one is not None)
        with self.journal.lock:  # what is decided meanwhile, on another thread, is for this end or for the next turn
            session = self.journal.session
            if session.status not in LETS_RUN:  # stopped since: whoever decided that wakes this driver
                return
            woken = (ev.SessionWoken(),) if session.status is Status.WAITING else ()
            ended = (*woken, *self._closing(), ev.SessionCompleted(result=result, state=state, history=history))
            late = () if self._heard is None else session.messages[self._heard :]
            if session.deferred is not None and session.deferred.stop == "cancel":
                self._end_turn(ended, blobs)
            elif any(not message.withdrawn for message in late):
                self._open_turn(_turn_of(late), ended, blobs)
            elif session.queue:
                self._open_turn(next_turn(session), ended, blobs)
            else:
                self._end_turn(ended, blobs)

    def _open_turn(self, opened: ev.TurnOpened, ended: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...]) -> None:
        """The agent is done, and there is something else to do. Under the journal's lock."""
        session = self.journal.session
        waits: tuple[ev.AnyEvent, ...] = ()
        if session.deferred is not None:  # a pause that has waited for this end: the next turn waits for its resume
            deferred = session.deferred
            ordinal = pause_id(session.pauses + 1)
            pause = ev.PauseRequested(pause=ordinal, by=deferred.by, reason=deferred.reason, lapses=deferred.lapses)
            waits = (pause, ev.SessionPaused())
        self.journal.append(*ended, opened, *waits, blobs=blobs)
        self._heard = self._task.ending = None
        self._soon(self.react)

    def _let_go(self, *events: ev.AnyEvent, blobs: tuple[Blob, ...] = (), seen: Position | None = None) -> None:
        """``seen``: what was known when the events were made; something more, and they are made anew."""
        seen = self.journal.session.position if seen is None else seen
        self._leaving = self._around.loop.create_task(self._leave(events, blobs, seen))

    async def _leave(self, events: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...], seen: Position) -> None:
        left = moved = False
        try:
            left = await self.journal.let_go(*events, blobs=blobs, seen=seen)
            moved = left or bool(await self.settle()) or self.session.position != seen
        except MidcourseError as error:
            log.warning("session %s: %s", self.id, error)
        except Exception:
            log.exception("session %s: a command could not be decided", self.id)
        finally:
            self._leaving = None
            if left:
                self._end()
            elif moved or self.journal.broken is not None:
                self.react()
            else:  # nothing is new: to try again at once would be to spin
                self._look_again("leave", _TRY_AGAIN)

    def _abandon(self) -> None:
        """The journal cannot be written: stop everything that lives, and leave the session as it lies in the store."""
        for call in list(self.gate.begun.values()):
            call.cut = True
            call.stop()
        if self._task.is_alive:
            self._task.take_down()
        elif not self.gate.has_calls and not self._start_task and not self._recovery and not self._rollback.is_running:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._around.admission.left(self.id)
        for timer in self._timers.values():
            timer.cancel()
        self._gone(self)


def _turn_of(late: tuple[Message, ...]) -> ev.TurnOpened:
    """What was said after the agent had returned opens a new turn, as it would a moment later."""
    said = [message for message in late if not message.withdrawn]
    text = "\n".join(message.text for message in said)
    return ev.TurnOpened(text=text, level=said[-1].level, by=said[-1].by, repeats=len(late))
