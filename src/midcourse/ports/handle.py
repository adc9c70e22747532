"""The verbs of a session, whoever carries them out: this process on an open store, or a server over HTTP.

``midcourse.api`` and ``midcourse.client`` both fit these protocols; a test compares their signatures.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

from midcourse.core.artifacts import Artifact
from midcourse.core.audit import Audited
from midcourse.core.bulk import BulkOutcome, BulkVerb
from midcourse.core.codec import JSON
from midcourse.core.commands import Behaviour
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.events import Recorded, Verdict
from midcourse.core.ids import SessionId
from midcourse.core.inbox import HandOver, Inbox, InboxAsk
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention, LabelFilter, LabelledAlarm
from midcourse.core.policy.restraint import Batch
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.session import OpenAsk, Session, Status
from midcourse.core.signals import Signals
from midcourse.core.switches import Released, Scope, SwitchPreview, SwitchReport
from midcourse.core.tenants import DEFAULT
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
        force: bool = False,
        restart: bool = False,
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

    async def preview(self, *, force: bool = False, restart: bool = False) -> Mapping[UndoChoice, Receipt]:
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

    async def signals(self) -> Signals:
        """Each signal with its thresholds and its history."""
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
        self, at: int | None = None, *, session_id: str | None = None, paused: bool = False, by: str = "local"
    ) -> "Handle[T_co]":
        """A new session that goes on from a point of this one."""
        ...

    async def receipt(self) -> Receipt:
        """What became of each effect."""
        ...

    async def lift(self, *, wait: float = 10.0, by: str = "local", command_id: str | None = None) -> Reply:
        """Lift what halted it: it is back where it was. An operator's."""
        ...

    async def erase(self, reason: str = "", *, children: bool = False, by: str = "local") -> Session:
        """Erase what anybody wrote in a session that has ended, and with ``children`` in theirs."""
        ...


class Switches(Protocol):
    """The kill switches of a store or a server. An operator's."""

    async def preview(self, scope: Scope) -> SwitchPreview:
        """How many sessions a switch would halt now, by their status; and whether its name is known here."""
        ...

    async def throw(self, scope: Scope, reason: str, *, by: str = "local", wait: float = 5.0) -> SwitchReport:
        """Halt everything in ``scope``, and keep it halted."""
        ...

    async def reports(self, *, limit: int = 20) -> Sequence[SwitchReport]:
        """The switches, those that stand first, each with the sessions that it holds."""
        ...

    async def report(self, switch: str) -> SwitchReport:
        """A switch, and what is known now of every session that it holds, or should."""
        ...

    async def lift(self, switch: str, why: str, *, by: str = "local") -> SwitchReport:
        """End a switch. The sessions that it halted stay halted."""
        ...

    async def release(
        self, switch: str, sessions: Sequence[str] | None = None, *, by: str = "local", wait: float = 5.0
    ) -> Sequence[Released]:
        """Let the sessions that a lifted switch had halted go back to where they were."""
        ...


class Sessions(Protocol):
    """All sessions of a store or a server."""

    @property
    def kill_switch(self) -> Switches:
        """The operator's standing halts."""
        ...

    async def start(
        self,
        agent: str,
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
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
        tenant: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Head]:
        """Sessions, newest first. Page on with ``before``: the last id seen."""
        ...

    async def bulk(
        self,
        verb: BulkVerb,
        sessions: Sequence[str],
        *,
        reason: str = "",
        grace: float | None = None,
        by: str = "local",
    ) -> Sequence[BulkOutcome]:
        """Pause, resume, cancel or lift many sessions; what became of each, in their order."""
        ...

    async def audit(
        self,
        after: int = 0,
        limit: int = 100,
        *,
        session: str | None = None,
        since: float | None = None,
        tenant: str | None = None,
        before: int | None = None,
    ) -> Sequence[Audited]:
        """Who wished or did what to which session, oldest first; with ``before`` the last ones before that entry."""
        ...

    def audit_export(
        self, *, session: str | None = None, since: float | None = None, tenant: str | None = None
    ) -> AsyncIterator[bytes]:
        """The same as a file that proves itself, in pieces."""
        ...

    async def interventions(
        self,
        *,
        since: float | None = None,
        agent: str | None = None,
        label: LabelFilter | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[LabelledAlarm]:
        """Interventions over all sessions, newest first."""
        ...

    async def alarms(
        self,
        person: str | None = None,
        *,
        gather: float | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[Batch]:
        """The same as people are told of them: what interrupts at once, the rest in batches."""
        ...

    async def artifacts(
        self, *, session: str | None = None, due: bool = False, limit: int = 100, tenant: str | None = None
    ) -> Sequence[Artifact]:
        """What agents told they made, the most urgent first."""
        ...

    async def reviewed(self, session_id: str, name: str, documentation: str = "", *, by: str = "local") -> Artifact:
        """Say that you have looked at an artifact, and what it is."""
        ...

    async def inbox(self, *, by: str = "local") -> Inbox:
        """What waits for people: asks by deadline, alarms in batches."""
        ...

    async def own(self, session_id: str, ask: str, owner: str | None = None, *, by: str = "local") -> InboxAsk:
        """Take an open ask, or give it to somebody."""
        ...

    async def hand_over(self, to: str, seconds: float = 3600.0, *, by: str = "local") -> HandOver:
        """Let somebody stand in for a while."""
        ...
