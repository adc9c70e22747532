"""The handle of one session: its verbs and what it tells, over a transport to an open store or to a server."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, Literal, TypeVar, overload

from midcourse.core import commands as cmd
from midcourse.core.codec import JSON
from midcourse.core.commands import Behaviour
from midcourse.core.effects import UndoChoice
from midcourse.core.events import AskOpened, Recorded, Verdict
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, Position, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention
from midcourse.core.missing_results import asks_nothing
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.request_checks import answer_value, check_command_id
from midcourse.core.session import ENDED, OpenAsk, Session, Status
from midcourse.core.signals import Signals
from midcourse.handle.transport import Transport
from midcourse.ports.bus import Delta

T_co = TypeVar("T_co", covariant=True)


class SessionHandle(Generic[T_co]):
    """One session: in this process, of another process on the same store, or of a server.

    Every control may raise ``Refused``, and changes nothing then. Over HTTP ``by`` is not sent: the server knows from
    the token who it is. A program that has the store open is its operator.
    """

    def __init__(self, session_id: SessionId, transport: Transport) -> None:
        self.id = session_id
        self._transport = transport

    def __repr__(self) -> str:
        return f"<SessionHandle of '{self.id}' at {self._transport}>"

    async def pause(
        self,
        reason: str = "",
        *,
        grace: float | None = None,
        lapses: float | None = None,
        until: Level = "stopping",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Stop, keeping the context. Tool calls in flight may finish, for ``grace`` seconds if given; streams are cut.

        With ``lapses`` it lifts itself after so many seconds; send it again to have it last longer, or once more
        without it to stay paused.

        The answer comes when the gate is shut (``until="stopped"``: when nothing runs), at the latest after ``wait``
        seconds, with what is known by then. ``command_id`` makes a retry the same command.
        """
        seconds = cmd.finite(grace)
        command = cmd.Pause(id=self._command_id(command_id), by=by, reason=reason, grace=seconds, lapses=lapses)
        return await self._transport.send(self.id, command, until=until, wait=wait)

    async def resume(
        self,
        pause: str | None = None,
        *,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Continue after a pause, or try a failed session again.

        ``pause`` names the pause to lift, so that a late resume lifts no later one.
        """
        named = PauseId(pause) if pause is not None else None
        command = cmd.Resume(id=self._command_id(command_id), by=by, pause=named)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def redirect(
        self,
        text: str,
        *,
        level: RedirectLevel = "step",
        grace: float | None = None,
        resume: bool = False,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Change the course. The instruction is durable at once and is what the agent's model sees next.

        A paused session keeps it for later, unless ``resume``; an ended one begins a new turn with it. A policy may
        want corrections (all but another goal) to be short.
        """
        seconds = cmd.finite(grace)
        command = cmd.Redirect(
            id=self._command_id(command_id),
            by=by,
            text=text,
            level=level,
            grace=seconds,
            resume=resume,
        )
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def cancel(
        self,
        reason: str = "",
        *,
        grace: float = 2.0,
        undo: UndoChoice | None = None,
        force: bool = False,
        restart: bool = False,
        until: Level = "stopping",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """End the session. Calls in flight may run for ``grace`` seconds; the receipt shows their outcome.

        ``undo``: roll back what is ``in-flight`` and release what is held (the default); ``all`` also what had
        finished, newest first, children first; ``none`` only stops. A second cancel may only be firmer. :meth:`preview`
        shows beforehand what each would do. A protected session finishes its turn first, unless it is ended half-way
        with ``force``: what it had reached is discarded. With ``restart`` as well, a new session begins the same anew.
        """
        command = cmd.Cancel(
            id=self._command_id(command_id),
            by=by,
            reason=reason,
            grace=cmd.LONGEST_GRACE if cmd.finite(grace) is None else grace,
            undo=undo,
            force=force,
            restart=restart,
        )
        return await self._transport.send(self.id, command, until=until, wait=wait)

    async def undo(
        self, reason: str = "", *, wait: float = 60.0, by: str = "local", command_id: str | None = None
    ) -> Receipt:
        """Roll back every effect of a session that has ended, newest first, as far as it can be.

        The receipt is provisional if it takes longer than ``wait`` seconds; it continues all the same.
        """
        command = cmd.Undo(id=self._command_id(command_id), by=by, reason=reason)
        return await self._transport.undo(self.id, command, wait=wait)

    async def preview(self, *, force: bool = False, restart: bool = False) -> Mapping[UndoChoice, Receipt]:
        """Preview what a cancel would make of each effect, by its ``undo``, if all goes well. Nothing is changed.

        ``force`` and ``restart``: what one with these would; ``begins_anew`` says whether a new session would begin.

        Raises:
            Refused: a cancel with ``force`` would be refused.
        """
        return await self._transport.preview(self.id, force=force, restart=restart)

    async def answer(
        self,
        value: JSON,
        *,
        ask: str | None = None,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Answer an ask; without ``ask`` the only one that is open. A child's is named ``child/ask``."""
        named = AskId(ask) if ask is not None else None
        command = cmd.Answer(id=self._command_id(command_id), by=by, value=answer_value(value), ask=named)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def message(
        self,
        text: str,
        *,
        behaviour: Behaviour = "enqueue",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say something. A session that has ended begins a new turn with it.

        One that works does what ``behaviour`` says: ``enqueue`` keeps it until this turn has completed, ``redirect``
        changes the course now, ``reject`` refuses it. The answer's ``message`` names it, to edit or withdraw it.
        """
        command = cmd.Message(id=self._command_id(command_id), by=by, text=text, behaviour=behaviour)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def edit(
        self, message: str, text: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say a redirect or a queued message in other words, as long as the model has not seen it."""
        command = cmd.Edit(id=self._command_id(command_id), by=by, message=MessageId(message), text=text)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def withdraw(
        self, message: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Take a redirect or a queued message back, as long as the model has not seen it."""
        command = cmd.Withdraw(id=self._command_id(command_id), by=by, message=MessageId(message))
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def event(
        self,
        text: str,
        *,
        source: str = "",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Tell it of an event outside, so that what it assumes may no longer hold.

        What its model is saying is cut, open asks are superseded, and the event is what the model sees next.
        """
        command = cmd.OutsideEvent(id=self._command_id(command_id), by=by, text=text, source=source)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def raise_budget(
        self,
        budget: float,
        *,
        resume: bool = True,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Raise the session's budget, in dollars, and continue it if it is paused."""
        command = cmd.Budget(id=self._command_id(command_id), by=by, budget=budget, resume=resume)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def label(
        self,
        about: str,
        verdict: Verdict,
        note: str = "",
        *,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say whether it was right to step in: ``right``, ``wrong`` or ``unsure``. The last word counts.

        ``about`` names an intervention (``int_3``), or what a person did: a pause or a message. A signal that was wrong
        too often does not interrupt this agent any more.
        """
        command = cmd.Label(id=self._command_id(command_id), by=by, about=about, verdict=verdict, note=note)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def rate(
        self, score: int, note: str = "", *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say how content you are with a session that has ended, from 1 to 5. The last word counts."""
        command = cmd.Rate(id=self._command_id(command_id), by=by, score=score, note=note)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def interventions(self) -> Sequence[Intervention]:
        """Return the interventions of policies, and of the agent itself, oldest first, with their reasons."""
        return await self._transport.interventions(self.id)

    async def signals(self) -> Signals:
        """Return each signal with its thresholds and its history, measured as the session's policy does."""
        return await self._transport.signals(self.id)

    def _command_id(self, given: str | None) -> CommandId:
        return CommandId(f"cmd_{self._transport.clock.fresh_id()}" if given is None else check_command_id(given))

    async def state(self) -> Session:
        """Return the session by its journal: status, messages, open calls and asks, plan, cost."""
        return await self._transport.state(self.id)

    async def status(self) -> Status:
        return await self._transport.status(self.id)

    @overload
    def watch(
        self,
        after: int = 0,
        *,
        deltas: Literal[False] = False,
        follow: bool = False,
    ) -> AsyncIterator[Recorded]: ...
    @overload
    def watch(self, after: int = 0, *, deltas: bool, follow: bool = False) -> AsyncIterator[Recorded | Delta]: ...
    def watch(self, after: int = 0, *, deltas: bool = False, follow: bool = False) -> AsyncIterator[Any]:
        """Yield every event after a position, once and in order, as it becomes durable, until the session ends.

        Come back with the last ``position`` seen to miss nothing. ``deltas`` adds previews of streamed text, which have
        no position; ``follow`` continues into later turns.
        """
        return self._transport.watch(self.id, after=Position(after), deltas=deltas, follow=follow)

    async def next_ask(self, timeout: float | None = None) -> OpenAsk:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """Return the oldest open ask, once there is one: its id, reason, prompt and options.

        Raises:
            SessionEnded: the session ended, and asks nothing any more.
            TimeoutError: there is no ask in time. The session continues.
        """
        async with self._transport.clock.timeout(timeout):
            while True:
                session = await self.state()
                if session.asks:
                    return session.asks[0]
                if session.status in ENDED:
                    raise asks_nothing(session)
                seen = self._transport.watch(self.id, after=session.position, deltas=False, follow=False)
                async with aclosing(seen):
                    async for event in seen:
                        if isinstance(event, Recorded) and isinstance(event.event, AskOpened):
                            break

    async def result(self, timeout: float | None = None) -> T_co:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """Return the agent's result, once it has one.

        Raises:
            SessionEnded: it was cancelled, or failed; the sentence says why.
            TimeoutError: it has not ended in time. The session continues.
        """
        async with self._transport.clock.timeout(timeout):
            return await self._transport.result(self.id)

    async def inspect(self, at: int | None = None) -> Inspection:
        """Return the session as it was at a journal position: messages, plan, steps, open calls and asks, state."""
        return await self._transport.inspect(self.id, at)

    async def fork(
        self, at: int | None = None, *, session_id: str | None = None, paused: bool = False, by: str = "local"
    ) -> "SessionHandle[T_co]":
        """Make a new session that continues from a point of this one: its last checkpoint, or the position ``at``.

        What had finished by then is not done again; what was in flight is. ``paused`` lets you redirect it first.
        """
        new = await self._transport.fork(self.id, at, new=session_id, paused=paused, by=by)
        return SessionHandle(new, self._transport)

    async def lift(self, *, wait: float = 10.0, by: str = "local", command_id: str | None = None) -> Reply:
        """Lift what halted it (a restore, a kill switch that was lifted): it is back where it was. An operator's."""
        command = cmd.Lift(id=self._command_id(command_id), by=by)
        return await self._transport.send(self.id, command, until="decided", wait=wait)

    async def erase(self, reason: str = "", *, children: bool = False, by: str = "local") -> Session:
        """Erase what anybody wrote in a session that has ended: goal, messages, arguments, results, answers, …

        Its shape stays: when what happened, states, costs, the names of agents, tools and steps, who did what. With
        ``children`` its children are erased, too. ``reason`` says why, and stays. It cannot be taken back, and nothing
        can be done with the session any more. What lay on the disk is gone after ``midcourse store compact``.

        Raises:
            Refused: it, or a child, has not ended; nothing is erased then.
        """
        return await self._transport.erase(self.id, reason, children=children, by=by)

    async def receipt(self) -> Receipt:
        """Return the outcome of each effect: undone, kept, cannot be undone, …, unknown. Print it for a table."""
        return await self._transport.receipt(self.id)
