"""An open store: start agents, find sessions, and what concerns many of them at once."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar, overload

from midcourse.core.audit import Audited
from midcourse.core.audit_export import Title
from midcourse.core.bulk import BulkOutcome, BulkVerb, check_bulk
from midcourse.core.choices import did_you_mean
from midcourse.core.commands import Role
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.interventions import LabelFilter, LabelledAlarm, check_alarms, check_interventions
from midcourse.core.replies import Durability, Reply
from midcourse.core.request_checks import check_audit, check_days, check_goal, check_limit, check_listing, check_text
from midcourse.core.session import Session
from midcourse.core.tenants import DEFAULT
from midcourse.core.terms import Terms, check_terms
from midcourse.errors import AgentUnavailable, InvalidInput
from midcourse.handle.bulk import bulk_command, send_to_each
from midcourse.handle.contact import with_contact
from midcourse.handle.kill_switch import KillSwitch
from midcourse.handle.local import LocalTransport, fresh_session_id
from midcourse.handle.session import SessionHandle
from midcourse.people.alarms import alarms_in_batches, interventions_in, waiting_beside_asks
from midcourse.people.inbox import PeopleInbox
from midcourse.people.inbox_rules import HandOver, Inbox, InboxAsk, check_hand_over, check_name
from midcourse.policy.artifact_shelf import read_artifacts, reviewed
from midcourse.policy.artifacts import Artifact, by_due, check_reviewed
from midcourse.policy.restraint import Batch
from midcourse.ports.sender import check_people_send
from midcourse.ports.store import Head, HeadQuery
from midcourse.runtime.agents import Agent
from midcourse.runtime.audit_log import audit_filter, audit_page, audit_page_before, export_audit, prune_audit
from midcourse.runtime.control import Control
from midcourse.upkeep.bulk_erasure import erase_sessions
from midcourse.upkeep.erasure import ended_before

T = TypeVar("T")


class Midcourse:
    """An open store. Made by :func:`open`.

    ``role`` is what its caller may do with sessions: whoever has the store open in a program is its operator.
    """

    def __init__(self, control: Control, role: Role = "operate") -> None:
        self._worker = control.worker
        self._control = control
        self._role: Role = role

    @property
    def durability(self) -> Durability:
        """What an answered command survives: nothing, the process being killed, or the power failing."""
        return self._worker.store.durability

    @property
    def kill_switch(self) -> KillSwitch:
        """The operator's standing halts over all sessions, an agent's, a label's or a tenant's."""
        return KillSwitch(self._control)

    @overload
    async def start(
        self,
        agent: Agent[T],
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> SessionHandle[T]: ...
    @overload
    async def start(
        self,
        agent: str,
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> SessionHandle[Any]: ...
    async def start(
        self,
        agent: "Agent[Any] | str",
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> "SessionHandle[Any]":
        """Give an agent a goal. It runs on the loop the store was opened on; the handle steers it.

        ``terms`` take the place of the agent's own, for this session. ``tenant`` is whose it is, and becomes part of
        its id: ``acme~sess_x``.
        """
        await check_people_send(self._worker.store, "start a session; it spawns children with run.spawn")
        check_goal(goal)
        identity = fresh_session_id(session_id, self._worker, tenant)
        wanted = terms and check_terms(terms)
        await self._worker.create(identity, self._resolve(agent), goal, terms=wanted, by=by, role=self._role)
        return SessionHandle(identity, LocalTransport(self._control, self._role))

    def _resolve(self, agent: "Agent[Any] | str") -> Agent[object]:
        if isinstance(agent, Agent):
            return agent
        if not isinstance(agent, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            kind = type(agent)
            raise InvalidInput(
                f"A {kind.__name__} of {kind.__module__.partition('.')[0]} is no agent of Midcourse. Wrap it first: "
                "'from midcourse.adapters.… import wrap', with pydantic_ai, langgraph or openai_agents for the dots. "
                "A function is decorated with @midcourse.agent.",
                field="agent",
            )
        known = self._worker.agents
        if agent not in known:
            names = ", ".join(sorted(known)) or "none"
            hint = did_you_mean(agent, known) or " A module that defines it must be imported first."
            raise AgentUnavailable(f"No agent '{agent}' is registered here.{hint} Registered: {names}.", agent=agent)
        return known[agent]

    async def get(self, session_id: str) -> SessionHandle[Any]:
        """A session that exists.

        Raises:
            SessionNotFound: it does not.
        """
        identity = SessionId(check_text(session_id, "session_id"))
        if self._worker.driver(identity) is None:
            await self._worker.must_exist(identity)
        return SessionHandle(identity, LocalTransport(self._control, self._role))

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
        """Sessions, newest first; ``search`` looks into id, agent and goal. Page on with ``before``, the last id.

        ``tenant``: those of one; left out, those of all; ``""`` are those of none.
        """
        check_listing(status, limit)
        heads = await self._worker.store.heads(
            HeadQuery(
                statuses=tuple(status),
                agent=agent,
                search=search,
                tenant=tenant,
                limit=limit,
                before=None if before is None else SessionId(before),
            )
        )
        worker = self._worker
        return await with_contact(worker.store, heads, worker.clock.now(), worker.settings.unreachable_after)

    async def bulk(
        self,
        verb: BulkVerb,
        sessions: Sequence[str],
        *,
        reason: str = "",
        grace: float | None = None,
        by: str = "local",
    ) -> Sequence[BulkOutcome]:
        """Pause, resume, cancel or lift many sessions; what became of each, in their order. One refusal stops no other.

        Raises:
            InvalidInput: none, or more than 1,000 sessions are named.
        """
        await check_people_send(self._worker.store, "send a command to many sessions at once")
        names = check_bulk(verb, sessions)
        own = {"id": CommandId(f"cmd_{self._worker.clock.fresh_id()}"), "by": by, "role": self._role}
        command = bulk_command(verb, reason, grace, own)

        async def send(session_id: str, wait: float) -> Reply:
            return await self._control.send(SessionId(session_id), command, until="decided", wait=wait)

        return await send_to_each(names, send, self._worker.clock)

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
        """Who wished or did what to which session, over all sessions, oldest first. Page on with the last ``seq`` seen.

        Those of one ``session``, ``since`` a time, or that a ``tenant`` may see, if given. With ``before`` those that
        come last before that entry, or (0) before the end.

        Raises:
            Damaged: an entry was changed, removed or put in between; the sentence names it.
        """
        check_audit(after, limit, before)
        wanted = audit_filter(session=session, since=since, tenant=tenant)
        found: list[Audited] = []
        following, store = (after if before is None else None), self._worker.store
        while following is not None and len(found) < limit:
            page, following = await audit_page(store, following, limit - len(found), wanted)
            found += page
        while before is not None and len(found) < limit:
            page, before = await audit_page_before(store, before, limit - len(found), wanted)
            found = page + found
        return found

    def audit_export(
        self, *, session: str | None = None, since: float | None = None, tenant: str | None = None
    ) -> AsyncIterator[bytes]:
        """The audit log as a file in pieces, JSON lines that prove themselves: ``midcourse audit verify FILE``.

        Entries that are not of ``session``, or that ``tenant`` may not see, are there as their digests alone. It begins
        with the first ``since`` a time.
        """
        title = Title(made_at=self._worker.clock.now(), by="local", tenant=tenant, session=session, since=since)
        return export_audit(self._worker.store, title)

    async def prune_audit(self, before: float, *, by: str = "local") -> int:
        """Take the entries from before a time away, and write down that it was done. Returns how many it were.

        Raises:
            Damaged: the log is damaged there. Nothing is taken away.
        """
        await check_people_send(self._worker.store, "prune the audit log")
        now = self._worker.clock.now()
        return await prune_audit(self._worker.store, before, by=by, role="operate", now=now)

    async def interventions(
        self,
        *,
        since: float | None = None,
        agent: str | None = None,
        label: LabelFilter | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[LabelledAlarm]:
        """Interventions over all sessions, newest first: those ``since`` a time, of an agent, or labelled so.

        ``label="none"`` are those of which nobody has said anything yet. A session's own list says more of each.
        """
        check_interventions(since, label, limit)
        store = self._worker.store
        return await interventions_in(store, since=since, agent=agent, label=label, limit=limit, tenant=tenant)

    async def alarms(
        self,
        person: str | None = None,
        *,
        gather: float | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[Batch]:
        """Interventions, and artifacts that are due for review, as people are told of them, newest batch first.

        What interrupts comes at once, the rest together.

        A batch is told at its ``ready_at``: ``gather`` seconds after its first alarm, without it as soon as the policy
        of one of its alarms says (``restraint.batch``, an hour). ``person`` is who began the session.
        """
        check_alarms(gather, limit)
        store, now = self._worker.store, self._worker.clock.now()
        return (await alarms_in_batches(store, now, person=person, gather=gather, tenant=tenant))[:limit]

    async def artifacts(
        self, *, session: str | None = None, due: bool = False, limit: int = 100, tenant: str | None = None
    ) -> Sequence[Artifact]:
        """What agents told they made (``run.report(artifact=…)``), the most urgent first: those of a session, or all.

        ``due``: those alone that somebody should look at by now. What nobody documented is due at once, everything else
        every seven days, or as often as the session's policy says.
        """
        check_limit(limit)
        found = await read_artifacts(self._worker.store, session=session, tenant=tenant)
        return by_due(found, self._worker.clock.now(), due=due, limit=limit)

    async def reviewed(self, session_id: str, name: str, documentation: str = "", *, by: str = "local") -> Artifact:
        """Say that you have looked at an artifact, and what it is: it comes up again later.

        Raises:
            InvalidInput: ``artifact_not_found``: the session has told of none of that name.
        """
        name, documentation = check_reviewed(name, documentation)
        now = self._worker.clock.now()
        session = check_text(session_id, "session_id")
        return await reviewed(self._worker.store, session, name, by=by, now=now, documentation=documentation)

    async def erase_older(self, days: float, *, by: str = "retention", limit: int = 1000) -> Sequence[Session]:
        """Erase the sessions that ended more than so many days ago, oldest first, at most ``limit`` of them.

        Who has it done leaves it in the journal and the audit log of each.
        """
        check_days(days)
        worker = self._worker
        old = await ended_before(worker.store, worker.clock.now() - days * 86_400, limit=limit)
        why = f"ended more than {days:g} days ago"
        return await erase_sessions(worker, old, by=by, role="operate", reason=why, go_on=True)

    async def inbox(self, *, by: str = "local") -> Inbox:
        """What waits for people: asks by deadline with their owners, alarms in batches, and how ``by`` answered lately.

        How often somebody approved in a row is counted where a server takes the answers.
        """
        desk = self._people_inbox()
        row, quick = await desk.approvals(by)
        store, now = self._worker.store, self._worker.clock.now()
        alarms, artifacts = await waiting_beside_asks(store, now, tenant=None)
        return Inbox(
            asks=tuple(await desk.asks()),
            alarms=alarms,
            artifacts=artifacts,
            approvals_in_a_row=row,
            quick=quick,
            running=await desk.running(),
            you=by,
        )

    async def own(self, session_id: str, ask: str, owner: str | None = None, *, by: str = "local") -> InboxAsk:
        """Take an open ask, or give it to ``owner``. The last word counts.

        Raises:
            SessionNotFound: no such session.
            Refused: it has no such open ask.
        """
        wanted = check_name(by if owner is None else owner, "owner")
        return await self._people_inbox().own(SessionId(check_text(session_id, "session_id")), ask, wanted, by=by)

    async def hand_over(self, to: str, seconds: float = 3600.0, *, by: str = "local") -> HandOver:
        """Let ``to`` stand in: what ``by`` is asked they are asked for so long, and then ``by`` again. 0 ends it."""
        to, seconds = check_hand_over(to, seconds, by)
        return await self._people_inbox().hand_over(to, seconds, by=by)

    def _people_inbox(self) -> PeopleInbox:
        return PeopleInbox(self._worker.store, self._worker.clock, policy=self._worker.settings.policy)

    async def work(self, grace: float = 10.0) -> None:
        """Drive sessions until SIGTERM or SIGINT, then drain: take nothing new, let each go at its next safe point.

        Calls in flight have ``grace`` seconds to end, then they are aborted. A call that does not end is waited for; a
        second signal ends the process and leaves it as lost. Nothing is cancelled: another process, or this one started
        again, continues every session.
        """
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for one in signals:
            loop.add_signal_handler(one, asked.set)
        try:
            await asked.wait()
        finally:
            for one in signals:
                loop.remove_signal_handler(one)
        await self.close(grace)
        await self._worker.closed()

    async def close(self, grace: float = 2.0) -> None:
        """Release every session at its next safe point. None is cancelled: who opens the store next continues it.

        A call that does not end keeps its session: nobody takes it over before the call, or this process, has ended.
        """
        await self._worker.close(grace)
