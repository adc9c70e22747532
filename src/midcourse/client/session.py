"""A handle on one session of a server: the verbs, keyword arguments and answers of ``midcourse.SessionHandle``."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, Literal, TypeVar, overload
from urllib.parse import quote

import msgspec

from midcourse.client.bodies import WireId, WireInterventions, WireResult, inspection_of, previews_of, session_of
from midcourse.client.watching import watch
from midcourse.client.wire import Wire
from midcourse.core import commands as cmd
from midcourse.core.codec import JSON, encode, inline
from midcourse.core.commands import AnyCommand, Behaviour, check_command
from midcourse.core.effects import UndoChoice
from midcourse.core.endings import asks_nothing, without_result
from midcourse.core.events import AskOpened, Recorded, Verdict
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.requests import check_command_id, check_new_id, check_reason
from midcourse.core.session import ENDED, OpenAsk, Session, Status
from midcourse.core.signals import Signals
from midcourse.ports.bus import Delta

T_co = TypeVar("T_co", covariant=True)

LONGEST_WAIT: Final = 60.0
"""The most seconds that a server waits with one answer. Who wants to wait longer asks again."""
_FOREVER: Final = 366 * 24 * 3600.0
"""The longest grace that a server takes."""


class RemoteHandle(Generic[T_co]):
    """One session of a server.

    ``by`` is there for the sake of one interface and is not sent: the server knows from the token who it is.
    """

    def __init__(self, session_id: SessionId, wire: Wire) -> None:
        self.id = session_id
        self._wire = wire
        self._path = f"sessions/{quote(session_id, safe='')}"

    def __repr__(self) -> str:
        return f"<RemoteHandle of '{self.id}' at {self._wire.url}>"

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
        command = cmd.Pause(id=self._command_id(command_id), by=by, reason=reason, grace=_finite(grace), lapses=lapses)
        body = {"reason": reason, "grace": command.grace, "lapses": lapses, "until": until}
        return await self._control(command, body, until=until, wait=wait)

    async def resume(
        self, pause: str | None = None, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Go on after a pause, or try a failed session again.

        ``pause`` names the pause to lift, so that a late resume lifts no later one.
        """
        named = PauseId(pause) if pause is not None else None
        command = cmd.Resume(id=self._command_id(command_id), by=by, pause=named)
        return await self._control(command, {"pause": pause}, wait=wait)

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

        A paused session keeps it for later, unless ``resume``; an ended one begins a new turn with it.
        """
        command = cmd.Redirect(
            id=self._command_id(command_id), by=by, text=text, level=level, grace=_finite(grace), resume=resume
        )
        body = {"text": text, "level": level, "grace": command.grace, "resume": resume}
        return await self._control(command, body, wait=wait)

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
        """End the session. Calls in flight may go on for ``grace`` seconds; the receipt says what became of them.

        ``undo``: roll back what is ``in-flight`` and let go of what is held (the default); ``all`` also what had
        finished, newest first, children first; ``none`` only stops. A second cancel may only be firmer. A protected
        session finishes its turn first; an operator ends it half-way with ``force``, and with ``restart`` as well a
        new session begins the same anew.
        """
        seconds = _FOREVER if grace > _FOREVER else grace
        command = cmd.Cancel(
            id=self._command_id(command_id),
            by=by,
            reason=reason,
            grace=seconds,
            undo=undo,
            force=force,
            restart=restart,
        )
        body = {"reason": reason, "grace": seconds, "undo": undo, "force": force, "restart": restart, "until": until}
        return await self._control(command, body, until=until, wait=wait)

    async def undo(
        self, reason: str = "", *, wait: float = 60.0, by: str = "local", command_id: str | None = None
    ) -> Receipt:
        """Roll back every effect of a session that has ended, newest first, as far as it can be.

        The receipt is provisional if it takes longer than ``wait`` seconds; it goes on all the same.
        """
        command = cmd.Undo(id=self._command_id(command_id), by=by, reason=reason)
        deadline = self._wire.clock.monotonic() + wait
        while True:
            left = max(0.0, deadline - self._wire.clock.monotonic())
            await self._control(command, {"reason": reason}, wait=min(left, LONGEST_WAIT))
            receipt = await self.receipt()
            if receipt.final or left <= LONGEST_WAIT:
                return receipt

    async def preview(self, *, force: bool = False, restart: bool = False) -> Mapping[UndoChoice, Receipt]:
        """What a cancel would make of each effect, by its ``undo``, if all goes well. Nothing is changed.

        ``force`` and ``restart``: what one with these would; ``begins_anew`` says whether a new session would begin.

        Raises:
            Refused: a cancel with ``force`` would be refused.
        """
        given = {name: "true" for name, wanted in (("force", force), ("restart", restart)) if wanted}
        return previews_of(
            await self._wire.get(f"{self._path}/cancel/preview", dict[UndoChoice, Receipt], given or None)
        )

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
        content = encode(value, what="The answer")
        named = AskId(ask) if ask is not None else None
        command = cmd.Answer(id=self._command_id(command_id), by=by, value=inline(content), ask=named)
        return await self._control(command, {"value": msgspec.Raw(content), "ask": ask}, wait=wait)

    async def message(
        self,
        text: str,
        *,
        behaviour: Behaviour = "enqueue",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say something. A session that has ended begins a new turn with it; else it does what ``behaviour`` says."""
        command = cmd.Message(id=self._command_id(command_id), by=by, text=text, behaviour=behaviour)
        return await self._control(command, {"text": text, "behaviour": behaviour}, wait=wait)

    async def edit(
        self, message: str, text: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say a redirect or a queued message in other words, as long as the model has not seen it."""
        command = cmd.Edit(id=self._command_id(command_id), by=by, message=MessageId(message), text=text)
        return await self._change(command, "PATCH", message, {"text": text}, wait)

    async def withdraw(
        self, message: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Take a redirect or a queued message back, as long as the model has not seen it."""
        command = cmd.Withdraw(id=self._command_id(command_id), by=by, message=MessageId(message))
        return await self._change(command, "DELETE", message, None, wait)

    async def event(
        self,
        text: str,
        *,
        source: str = "",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Tell it of an event outside, so that what it assumes may no longer hold."""
        command = cmd.OutsideEvent(id=self._command_id(command_id), by=by, text=text, source=source)
        return await self._control(command, {"text": text, "source": source}, wait=wait)

    async def raise_budget(
        self,
        budget: float,
        *,
        resume: bool = True,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Let it cost more, in dollars, and go on with it if it is paused."""
        command = cmd.Budget(id=self._command_id(command_id), by=by, budget=budget, resume=resume)
        return await self._control(command, {"budget": budget, "resume": resume}, wait=wait)

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

        ``about`` names an intervention (``int_3``), or what a person did: a pause or a message.
        """
        command = cmd.Label(id=self._command_id(command_id), by=by, about=about, verdict=verdict, note=note)
        return await self._control(command, {"about": about, "verdict": verdict, "note": note}, wait=wait)

    async def rate(
        self, score: int, note: str = "", *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say how content you are with a session that has ended, from 1 to 5. The last word counts."""
        command = cmd.Rate(id=self._command_id(command_id), by=by, score=score, note=note)
        return await self._control(command, {"score": score, "note": note}, wait=wait)

    async def interventions(self) -> Sequence[Intervention]:
        """What policies, and the agent itself, have stepped in with, oldest first: why, and the arithmetic of it."""
        return (await self._wire.get(f"{self._path}/interventions", WireInterventions)).interventions

    async def signals(self) -> Signals:
        """Each signal with its thresholds and its history, measured from the journal as the session's policy does."""
        return await self._wire.get(f"{self._path}/signals", Signals)

    async def state(self) -> Session:
        """The session as its journal tells it: status, messages, open calls and asks, plan, cost."""
        return self._wire.reading(session_of, await self._wire.send("GET", self._path))

    async def status(self) -> Status:
        """Where it stands."""
        return (await self.state()).status

    @overload
    def watch(
        self, after: int = 0, *, deltas: Literal[False] = False, follow: bool = False
    ) -> AsyncIterator[Recorded]: ...
    @overload
    def watch(self, after: int = 0, *, deltas: bool, follow: bool = False) -> AsyncIterator[Recorded | Delta]: ...
    def watch(self, after: int = 0, *, deltas: bool = False, follow: bool = False) -> AsyncIterator[Any]:
        """Every event after a position, once and in order, as it becomes durable, until the session ends.

        A lost connection is made again, also to a server that was started anew. ``deltas`` adds previews of streamed
        text, which have no position; ``follow`` goes on into later turns.
        """
        return watch(self._wire, self._path, self.id, after=after, deltas=deltas, follow=follow)

    async def next_ask(self, timeout: float | None = None) -> OpenAsk:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """The ask that has been open for longest, once there is one: its id, reason, prompt and options.

        Raises:
            SessionEnded: the session ended, and asks nothing any more.
            TimeoutError: nothing is asked in time. It goes on.
        """
        async with asyncio.timeout(timeout):
            while True:
                session = await self.state()
                if session.asks:
                    return session.asks[0]
                if session.status in ENDED:
                    raise asks_nothing(session)
                seen = watch(self._wire, self._path, self.id, after=session.position, deltas=False, follow=False)
                async with aclosing(seen):
                    async for event in seen:
                        if isinstance(event, Recorded) and isinstance(event.event, AskOpened):
                            break

    async def result(self, timeout: float | None = None) -> T_co:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """What the agent returned, once it has, as JSON has it.

        Raises:
            SessionEnded: it was cancelled, or failed; the sentence says why.
            TimeoutError: it has not ended in time. It goes on.
        """
        async with asyncio.timeout(timeout):
            while True:
                wait = LONGEST_WAIT / 2
                told = await self._wire.get(f"{self._path}/result", WireResult, {"wait": wait}, wait=wait)
                if told.ended:
                    break
        if told.status == Status.COMPLETED:
            return told.result
        raise without_result(await self.state())

    async def inspect(self, at: int | None = None) -> Inspection:
        """The session as it was at a journal position: messages, plan, steps, calls and asks that were open, state."""
        parameters = {} if at is None else {"at": at}
        content = await self._wire.send("GET", f"{self._path}/inspect", parameters=parameters)
        return self._wire.reading(inspection_of, content)

    async def fork(
        self, at: int | None = None, *, session_id: str | None = None, paused: bool = False, by: str = "local"
    ) -> "RemoteHandle[T_co]":
        """A new session that goes on from a point of this one: its last checkpoint, or the journal position ``at``.

        What had finished by then is not done again; what was in flight is. ``paused`` lets you redirect it first.
        """
        body: dict[str, object] = {"at": at, "paused": paused}
        if session_id is not None:
            body["session_id"] = check_new_id(session_id)
        key = self._command_id(None) if session_id is None else None
        content = await self._wire.send("POST", f"{self._path}/fork", body=body, key=key)
        return RemoteHandle(self._wire.read(content, WireId).id, self._wire)

    async def receipt(self) -> Receipt:
        """What became of each effect: undone, kept, cannot be undone, …, unknown. Print it for a table."""
        return await self._wire.get(f"{self._path}/receipt", Receipt)

    async def lift(self, *, wait: float = 10.0, by: str = "local", command_id: str | None = None) -> Reply:
        """Lift what halted it (a restore, a kill switch that was lifted): it is back where it was. An operator's."""
        return await self.resume(wait=wait, by=by, command_id=command_id)

    async def erase(self, reason: str = "", *, children: bool = False, by: str = "local") -> Session:
        """Erase what anybody wrote in a session that has ended: goal, messages, arguments, results, answers, …

        Its shape stays, and who did what. With ``children`` theirs is erased, too. It cannot be taken back. ``by`` is
        known from the token.
        """
        parameters = {"reason": check_reason(reason), "children": children}
        content = await self._wire.send("DELETE", f"{self._path}/payloads", parameters=parameters)
        return self._wire.reading(session_of, content)

    async def _control(
        self, command: AnyCommand, body: Mapping[str, object], *, wait: float, until: Level = "decided"
    ) -> Reply:
        """Send a command, and again under the same id, as long as the caller waits for more than is known."""
        check_command(command)
        deadline = self._wire.clock.monotonic() + wait
        while True:
            left = max(0.0, deadline - self._wire.clock.monotonic())
            reply = await self._post(command, "POST", cmd.verb(command), body, min(left, LONGEST_WAIT))
            if left <= LONGEST_WAIT or reply.level == "stopped" or until != "stopped":
                return reply

    async def _change(
        self, command: AnyCommand, method: str, message: str, body: Mapping[str, object] | None, wait: float
    ) -> Reply:
        check_command(command)
        return await self._post(command, method, f"messages/{quote(message, safe='')}", body, min(wait, LONGEST_WAIT))

    async def _post(
        self, command: AnyCommand, method: str, path: str, body: Mapping[str, object] | None, wait: float
    ) -> Reply:
        sent = None if body is None else {**body, "wait": wait}
        content = await self._wire.send(method, f"{self._path}/{path}", body=sent, key=command.id, wait=wait)
        return self._wire.read(content, Reply)

    def _command_id(self, given: str | None) -> CommandId:
        return CommandId(f"cmd_{self._wire.clock.fresh_id()}" if given is None else check_command_id(given))


def _finite(grace: float | None) -> float | None:
    return None if grace is not None and grace > _FOREVER else grace
