"""All sessions of a store or a server, and their kill switches."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeVar

from midcourse.core.audit import Audited
from midcourse.core.bulk import BulkOutcome, BulkVerb
from midcourse.core.interventions import LabelFilter, LabelledAlarm
from midcourse.core.switches import Released, Scope, SwitchPreview, SwitchReport
from midcourse.core.tenants import DEFAULT
from midcourse.core.terms import Terms
from midcourse.handle.session import SessionHandle
from midcourse.people.inbox_rules import HandOver, Inbox, InboxAsk
from midcourse.policy.artifacts import Artifact
from midcourse.policy.restraint import Batch
from midcourse.ports.store import Head

T_co = TypeVar("T_co", covariant=True)


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
    ) -> SessionHandle[Any]:
        """Give an agent a goal."""
        ...

    async def get(self, session_id: str) -> SessionHandle[Any]:
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
