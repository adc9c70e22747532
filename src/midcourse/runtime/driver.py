"""Drives one session: decides its inbox, runs its agent, and makes what is alive match what the journal says.

``settle`` decides commands, on whichever thread they arrive, under the journal's lock. ``react`` then acts, on the
agent's loop, by looking at the folded state alone: it may run any number of times, and what it missed it does the next.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import Blob, decode, value_of
from midcourse.core.decisions import decide, expire
from midcourse.core.ids import CommandId, SessionId, StepId, ask_id
from midcourse.core.session import ENDED, Status
from midcourse.core.steps import step_id
from midcourse.errors import AgentUnavailable, Damaged, Diverged, Interrupt, MidcourseError, Refused
from midcourse.ports.store import Deciding, InboxRow
from midcourse.runtime.agent_task import AgentTask, Failed, Returned
from midcourse.runtime.agents import Agent
from midcourse.runtime.calls import RunningCall
from midcourse.runtime.children import Children
from midcourse.runtime.gate import LETS_RUN, Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of
from midcourse.runtime.outcomes import Outcome, encode_outcome, refusal
from midcourse.runtime.run import INTERRUPT, Run
from midcourse.runtime.steps import Steps
from midcourse.runtime.surroundings import Surroundings
from midcourse.runtime.watchdog import Blocked, task_name

log = logging.getLogger("midcourse")

CUTS_STREAMS: Final = (ev.PauseRequested, ev.CancelRequested, ev.SessionHalted, ev.SessionRedirected)
RESTS: Final = frozenset({Status.PAUSED, Status.WAITING, Status.HALTED})
NEW_VERSION: Final = "version"
APPROVALS: Final = ("yes", "approve", "true", True)


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
    ) -> None:
        self.journal = journal
        self.gate = Gate(journal, is_fresh=around.is_fresh, stood=self.react)
        self._agent = agent
        self._unavailable = unavailable
        self._sponsor = sponsor
        self._around = around
        self._gone = gone
        self._task = AgentTask(self.gate, cleanup=around.settings.cleanup, moved=self.react)
        self._children = Children(journal, self.gate, around.tree, moved=self.react)
        self._steps = Steps(journal, self.gate, around, moved=self.react, diverged=self._diverged)
        self._over = False
        self._decided_through = 0
        self._leaving: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._rests_since: float | None = None
        self._last_run_call = around.clock.monotonic()
        self._silence_told = False
        self._in_flight_at_cancel: dict[StepId, str] = {}

    @property
    def id(self) -> SessionId:
        """The session's id."""
        return self.journal.session.id

    # ---- deciding, on any thread

    async def settle(self) -> dict[CommandId, Outcome]:
        """Decide every undecided command, in inbox order; return what was decided here, once it is durable."""
        outcomes: dict[CommandId, Outcome] = {}
        written: list[Awaitable[None]] = []
        for row in await self._around.store.undecided(self.id):
            with self.journal.lock:
                if self.journal.leaving or self.journal.broken or row.seq <= self._decided_through:
                    continue
                outcome, append = self._decide(row)
                self._decided_through = row.seq
            outcomes[row.id] = outcome
            written.append(append)
        if written:
            self.wake()
            await asyncio.gather(*written)
        return outcomes

    def _decide(self, row: InboxRow) -> tuple[Outcome, Awaitable[None]]:
        """Decide one row and append what it makes. Under the lock, so that the calls it lists are all there are."""
        session = self.journal.session
        events: tuple[ev.AnyEvent, ...] = ()
        try:
            command = cmd.decode_command(row.content)
            if self._unavailable is not None and isinstance(command, cmd.Resume):
                raise self._unavailable
            events = decide(session, command)
        except (Refused, Damaged, AgentUnavailable) as error:
            outcome = refusal(error, session.status.value, session.position)
        else:
            if any(isinstance(event, CUTS_STREAMS) for event in events):
                events = (*self._cut_streams(), *events)
            if any(isinstance(event, ev.CancelRequested) for event in events):
                self._in_flight_at_cancel |= {call.step: call.name for call in self.gate.begun.values()}
            ahead = self.journal.after(*events)
            outcome = Outcome(
                status=ahead.status.value,
                position=ahead.position,
                pause=ahead.pause.id if ahead.pause else None,
                running=self.running(),
                unknown=ahead.lost,
            )
        return outcome, self.journal.append(*events, deciding=Deciding(row.id, encode_outcome(outcome)))

    def _cut_streams(self) -> tuple[ev.AnyEvent, ...]:
        """No token after this: each stream's tail becomes a segment, in the append that answers the stop."""
        tails: list[ev.AnyEvent] = []
        for call in self.gate.begun.values():
            if call.kind == "model" and not call.cut:
                call.cut = True
                tails.extend(call.take_tail())
        return tuple(tails)

    def shut(self) -> None:
        """A stop is on its way: nothing begins until it is decided. Before anything is written, on any thread."""
        with self.journal.lock:
            self.gate.stops_on_the_way += 1

    def unshut(self) -> None:
        """The stop has been decided or refused: the status alone speaks again. On any thread."""
        with self.journal.lock:
            self.gate.stops_on_the_way -= 1
        self.wake()

    def running(self) -> tuple[RunningCall, ...]:
        """Everything of the session that has begun and has not ended. On any thread."""
        with self.journal.lock:
            now = self._around.clock.monotonic()
            calls = [call.running(now) for call in self.gate.begun.values()]
            if self._task.is_in_its_own_code:
                seconds = round(max(0.0, now - self._last_run_call), 3)
                calls.append(RunningCall(StepId("agent"), "the agent's own code", "agent", 1, seconds))
            return tuple(calls)

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
        if self._over or self._leaving is not None:
            return
        if self.journal.broken is not None:
            self._abandon()
            return
        self._expire_asks()
        self._stop_calls()
        status = self.journal.session.status
        if status is Status.CANCELLING:
            self._finish_cancel()
        elif isinstance(self._task.ending, Failed) and status not in ENDED:
            self._fail(self._task.ending)
        elif status is Status.PAUSING:
            self._finish_pause()
        elif status in LETS_RUN or status is Status.QUEUED:
            self._go_on()
        self._let_go_if_nothing_lives()

    def _go_on(self) -> None:
        """Running, as far as the session is concerned: start the agent, or let it pass the gate."""
        if isinstance(self._task.ending, Interrupt):
            self._ask_for_agent(self._task.ending)
        if self._unavailable is not None and self._task.ending is None:
            self.fail(self._unavailable.code, self._unavailable.message)
        if self._agent is None or self.gate.draining or not self._is_let_in(self._agent):
            return
        if self._task.is_alive:
            self.gate.look_again()
            self._soon(self._say_if_waiting)
        # Cold and waiting, it lies in the store until somebody answers: to start it would undo its parking.
        elif (
            self._task.ending is None
            and self._starting is None
            and self.journal.session.status is not Status.WAITING
            and self._may_start(self._agent)
        ):
            self._starting = self._around.loop.create_task(self._start(self._agent))

    def _is_let_in(self, agent: Agent[object]) -> bool:
        """Whether it is the session's turn. Only who has not begun waits for one, and a child goes with its parent."""
        session = self.journal.session
        if session.parent is not None:
            return session.status is not Status.QUEUED or self._sponsor is not None
        if session.status is Status.QUEUED:
            return self._around.admission.let_in(self, agent.name)
        self._around.admission.entered(self.id)
        return True

    def _soon(self, act: Callable[[], None]) -> None:
        """After those who were woken have had their chance to go on."""
        loop = self._around.loop
        loop.call_soon(loop.call_soon, act)

    def _say_if_waiting(self) -> None:
        with self.journal.lock:
            if self.journal.session.status is Status.RUNNING and self.gate.is_open and self.gate.only_asking:
                self.journal.note(ev.SessionWaiting())
        self.react_to_rest()

    def react_to_rest(self) -> None:
        """Look whether the session has come to rest since."""
        if not self._over and self._leaving is None and self.journal.broken is None:
            self._let_go_if_nothing_lives()

    def _stop_calls(self) -> None:
        """Abort the calls whose grace is over; look again when the next one's will be."""
        now = self._around.clock.now()
        later: list[float] = []
        for call in list(self.gate.begun.values()):
            deadline = (
                0.0 if call.cut else self._child_deadline() if call.kind == "child" else self._deadline(call.step)
            )
            if deadline is not None and deadline <= now:
                call.stop()
            elif deadline is not None:
                later.append(deadline)
        if later:
            self._look_again("grace", min(later) - now)

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
        self._timers[why] = self._around.loop.call_later(max(0.0, delay), self.react)

    def _expire_asks(self) -> None:
        now = self._around.clock.now()
        with self.journal.lock:
            for event in expire(self.journal.session, now):
                self.journal.note(event)
            deadlines = [ask.expires_at for ask in self.journal.session.asks if ask.expires_at is not None]
        if deadlines:
            self._look_again("asks", min(deadlines) - now)

    def _finish_pause(self) -> None:
        """Nothing runs, and the agent stands still: the pause is complete."""
        if not self._children.have_stopped() or self.gate.begun or self._task.is_in_its_own_code:
            return
        with self.journal.lock:
            session = self.journal.session
            if session.status is Status.PAUSING:
                unreached = tuple(sorted(self._children.unreached))
                self.journal.append(ev.SessionPaused(unknown=session.lost, unreached=unreached))

    def _finish_cancel(self) -> None:
        """Calls first, then the agent, then the receipt."""
        cancel = self.journal.session.cancel
        if not self._children.have_stopped() or self.gate.begun or cancel is None:
            return
        if self._task.is_alive:
            left = cancel.since + cancel.grace - self._around.clock.now()
            if self._task.is_in_its_own_code and left > 0:
                self._look_again("cancel", left)
            else:
                self._task.take_down()
            return
        ended = [ev.ReceiptLine(step, name, "ended") for step, name in self._in_flight_at_cancel.items()]
        lost = [ev.ReceiptLine(call.step, call.name, "unknown") for call in self.journal.session.calls.values()]
        unreached = tuple(sorted(self._children.unreached))
        self._let_go(ev.SessionCancelled(receipt=(*ended, *lost), unreached=unreached))

    def _fail(self, failure: Failed) -> None:
        if self.gate.begun or self._task.is_alive:  # what is in flight ends by itself; its result is kept
            return
        self._let_go(*self._closing(), ev.SessionFailed(code=failure.code, message=failure.message, step=failure.step))

    def _closing(self) -> tuple[ev.AnyEvent, ...]:
        return tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="withdrawn") for ask in self.journal.session.asks)

    # ---- the agent

    def _may_start(self, agent: Agent[object]) -> bool:
        """Whether the agent may run as it is here; a question or a failure says why not."""
        session = self.journal.session
        if self._is_asking_first():
            return False
        if session.agent_version == agent.version:
            return True
        before = f"version {session.agent_version}, and it is now {agent.version}"
        asked = self.journal.log.asks.get(step_id(session.scope, NEW_VERSION, agent.version))
        if agent.on_new_version == "ask" and asked is None:
            self._ask_first(
                step_id(session.scope, NEW_VERSION, agent.version),
                Interrupt("agent_changed", f"Agent '{agent.name}' began as {before}. Go on?"),
            )
            return False
        approved = asked is not None and asked.end == "answered" and decode(asked.value.raw) in APPROVALS
        if agent.on_new_version == "refuse" or (agent.on_new_version == "ask" and not approved):
            self.fail(
                "agent_changed",
                f"Session '{session.id}' began under agent '{agent.name}' {before}; going on was refused. "
                "Run it with the old code, or start a new session.",
            )
            return False
        with self.journal.lock:
            self.journal.note(ev.AgentChanged(before=session.agent_version, now=agent.version))
        return True

    async def _start(self, agent: Agent[object]) -> None:
        try:
            state = decode(await content_of(self._around.store, self.journal.log.state))
        except MidcourseError as error:
            self._task.end_with(Failed(error.code, error.message))
        else:
            if not self._begin():
                self._starting = None
                self._let_go()
                return
            self.touch()
            run = Run(
                self.journal,
                self.gate,
                self._steps,
                clock=self._around.clock,
                state=state,
                touch=self.touch,
            )
            name = task_name(self.id, "agent")
            self._task.start(agent.name, lambda: agent.function(run), lambda: run.state, task_name=name)
        finally:
            self._starting = None
        self.react()

    def _begin(self) -> bool:
        """Journal the start, if this is one. A child starts only while its parent's gate is open."""
        if self.journal.session.status is not Status.QUEUED:
            return True
        if self._sponsor is None:
            self._note_start()
            return True
        return self._sponsor.while_open(self._note_start)

    def _note_start(self) -> None:
        with self.journal.lock:
            if self.journal.session.status is Status.QUEUED:
                self.journal.note(ev.SessionStarted())

    def while_open(self, act: Callable[[], None]) -> bool:
        """Do it if the gate stands open, and tell whether it did."""
        with self.journal.lock:
            if not self.gate.is_open:
                return False
            act()
            return True

    def _ask_for_agent(self, interrupt: Interrupt) -> None:
        """The agent raised ``Interrupt``: ask, and start it again once there is an answer."""
        self._task.ending = None
        scope, asks = self.journal.session.scope, self.journal.log.asks
        ordinal = 1 + sum(step.startswith(f"{scope}/{INTERRUPT}#") for step in asks)
        self._ask_first(step_id(scope, INTERRUPT, ordinal), interrupt)

    def _ask_first(self, step: StepId, interrupt: Interrupt) -> None:
        with self.journal.lock:
            session = self.journal.session
            opened = ev.AskOpened(
                ask=ask_id(session.asks_opened + 1),
                step=step,
                reason=interrupt.reason,
                prompt=interrupt.prompt,
            )
            self.journal.note(opened)
            if session.status is Status.QUEUED:
                self.journal.note(ev.SessionStarted())
            if self.journal.session.status is Status.RUNNING:
                self.journal.note(ev.SessionWaiting())

    def _is_asking_first(self) -> bool:
        """Whether an ask is open that the agent cannot be started without."""
        scope = self.journal.session.scope
        first = (f"{scope}/{INTERRUPT}#", f"{scope}/{NEW_VERSION}#")
        return any(ask.step.startswith(first) for ask in self.journal.session.asks)

    def fail(self, code: str, message: str) -> None:
        """The session cannot go on; it says why once nothing of it runs."""
        self._task.end_with(Failed(code, message))
        self._soon(self.react)

    def _diverged(self, error: Diverged) -> None:
        self._task.end_with(Failed(error.code, error.message))
        self._task.take_down()

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
        self.gate.draining, self.gate.drain_until = True, until
        self.react()

    def _let_go_if_nothing_lives(self) -> None:
        """Park what has rested long enough, and let a session go once nothing of it is in memory."""
        session = self.journal.session
        if session.status in RESTS:
            self._around.admission.left(self.id)
        if self.gate.begun or self._starting is not None:
            return
        if self._task.is_alive:
            self._consider_parking()
            return
        match session.status:
            case Status.HALTED if not self._children.have_stopped():
                pass
            case Status.PAUSED | Status.WAITING | Status.HALTED:
                self.journal.save_snapshot()
                self._let_go(ev.SessionParked())
            case Status.QUEUED | Status.RUNNING:
                if isinstance(self._task.ending, Returned) and session.status is Status.RUNNING:
                    self._complete(self._task.ending)
                elif self.gate.draining:
                    self._let_go(ev.SessionParked())
                elif (self._agent is None and self._unavailable is None) or self._waits_for_its_parent():
                    self._let_go()
            case Status.COMPLETED | Status.FAILED | Status.CANCELLED:
                self._let_go()
            case _:
                pass

    def _waits_for_its_parent(self) -> bool:
        session = self.journal.session
        return session.parent is not None and session.status is Status.QUEUED and self._sponsor is None

    def _consider_parking(self) -> None:
        """A warm session that has rested long enough is taken down, to be started cold when it is resumed."""
        now = self._around.clock.monotonic()
        if self.gate.draining and (
            not self._task.is_in_its_own_code or self.gate.drain_until <= self._around.clock.now()
        ):
            self._task.take_down()
        elif self.gate.draining:
            self._look_again("drain", self.gate.drain_until - self._around.clock.now())
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
        blobs = tuple(one for one in (blob, another) if one is not None)
        woken = (ev.SessionWoken(),) if self.journal.session.status is Status.WAITING else ()
        self._let_go(*woken, *self._closing(), ev.SessionCompleted(result=result, state=state), blobs=blobs)

    def _let_go(self, *events: ev.AnyEvent, blobs: tuple[Blob, ...] = ()) -> None:
        self._leaving = self._around.loop.create_task(self._leave(events, blobs))

    async def _leave(self, events: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...]) -> None:
        left = False
        try:
            left = await self.journal.let_go(*events, blobs=blobs)
            if not left:
                await self.settle()
        except MidcourseError as error:
            log.warning("session %s: %s", self.id, error)
        finally:
            self._leaving = None
            self._end() if left else self.react()

    def _abandon(self) -> None:
        """The journal cannot be written: stop everything that lives, and leave the session as it lies in the store."""
        for call in list(self.gate.begun.values()):
            call.cut = True
            call.stop()
        if self._task.is_alive:
            self._task.take_down()
        elif not self.gate.begun and self._starting is None:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._around.admission.left(self.id)
        for timer in self._timers.values():
            timer.cancel()
        self._gone(self)
