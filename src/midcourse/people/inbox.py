"""The inbox of people over all sessions: open asks by the lists, and their owners and hand-overs.

Two shelves hold what no journal has. ``inbox``: who took which ask (``taken/``), who hands over to whom (``over/``),
how each person answered lately (``answer/``). ``telling``: the notifications about an ask (``told/``); only the server
that leads writes that, with what it sends (see ``people/outbox.py``). Sessions and people carry their tenant in their
names, and so does every key.
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from midcourse.core.asks import GO_ON, NEED_APPROVAL, is_yes
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import Value, decode
from midcourse.core.ids import AskId, SessionId, is_review_step
from midcourse.core.session import LIVE, Status
from midcourse.core.tenants import tenant_of
from midcourse.errors import MidcourseError, Refused, SessionNotFound
from midcourse.people.inbox_rules import (
    MOST_KEPT,
    Answered,
    HandOver,
    InboxAsk,
    Notified,
    Taken,
    answer_seconds,
    approvals,
    by_deadline,
    owner_of,
)
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.policy.versions import load as load_policy
from midcourse.ports.audit_log import audit_page_before
from midcourse.ports.clock import Clock
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import below, decoded, readable
from midcourse.ports.store import AskHead, Head, HeadQuery, Store, every_head

T = TypeVar("T")
SHELF: Final = "inbox"
TELLING: Final = "telling"
TOLD: Final = "told/"
TAKEN: Final = "taken/"
_OVER: Final = "over/"
_ANSWER: Final = "answer/"
_PAGE: Final = 1000
_NAMELESS: Final = ("", "none")
_LIVE: Final = tuple(sorted(status.value for status in LIVE))


class PeopleInbox:
    """The open asks of a store, and what people do with them."""

    def __init__(self, store: Store, clock: Clock, *, policy: str = "") -> None:
        """``policy`` is the default for sessions that name none; empty: ``standard``."""
        self._store = store
        self._clock = clock
        self._default = policy
        self._policies: dict[str, Policy] = {}
        self.unreadable: set[tuple[str, str]] = set()
        """Shelf and key of what was found damaged."""

    async def asks(self, tenant: str | None = None) -> list[InboxAsk]:
        """Return the open asks in all live sessions of a tenant (None: of all tenants), the most urgent first."""
        asking = HeadQuery(statuses=_LIVE, tenant=tenant, asking=True)
        heads = [head async for head in every_head(self._store, asking)]
        if not heads:
            return []
        now = self._clock.now()
        told = await self._records(TELLING, TOLD, Notified)
        taken = await self._records(SHELF, TAKEN, Taken)
        overs = {one.name: one for one in (await self._records(SHELF, _OVER, HandOver)).values()}
        policies = {name: await self._policy_of(name) for name in {head.policy for head in heads}}
        return by_deadline(
            _ask(head, ask, policies[head.policy], told, taken, overs, now) for head in heads for ask in head.open_asks
        )

    async def running(self, tenant: str | None = None) -> int:
        """Return how many sessions run."""
        running = HeadQuery(statuses=(Status.RUNNING.value,), tenant=tenant)
        return len([head async for head in every_head(self._store, running)])

    async def own(self, session_id: SessionId, ask: str, owner: str, *, by: str, role: str = "") -> InboxAsk:
        """Give an open ask to ``owner``, and return it. A later word counts.

        Raises:
            SessionNotFound: no such session.
            Refused: ``ask_not_found``: it is not open.
        """
        await check_people_send(self._store, "take an ask")
        head = (await self._store.head(session_id)).head
        if all(one.id != ask for one in head.open_asks):
            raise Refused(
                f"Session '{session_id}' has no open ask '{ask[:100]}'. List the inbox again.",
                code="ask_not_found",
                session_id=session_id,
            )
        now = self._clock.now()
        record = Taken(owner=owner, at=now, by=by)
        entry = _entry("inbox.own", by, role, f"{ask} to {owner}", now, session=session_id)
        await self._store.shelve(SHELF, {f"{TAKEN}{session_id}/{ask}": msgspec.json.encode(record)}, audit=(entry,))
        for one in await self.asks(tenant_of(session_id)):
            if (one.session, one.ask) == (session_id, ask):
                return one
        raise Refused(
            f"'{ask}' of session '{session_id}' was closed meanwhile.", code="ask_not_found", session_id=session_id
        )

    async def hand_over(
        self, to: str, seconds: float, *, by: str, role: str = "", people: Collection[str] = ()
    ) -> HandOver:
        """Hand the asks of ``by`` over to ``to`` for so long, then back. 0 seconds: at once.

        ``people`` are known names, active here or not. Any other is accepted with a warning.
        """
        await check_people_send(self._store, "hand asks over")
        now = self._clock.now()
        made = HandOver(name=by, to=to, at=now, until=now + seconds)
        items: dict[str, bytes | None] = {_over(by): msgspec.json.encode(made) if seconds else None}
        back = (await self._records(SHELF, _over(to), HandOver)).get("")
        if back is not None and back.to == by:
            items[_over(to)] = None  # the person who gets the asks is on duty again
        detail = f"to {to} for {seconds:g} s" if seconds else "ended"
        entry = _entry("inbox.hand_over", by, role, detail, now, tenant=tenant_of(by))
        is_known = not seconds or to in people or await self._has_acted(to)
        await self._store.shelve(SHELF, items, audit=(entry,))
        return made if is_known else replace(made, warning=f"No person called '{to}' has acted here so far.")

    async def _has_acted(self, name: str) -> bool:
        """Return True if a person of that name recently acted here or was given an ask."""
        prefix = f"{_ANSWER}{_quoted(name)}/"
        if await self._store.shelf_keys(SHELF, **below(prefix)):
            return True
        taken = (await self._records(SHELF, TAKEN, Taken)).values()
        overs = (await self._records(SHELF, _OVER, HandOver)).values()
        if any(name in (one.owner, one.by) for one in taken) or any(one.name == name for one in overs):
            return True
        entries, _ = await audit_page_before(self._store, 0, 1, lambda entry: entry.by == name)
        heads = await self._store.heads(HeadQuery(tenant=tenant_of(name) or None, limit=_PAGE))
        return bool(entries) or any(head.by == name for head in heads)

    async def note_answer(self, ask: AskHead, *, session_id: str, by: str, approved: bool) -> None:
        """Keep for a while that a person answered an ask for a yes or a no."""
        prefix = f"{_ANSWER}{_quoted(by)}/"
        earlier = await self._records(SHELF, prefix, Answered)
        now = self._clock.now()
        made = Answered(at=now, took=answer_seconds(ask.opened_at, list(earlier.values()), now), approved=approved)
        items: dict[str, bytes | None] = {
            f"{prefix}{int(now * 1000):015d}/{session_id}/{ask.id}": msgspec.json.encode(made)
        }
        items |= {f"{prefix}{key}": None for key in sorted(earlier)[: -MOST_KEPT + 1]}
        await self._store.shelve(SHELF, items)

    async def approvals(self, by: str) -> tuple[int, int]:
        """Return how many approvals in a row a person gave lately, and how many of the last of them were quick."""
        found = await self._records(SHELF, f"{_ANSWER}{_quoted(by)}/", Answered)
        return approvals([found[key] for key in sorted(found)], self._clock.now())

    async def tidy(self, gone: set[str]) -> None:
        """Forget who took asks that are no longer open."""
        keys = await self._store.shelf_keys(SHELF, **below(TAKEN))
        items: dict[str, bytes | None] = {key: None for key in keys if key.removeprefix(TAKEN) in gone}
        if items:
            await self._store.shelve(SHELF, items)

    async def notified(self) -> dict[str, Notified]:
        """Return the notifications of each ask, by ``session/ask``."""
        return await self._records(TELLING, TOLD, Notified)

    async def _policy_of(self, name: str) -> Policy:
        if name not in self._policies:
            wanted = self._default if name in _NAMELESS else name
            try:
                known = STANDARD if wanted in _NAMELESS else await load_policy(self._store, wanted)
            except MidcourseError:  # it cannot be read now: an ask without any target would wait for ever
                return STANDARD
            self._policies[name] = known
        return self._policies[name]

    async def _records(self, shelf: str, prefix: str, kind: type[T]) -> dict[str, T]:
        """Return the records below a prefix, without it, except damaged ones and those of a later Midcourse."""
        rows, damaged = await readable(self._store, shelf, **below(prefix))
        self.unreadable |= {(shelf, key) for key in damaged}
        return {key.removeprefix(prefix): one for key, content in rows if (one := decoded(content, kind)) is not None}


def wants_yes(ask: AskHead) -> bool:
    """Return True if an ask is one that people approve or refuse."""
    return ask.reason == NEED_APPROVAL or is_review_step(ask.step)


def approves(ask: AskHead, answer: Value) -> bool:
    """Return True if an answer allows the agent's request."""
    said = decode(answer.raw)
    goes_on = isinstance(said, str) and said.strip().lower() in (GO_ON, "resume", "continue")
    return is_yes(answer) or (goes_on and is_review_step(ask.step))


async def open_ask(store: Store, session_id: SessionId, ask: str | None) -> AskHead | None:
    """Return the open ask of that name, or the only one there is; None: there is none, or it is ambiguous."""
    try:
        asks = (await store.head(session_id)).head.open_asks
    except SessionNotFound:
        return None
    found = [one for one in asks if ask in (None, one.id)]
    return found[0] if len(found) == 1 else None


def _ask(
    head: Head,
    ask: AskHead,
    policy: Policy,
    told: Mapping[str, Notified],
    taken: Mapping[str, Taken],
    overs: Mapping[str, HandOver],
    now: float,
) -> InboxAsk:
    key = f"{head.id}/{ask.id}"
    said = told.get(key)
    owner, since = owner_of(head.by, taken.get(key), overs, now)
    return InboxAsk(
        session=head.id,
        ask=AskId(ask.id),
        agent=head.agent,
        goal=head.goal,
        tenant=tenant_of(head.id),
        reason=ask.reason,
        prompt=ask.prompt,
        tool=ask.tool,
        step=ask.step,
        opened_at=ask.opened_at,
        deadline=ask.deadline,
        respond_by=ask.opened_at + float(policy.response_target),
        owner=owner,
        owned_since=None if since is None else max(since, ask.opened_at),
        reminded_at=None if said is None else said.reminded_at,
        escalated_at=None if said is None else said.escalated_at,
        escalated_to="" if said is None else said.escalated_to,
        is_review=is_review_step(ask.step),
        session_status=head.status,
        arguments=ask.arguments,
        why=ask.why,
        tired_after=policy.restraint.approvals_in_a_row,
    )


def _entry(
    action: str, by: str, role: str, detail: str, at: float, *, session: str = "", tenant: str = ""
) -> AuditEntry:
    return AuditEntry(session=SessionId(session), by=by, role=role, action=action, detail=detail, at=at, tenant=tenant)


def _over(name: str) -> str:
    return f"{_OVER}{_quoted(name)}"


def _quoted(name: str) -> str:
    return quote(name, safe="~@")
