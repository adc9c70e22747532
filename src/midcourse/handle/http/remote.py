"""All sessions of a server: the verbs of ``midcourse.Midcourse``, over HTTP."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from midcourse.core.audit import Audited
from midcourse.core.bulk import BulkOutcome, BulkVerb, check_bulk
from midcourse.core.interventions import LabelFilter, LabelledAlarm, check_alarms, check_interventions
from midcourse.core.request_checks import check_audit, check_goal, check_limit, check_listing, check_new_id, check_text
from midcourse.core.tenants import DEFAULT, check_tenant
from midcourse.core.terms import NO_TERMS, Terms, check_terms
from midcourse.errors import InvalidInput, SessionNotFound
from midcourse.handle.http.connection import HttpConnection, Parameters
from midcourse.handle.http.kill_switch import RemoteKillSwitch
from midcourse.handle.http.response_bodies import (
    KnownAgent,
    WireBulk,
    WireId,
    WireLogin,
    audited_of,
    heads_of,
)
from midcourse.handle.http.transport import HttpTransport
from midcourse.handle.http.webhooks import RemoteWebhooks
from midcourse.handle.session import SessionHandle
from midcourse.people.inbox_rules import HandOver, Inbox, InboxAsk
from midcourse.policy.artifacts import Artifact, check_reviewed
from midcourse.policy.restraint import Batch
from midcourse.ports.store import Head

LONGEST_BULK: Final = 30.0
"""Seconds that many sessions may take to answer."""
AUDIT_PAGE: Final = 100
"""The most that a server lists at once."""


class RemoteMidcourse:
    """A server. Made by :func:`midcourse.connect`."""

    def __init__(self, wire: HttpConnection) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"<RemoteMidcourse at {self._wire.url}>"

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._wire.url

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
        """Give an agent of the server a goal. It runs there; the handle steers it.

        Of ``terms`` the task class and the budget can be given from here; the rest is the agent's. ``by`` is not sent:
        the server knows from the token who it is. ``tenant`` is for the host's tokens: others start their own tenant's.
        """
        if not isinstance(agent, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            raise InvalidInput(
                "Over HTTP an agent is started by its name: the server runs it. Give that, as a text.", field="agent"
            )
        body: dict[str, object] = {"agent": agent, "goal": check_goal(goal)}
        if session_id is not None:
            body["session_id"] = check_new_id(session_id)
        if tenant:
            body["tenant"] = check_tenant(tenant)
        if terms is not None:
            body |= _sendable(check_terms(terms))
        # Under a name of the caller's a retry could not be told from a second session: that is refused.
        key = f"start_{self._wire.clock.fresh_id()}" if session_id is None else None
        content = await self._wire.send("POST", "sessions", body=body, key=key)
        return SessionHandle(self._wire.read(content, WireId).id, HttpTransport(self._wire))

    async def agents(self) -> Sequence[KnownAgent]:
        """The agents that can be started there, by name: what each does, and examples of what to ask of it."""
        return await self._wire.items("agents", "agents", KnownAgent)

    async def get(self, session_id: str) -> SessionHandle[Any]:
        """A session that exists.

        Raises:
            SessionNotFound: it does not.
        """
        try:
            path = quote(check_text(session_id, "session_id"), safe="")
        except UnicodeEncodeError:  # half a surrogate pair
            path = ""
        if path.strip(".") == "":
            raise SessionNotFound(
                f"There is no session {session_id!r} at {self._wire.url}. List them.", session_id=session_id
            )
        found = await self._wire.get(f"sessions/{path}", WireId)
        return SessionHandle(found.id, HttpTransport(self._wire))

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
        """Sessions, newest first. ``search`` looks into id, agent and goal. Page on with ``before``: the last id seen.

        Raises:
            InvalidInput: there is no such status, or the limit is not from 1 to 1000.
        """
        check_listing(status, limit)
        parameters: dict[str, str | int | float | bool | list[str]] = {"status": list(status)}
        if agent is not None:
            parameters["agent"] = agent
        if search:
            parameters["search"] = search
        if tenant is not None:
            parameters["tenant"] = tenant
        if before is not None:
            parameters["before"] = before
        return heads_of(await self._wire.items("sessions", "sessions", dict[str, Any], parameters, limit=limit))

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

        ``by`` is not sent: the server knows from the token who it is.

        Raises:
            InvalidInput: none, or more than 1,000 sessions are named.
        """
        body: dict[str, object] = {"verb": verb, "sessions": check_bulk(verb, sessions), "reason": reason}
        if grace is not None:
            body["grace"] = grace
        key = f"bulk_{self._wire.clock.fresh_id()}"
        content = await self._wire.send("POST", "sessions/bulk", body=body, key=key, wait=LONGEST_BULK)
        return self._wire.read(content, WireBulk).outcomes

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

        Those of one ``session``, or ``since`` a time, if given. A tenant's operator sees that tenant's. With ``before``
        those that come last before that entry, or (0) before the end.

        Raises:
            AccessDenied: the token's role is below ``operate``.
            Damaged: an entry was changed, removed or put in between; the sentence names it.
        """
        check_audit(after, limit, before)
        found: list[Audited] = []
        cursor: str | None = None
        given = _given({"session": session, "since": since, "tenant": tenant, "after": after, "before": before})
        while True:
            size = min(AUDIT_PAGE, limit - len(found))
            page, cursor = await self._wire.page("audit", "entries", dict[str, Any], given, limit=size, cursor=cursor)
            more = audited_of(page)
            found = found + more if before is None else more + found
            if cursor is None or len(found) == limit:
                return found

    async def audit_export(
        self, *, session: str | None = None, since: float | None = None, tenant: str | None = None
    ) -> AsyncIterator[bytes]:
        """The audit log as a file in pieces, JSON lines that prove themselves: ``midcourse audit verify FILE``.

        Entries that the token may not see, or that are not of ``session``, are there as their digests alone.
        """
        given = _given({"session": session, "since": since, "tenant": tenant})
        async for piece in self._wire.pieces("audit/export", given):
            yield piece

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
        given = _given({"since": since, "agent": agent, "label": label, "tenant": tenant})
        return await self._wire.items("interventions", "interventions", LabelledAlarm, given, limit=limit)

    async def alarms(
        self,
        person: str | None = None,
        *,
        gather: float | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[Batch]:
        """Interventions as people are told of them, newest batch first: what interrupts at once, the rest together.

        A batch is told at its ``ready_at``: ``gather`` seconds after its first alarm, without it as long as the policy
        ``standard`` says (an hour). ``person`` is who began the session.
        """
        check_alarms(gather, limit)
        given = _given({"person": person, "gather": gather, "tenant": tenant})
        return await self._wire.items("alarms", "batches", Batch, given, limit=limit)

    async def artifacts(
        self, *, session: str | None = None, due: bool = False, limit: int = 100, tenant: str | None = None
    ) -> Sequence[Artifact]:
        """What agents told they made (``run.report(artifact=…)``), the most urgent first: those of a session, or all.

        ``due``: those alone that somebody should look at by now. What nobody documented is due at once, everything else
        every seven days, or as often as the session's policy says.
        """
        check_limit(limit)
        given = _given({"session": session, "due": "true" if due else None, "tenant": tenant})
        return await self._wire.items("artifacts", "artifacts", Artifact, given, limit=limit)

    async def reviewed(self, session_id: str, name: str, documentation: str = "", *, by: str = "local") -> Artifact:
        """Say that you have looked at an artifact, and what it is: it comes up again later.

        ``by`` is not sent: the server knows from the token who it is.

        Raises:
            InvalidInput: ``artifact_not_found``: the session has told of none of that name.
        """
        name, documentation = check_reviewed(name, documentation)
        path = f"sessions/{quote(check_text(session_id, 'session_id'), safe='')}/artifacts/reviewed"
        body = {"name": name, "documentation": documentation}
        return self._wire.read(await self._wire.send("POST", path, body=body), Artifact)

    async def inbox(self, *, by: str = "local") -> Inbox:
        """What waits for people: asks by deadline with their owners, alarms in batches, and how you answered lately.

        ``by`` is not sent: the server knows from the token who it is.
        """
        asks = await self._wire.items("inbox", "asks", InboxAsk)
        return msgspec.structs.replace(await self._wire.get("inbox", Inbox, {"limit": 1}), asks=tuple(asks))

    async def own(self, session_id: str, ask: str, owner: str | None = None, *, by: str = "local") -> InboxAsk:
        """Take an open ask, or give it to ``owner``. The last word counts.

        Raises:
            SessionNotFound: no such session.
            Refused: it has no such open ask.
        """
        place = "/".join(
            quote(check_text(one, name), safe="") for one, name in ((session_id, "session_id"), (ask, "ask"))
        )
        body = {} if owner is None else {"owner": owner}
        return self._wire.read(await self._wire.send("POST", f"inbox/{place}/own", body=body), InboxAsk)

    async def hand_over(self, to: str, seconds: float = 3600.0, *, by: str = "local") -> HandOver:
        """Let ``to`` stand in: what is asked of you is asked of them for so long, then of you again. 0 ends it."""
        body = {"to": to, "seconds": seconds}
        return self._wire.read(await self._wire.send("POST", "inbox/hand-over", body=body), HandOver)

    @property
    def webhooks(self) -> RemoteWebhooks:
        """Who is told of what happens here."""
        return RemoteWebhooks(self._wire)

    @property
    def kill_switch(self) -> RemoteKillSwitch:
        """The server's kill switches."""
        return RemoteKillSwitch(self._wire)

    async def login_link(self) -> str:
        """Return a new link that lets one browser in, once, within a minute, as the holder of this token."""
        return self._wire.read(await self._wire.send("POST", "login/codes"), WireLogin).link

    async def close(self) -> None:
        """Close the connections. Nothing on the server is stopped by it."""
        await self._wire.close()


def _given(parameters: Mapping[str, str | float | None]) -> Parameters:
    return {name: value for name, value in parameters.items() if value is not None}


def _sendable(terms: Terms) -> dict[str, object]:
    if msgspec.structs.replace(terms, task_class=None, budget=None, labels=()) != NO_TERMS:
        raise InvalidInput(
            "Over HTTP only task_class, budget and labels can be given for one session; the rest is its agent's.",
            field="terms",
        )
    return {"task_class": terms.task_class, "budget": terms.budget, "labels": list(terms.labels)}
