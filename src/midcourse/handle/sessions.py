"""All sessions of an open store or of a server: start agents, find sessions, and what concerns many of them at once."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

from midcourse.core.audit import Audited, AuditEntry
from midcourse.core.audit_export import Title
from midcourse.core.bulk import BulkOutcome, BulkVerb, check_bulk
from midcourse.core.choices import did_you_mean
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.interventions import LabelFilter, LabelledAlarm, check_alarms, check_interventions
from midcourse.core.replies import Reply
from midcourse.core.request_checks import check_audit, check_goal, check_limit, check_listing, check_new_id, check_text
from midcourse.core.tenants import DEFAULT, check_tenant
from midcourse.core.terms import NO_TERMS, Terms, check_terms
from midcourse.errors import AgentUnavailable, InvalidInput
from midcourse.handle.bulk import bulk_command, send_to_each
from midcourse.handle.contact import with_contact
from midcourse.handle.kill_switch import KillSwitch
from midcourse.handle.local import fresh_session_id
from midcourse.handle.session import SessionHandle
from midcourse.handle.verb import Verbs, served
from midcourse.handle.webhooks import Webhooks
from midcourse.people.alarms import alarms_in_batches, interventions_in, waiting_beside_asks
from midcourse.people.inbox import PeopleInbox
from midcourse.people.inbox_rules import HandOver, Inbox, InboxAsk, check_hand_over, check_name
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.artifact_shelf import read_artifacts, reviewed
from midcourse.policy.artifacts import Artifact, by_due, check_reviewed
from midcourse.ports.audit_log import audit_filter, audit_page, audit_page_before
from midcourse.ports.sender import check_people_send
from midcourse.ports.store import Head, HeadQuery
from midcourse.runtime.agents import Agent

T = TypeVar("T")
_PAGE: Final = 200
_AUDIT_PAGE: Final = 100
"""The most that a server is asked for at once."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, and what the next part is asked for with; None: there is no more."""

    items: Sequence[T]
    next: Any = None


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be started. ``goals`` are examples of what to ask of it, the plainest first."""

    name: str
    description: str = ""
    goals: tuple[str, ...] = ()
    version: str
    mode: str
    resumable: bool
    origin: str
    asks: bool
    terms: Terms


def _session_id(content: bytes) -> SessionId:
    return SessionId(msgspec.json.decode(content)["id"])


def _heads(content: bytes) -> Page[Head]:
    sent = msgspec.json.decode(content)
    # What only a store needs of a head is not sent.
    heads = [msgspec.convert({"digest": "", **one}, Head) for one in sent["sessions"]]
    return Page(heads, heads[-1].id if sent["next"] is not None else None)


def _entries(content: bytes) -> Page[Audited]:
    sent = msgspec.json.decode(content)
    return Page([Audited(one["seq"], msgspec.convert(one, AuditEntry)) for one in sent["entries"]], sent.get("next"))


def _new_session(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a server takes of a new session: of the terms those that may be given for one session."""
    if not isinstance(given["agent"], str):
        raise InvalidInput(
            "Over HTTP an agent is started by its name: the server runs it. Give that, as a text.", field="agent"
        )
    body = {**given, "session_id": given["session_id"] and check_new_id(given["session_id"]), "terms": None}
    body["tenant"] = check_tenant(given["tenant"]) if given["tenant"] else None
    if given["terms"] is not None:
        terms = check_terms(given["terms"])
        if msgspec.structs.replace(terms, task_class=None, budget=None, labels=()) != NO_TERMS:
            raise InvalidInput(
                "Over HTTP only task_class, budget and labels can be given for one session; the rest is its agent's.",
                field="terms",
            )
        body |= {"task_class": terms.task_class, "budget": terms.budget, "labels": list(terms.labels)}
    return body


def _listing(given: dict[str, Any]) -> dict[str, Any]:
    query: HeadQuery = given["query"]
    return {
        "status": list(query.statuses),
        "agent": query.agent,
        "search": query.search or None,
        "tenant": query.tenant,
        "limit": min(query.limit, _PAGE),
        "before": query.before,
    }


class Sessions(Verbs):
    """All sessions of an open store or of a server.

    Over HTTP ``by`` is not sent: the server knows from the token who it is, and a ``tenant`` is for the host's tokens.
    """

    @property
    def kill_switch(self) -> KillSwitch:
        """The operator's standing halts over all sessions, an agent's, a label's or a tenant's."""
        return KillSwitch(self._transport)

    @property
    def webhooks(self) -> Webhooks:
        """The programs that are notified of what happens."""
        return Webhooks(self._transport)

    @served("agents", item=KnownAgent, within="agents")
    async def agents(self) -> Sequence[KnownAgent]:
        """The agents that can be started, by name: what each does, and examples of what to ask of it."""
        known = sorted(self._worker.agents.items())
        names = KnownAgent.__struct_fields__
        return [KnownAgent(**{name: getattr(agent, name) for name in names}) for _, agent in known]

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
        """Give an agent a goal. It runs on the loop the store was opened on, or at the server; the handle steers it.

        ``terms`` take the place of the agent's own, for this session: over HTTP its task class, budget and labels.
        ``tenant`` is whose it is, and becomes part of its id: ``acme~sess_x``.
        """
        new = await self._start(agent, goal, session_id=session_id, terms=terms, by=by, tenant=tenant)
        return SessionHandle(new, self._transport)

    @served("sessions", method="POST", once="start", check=check_goal, sends=_new_session, reads=_session_id)
    async def _start(
        self, agent: "Agent[Any] | str", goal: str, *, session_id: str | None, terms: Terms | None, by: str, tenant: str
    ) -> SessionId:
        await check_people_send(self._worker.store, "start a session; it spawns children with run.spawn")
        identity = fresh_session_id(session_id, self._worker.clock, tenant)
        wanted = terms and check_terms(terms)
        await self._worker.create(identity, self._resolve(agent), goal, terms=wanted, by=by, role=self._role)
        return identity

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
        return SessionHandle(await self._transport.find(check_text(session_id, "session_id")), self._transport)

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
        found: list[Head] = []
        while True:
            query = HeadQuery(
                statuses=tuple(status),
                agent=agent,
                search=search,
                tenant=tenant,
                limit=limit - len(found),
                before=None if before is None else SessionId(before),
            )
            page = await self.page(query)
            found += page.items
            before = page.next
            if before is None or len(found) >= limit:
                return found

    @served("sessions", sends=_listing, reads=_heads)
    async def page(self, query: HeadQuery) -> Page[Head]:
        """A page of sessions, newest first: as many as the query wants, or as a server gives at once."""
        worker = self._worker
        heads = await worker.store.heads(query)
        more = heads[-1].id if len(heads) == query.limit else None
        return Page(
            await with_contact(worker.store, heads, worker.clock.now(), worker.settings.unreachable_after), more
        )

    @served(
        "sessions/bulk",
        Sequence[BulkOutcome],
        within="outcomes",
        method="POST",
        once="bulk",
        patience=30.0,
        check=check_bulk,
    )
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
        worker = self._worker
        await check_people_send(worker.store, "send a command to many sessions at once")
        own = {"id": CommandId(f"cmd_{worker.clock.fresh_id()}"), "by": by, "role": self._role}
        command = bulk_command(verb, reason, grace, own)

        async def send(session_id: str, wait: float) -> Reply:
            return await self._control.send(SessionId(session_id), command, until="decided", wait=wait)

        return await send_to_each(check_bulk(verb, sessions), send, worker.clock)

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
            AccessDenied: the token's role is below ``operate``.
            Damaged: an entry was changed, removed or put in between; the sentence names it.
        """
        check_audit(after, limit, before)
        found: list[Audited] = []
        place: int | str | None = after if before is None else before
        while place is not None and len(found) < limit:
            # An open store goes on at an entry, a server at its own cursor.
            cursor, at = (place, before or after) if isinstance(place, str) else (None, place)
            page = await self.audit_page(
                at if before is None else None,
                None if before is None else at,
                cursor=cursor,
                limit=limit - len(found),
                session=session,
                since=since,
                tenant=tenant,
            )
            found = [*found, *page.items] if before is None else [*page.items, *found]
            place = page.next
        return found

    @served("audit", sends=lambda given: {**given, "limit": min(given["limit"], _AUDIT_PAGE)}, reads=_entries)
    async def audit_page(
        self,
        after: int | None = None,
        before: int | None = None,
        *,
        cursor: str | None = None,
        limit: int,
        session: str | None = None,
        since: float | None = None,
        tenant: str | None = None,
    ) -> Page[Audited]:
        """A page of the audit log. It may be short though more follow: some thousand entries are searched for one."""
        store, wanted = self._worker.store, audit_filter(session=session, since=since, tenant=tenant)
        if before is None:
            return Page(*await audit_page(store, after or 0, limit, wanted))
        return Page(*await audit_page_before(store, before, limit, wanted))

    def audit_export(
        self, *, session: str | None = None, since: float | None = None, tenant: str | None = None, by: str = "local"
    ) -> AsyncIterator[bytes]:
        """The audit log as a file in pieces, JSON lines that prove themselves: ``midcourse audit verify FILE``.

        Entries that are not of ``session``, or that ``tenant`` or the token may not see, are there as their digests
        alone. It begins with the first ``since`` a time.
        """
        made_at = self._transport.clock.now()
        return self._transport.audit_export(Title(made_at=made_at, by=by, tenant=tenant, session=session, since=since))

    @served("interventions", item=LabelledAlarm, within="interventions", check=check_interventions)
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

        ``label="none"`` are those that are not labelled yet. A session's own list says more of each.
        """
        store = self._worker.store
        return await interventions_in(store, since=since, agent=agent, label=label, limit=limit, tenant=tenant)

    @served("alarms", item=Batch, within="batches", check=check_alarms)
    async def alarms(
        self,
        person: str | None = None,
        *,
        gather: float | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[Batch]:
        """Interventions, and artifacts that are due for review, in the batches that people get, newest batch first.

        What interrupts comes at once, the rest together.

        A batch is sent at its ``ready_at``: ``gather`` seconds after its first alarm, without it as soon as the policy
        of one of its alarms says (``restraint.batch``, an hour). ``person`` is who began the session.
        """
        store, now = self._worker.store, self._worker.clock.now()
        return (await alarms_in_batches(store, now, person=person, gather=gather, tenant=tenant))[:limit]

    @served("artifacts", item=Artifact, within="artifacts", check=check_limit)
    async def artifacts(
        self, *, session: str | None = None, due: bool = False, limit: int = 100, tenant: str | None = None
    ) -> Sequence[Artifact]:
        """Return the artifacts that agents reported (``run.report(artifact=…)``), of one session or all, by urgency.

        ``due``: only those that should be checked by now. One without documentation is due at once, every other one
        every seven days, or as often as the session's policy says.
        """
        found = await read_artifacts(self._worker.store, session=session, tenant=tenant)
        return by_due(found, self._worker.clock.now(), due=due, limit=limit)

    @served("sessions/{session_id}/artifacts/reviewed", Artifact, method="POST", check=check_reviewed)
    async def reviewed(self, session_id: str, name: str, documentation: str = "", *, by: str = "local") -> Artifact:
        """Say that you have checked an artifact, and what it is: it comes up again later.

        Raises:
            InvalidInput: ``artifact_not_found``: the session has reported none of that name.
        """
        name, documentation = check_reviewed(name, documentation)
        store, now = self._worker.store, self._worker.clock.now()
        session = check_text(session_id, "session_id")
        return await reviewed(store, session, name, by=by, now=now, documentation=documentation, role=self._role)

    async def inbox(self, *, by: str = "local") -> Inbox:
        """Return what waits for people: asks by deadline with owners, alarms in batches, and recent answers of ``by``.

        How often a person approved in a row is counted where a server takes the answers.
        """
        asks = await self._asks()
        return msgspec.structs.replace(await self._beside_asks(by=by), asks=tuple(asks))

    @served("inbox", item=InboxAsk, within="asks")
    async def _asks(self) -> Sequence[InboxAsk]:
        return await self._people.asks()

    @served("inbox", Inbox, sends=lambda _: {"limit": 1})
    async def _beside_asks(self, *, by: str) -> Inbox:
        row, quick = await self._people.approvals(by)
        store, now = self._worker.store, self._worker.clock.now()
        alarms, artifacts = await waiting_beside_asks(store, now, tenant=None)
        return Inbox(
            asks=(),
            alarms=alarms,
            artifacts=artifacts,
            approvals_in_a_row=row,
            quick=quick,
            running=await self._people.running(),
            you=by,
        )

    @served("inbox/{session_id}/{ask}/own", InboxAsk, method="POST")
    async def own(self, session_id: str, ask: str, owner: str | None = None, *, by: str = "local") -> InboxAsk:
        """Take an open ask, or give it to ``owner``. The last word counts.

        Raises:
            SessionNotFound: no such session.
            Refused: it has no such open ask.
        """
        wanted = check_name(by if owner is None else owner, "owner")
        session = SessionId(check_text(session_id, "session_id"))
        return await self._people.own(session, ask, wanted, by=by, role=self._role)

    @served("inbox/hand-over", HandOver, method="POST")
    async def hand_over(self, to: str, seconds: float = 3600.0, *, by: str = "local") -> HandOver:
        """Let ``to`` stand in: what ``by`` is asked they are asked for so long, and then ``by`` again. 0 ends it."""
        to, seconds = check_hand_over(to, seconds, by)
        return await self._people.hand_over(to, seconds, by=by, role=self._role)

    @property
    def _people(self) -> PeopleInbox:
        return PeopleInbox(self._worker.store, self._worker.clock, policy=self._worker.settings.policy)
