"""The verbs of a session, whoever carries them out: this process on an open store, or a server over HTTP.

``midcourse.api`` and ``midcourse.client`` both fit these protocols; a test compares their signatures.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

from midcourse.core.audit import Audited
from midcourse.core.codec import JSON
from midcourse.core.commands import Behaviour
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.events import Recorded, Verdict
from midcourse.core.ids import SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention, LabelFilter, LabelledAlarm
from midcourse.core.policy.restraint import Batch
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.session import OpenAsk, Session, Status
from midcourse.core.terms import Terms
from midcourse.ports.bus import Delta
from midcourse.ports.store import Head

T_co = TypeVar("T_co", covariant=True)


class Handle(Protocol[T_co]):
    """One session: look at it and steer it. Every control may raise ``Refused``, and changes nothing then."""

    @property
    def id(self) -> SessionId:
        """The session's id."""
        ...

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
        """Stop, keeping the context."""
        ...

    async def resume(
        self, pause: str | None = None, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Go on after a pause, or try a failed session again."""
        ...

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
        """Change the course."""
        ...

    async def cancel(
        self,
        reason: str = "",
        *,
        grace: float = 2.0,
        undo: UndoChoice | None = None,
        until: Level = "stopping",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """End the session."""
        ...

    async def undo(
        self, reason: str = "", *, wait: float = 60.0, by: str = "local", command_id: str | None = None
    ) -> Receipt:
        """Roll back every effect of a session that has ended."""
        ...

    async def preview(self) -> Mapping[UndoChoice, Receipt]:
        """What a cancel would make of each effect, by its ``undo``. Nothing is changed."""
        ...

    async def answer(
        self,
        value: JSON,
        *,
        ask: str | None = None,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Answer an ask; without ``ask`` the only one that is open."""
        ...

    async def message(
        self,
        text: str,
        *,
        behaviour: Behaviour = "enqueue",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say something: a new turn of a session that has ended; else what ``behaviour`` says."""
        ...

    async def edit(
        self, message: str, text: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say a message in other words, as long as the model has not seen it."""
        ...

    async def withdraw(
        self, message: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Take a message back, as long as the model has not seen it."""
        ...

    async def event(
        self,
        text: str,
        *,
        source: str = "",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Tell it of an event outside."""
        ...

    async def raise_budget(
        self,
        budget: float,
        *,
        resume: bool = True,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Let it cost more, in dollars."""
        ...

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
        """Say whether it was right to step in."""
        ...

    async def rate(
        self, score: int, note: str = "", *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say how content you are with a session that has ended, from 1 to 5."""
        ...

    async def interventions(self) -> Sequence[Intervention]:
        """What policies, and the agent itself, have stepped in with."""
        ...

    async def state(self) -> Session:
        """The session as its journal tells it."""
        ...

    async def status(self) -> Status:
        """Where it stands."""
        ...

    @overload
    def watch(
        self, after: int = 0, *, deltas: Literal[False] = False, follow: bool = False
    ) -> AsyncIterator[Recorded]: ...
    @overload
    def watch(self, after: int = 0, *, deltas: bool, follow: bool = False) -> AsyncIterator[Recorded | Delta]: ...
    def watch(self, after: int = 0, *, deltas: bool = False, follow: bool = False) -> AsyncIterator[Any]:
        """Every event after a position, once and in order, until the session ends."""
        ...

    async def next_ask(self, timeout: float | None = None) -> OpenAsk:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """The ask that has been open for longest, once there is one."""
        ...

    async def result(self, timeout: float | None = None) -> T_co:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """What the agent returned, once it has."""
        ...

    async def inspect(self, at: int | None = None) -> Inspection:
        """The session as it was at a journal position."""
        ...

    async def fork(
        self, at: int | None = None, *, session_id: str | None = None, paused: bool = False
    ) -> "Handle[T_co]":
        """A new session that goes on from a point of this one."""
        ...

    async def receipt(self) -> Receipt:
        """What became of each effect."""
        ...


class Sessions(Protocol):
    """All sessions of a store or a server."""

    async def start(
        self,
        agent: str,
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
    ) -> Handle[Any]:
        """Give an agent a goal."""
        ...

    async def get(self, session_id: str) -> Handle[Any]:
        """A session that exists."""
        ...

    async def list(
        self,
        *,
        status: Sequence[str] = (),
        agent: str | None = None,
        search: str = "",
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Head]:
        """Sessions, newest first. Page on with ``before``: the last id seen."""
        ...

    async def audit(self, after: int = 0, limit: int = 100) -> Sequence[Audited]:
        """Who wished or did what to which session, oldest first."""
        ...

    async def interventions(
        self,
        *,
        since: float | None = None,
        agent: str | None = None,
        label: LabelFilter | None = None,
        limit: int = 100,
    ) -> Sequence[LabelledAlarm]:
        """Interventions over all sessions, newest first."""
        ...

    async def alarms(
        self, person: str | None = None, *, gather: float | None = None, limit: int = 100
    ) -> Sequence[Batch]:
        """The same as people are told of them: what interrupts at once, the rest in batches."""
        ...
