"""Notify people, and their programs: reminders, escalations, and webhooks.

One round decides what to send, and writes it down with the outbox, in one transaction; only then is anything sent. If a
server dies in between, another one continues from what was written. Of several servers over one store one does this at
a time (see ``leader_lease``).
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from midcourse.analysis.reports.review import proposals
from midcourse.core.ids import SessionId
from midcourse.core.policy_decision import Alarm
from midcourse.core.session import ENDED
from midcourse.core.switches import Switch
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, MidcourseError, SessionNotFound
from midcourse.people.inbox import TELLING, TOLD, PeopleInbox
from midcourse.people.inbox_rules import OPERATORS, InboxAsk, Notified, notification_due
from midcourse.people.leader_lease import LeaderLease
from midcourse.people.outbox import WEBHOOKS, Outbox, forget_session
from midcourse.people.webhook_sender import Sender
from midcourse.people.webhooks import TEXT_LIMIT, Delivery, Webhook, delivery
from midcourse.policy.alarm_batches import Batch, batches
from midcourse.policy.intervention_shelf import intervention_times, read_alarms
from midcourse.policy.profiles import STANDARD
from midcourse.ports.clock import Clock
from midcourse.ports.shelves import decoded, readable
from midcourse.ports.store import Head, Store

log = logging.getLogger("midcourse.server")
EVERY: Final = 1.0
"""Seconds between two looks: how late an ask may be told."""
AGAIN: Final = 10.0
"""Seconds after which a look that failed is tried again."""
SELDOM: Final = 30.0
"""Seconds between two rounds over alarms and proposals, which are not urgent."""
TIDIED: Final = 3600.0
_DAY: Final = 86_400.0
_MOST: Final = 20
"""Sessions that a batch of alarms names."""
_SEEN: Final = "seen/"
"""The prefix of the keys of sent alarms, proposals and switches."""
_SWITCH: Final = ("kill_switch.thrown", "kill_switch.lifted")
Switches = Callable[[], Awaitable[Sequence[Switch]]]


@dataclass(slots=True, kw_only=True)
class Round:
    """The findings of one round: deliveries, and what they are about, to be written in one transaction."""

    at: float
    root: str
    webhooks: Sequence[Webhook]
    items: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    rows: list[Delivery] = field(default_factory=list[Delivery])

    def deliveries(
        self,
        kind: str,
        tenant: str | None,
        names: Sequence[str],
        facts: Mapping[str, Any],
        *,
        since: float = inf,
        session: str = "",
    ) -> list[Delivery]:
        """Return a delivery for each webhook that wants to know, and was there at ``since``."""
        linked = {**facts, "link": f"{self.root}{facts['link']}"}
        return [
            delivery(hook, kind, names, linked, now=self.at, session=session)
            for hook in self.webhooks
            if hook.added_at <= since and hook.wants(kind, tenant)
        ]

    def wants(self, *kinds: str) -> bool:
        """Return True if a webhook wants one of these kinds."""
        return any(hook.wants(kind) for hook in self.webhooks for kind in kinds)


class Notifier:
    """Send the notifications of one server."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        turn: LeaderLease,
        *,
        policy: str = "",
        escalate_to: str = OPERATORS,
        switches: Switches | None = None,
        root_path: str = "",
    ) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn
        self._escalate_to = escalate_to
        self._switches = switches
        self._root = root_path
        self._people_inbox = PeopleInbox(store, clock, policy=policy)
        self._outbox = Outbox(store)
        self.sender = Sender(self._outbox, clock)
        self._looked_at = self._tidied_at = float("-inf")
        self._said: set[str] = set()

    async def run_once(self) -> None:
        """Tell what is to be told now, and begin to send what is due. Writes nothing if there is nothing."""
        known = await self._outbox.webhooks()
        asks = {ask.key: ask for ask in await self._people_inbox.asks()}
        told = await self._people_inbox.notified()
        found = Round(at=self._clock.now(), root=self._root, webhooks=[one for one in known if one.gone_at is None])
        for ask in asks.values():
            self._notify_of_ask(ask, told.get(ask.key), found)
        await self._notify_closed([key for key in told if key not in asks], found)
        if found.webhooks and found.at - self._looked_at >= SELDOM:
            await self._notify_rare(found)
        if self._switches is not None and found.wants(*_SWITCH):
            await self._apart(self._notify_switches(self._switches, found))
        if found.items and await self._turn.acquire():
            await self._outbox.put(found.rows, found.items)
            await self._forget_erased({row.session for row in found.rows})
        # An unreadable delivery is not sent, and not given up.
        waiting = [
            row for row in await self._outbox.waiting() if (WEBHOOKS, row.webhook) not in self._outbox.unreadable
        ]
        if any(row.next_at <= self._clock.now() for row in waiting) and await self._turn.acquire():
            self.sender.send_due(waiting, known)
        await self._tidy({key for key in told if key not in asks})
        for shelf, key in self._outbox.unreadable | self._people_inbox.unreadable:
            self._log_once(f"'{key}' on the shelf '{shelf}' cannot be read. 'midcourse doctor' says what to do")

    async def _apart(self, telling: Awaitable[None]) -> None:
        """Log an unreadable record, so that it does not stop the others."""
        try:
            await telling
        except Damaged as error:
            self._log_once(str(error))

    def _log_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            log.warning("left out of the notifications: %s", words)

    async def _forget_erased(self, sessions: Iterable[str]) -> None:
        """Drop what was written about sessions that were erased during the round."""
        for name in filter(None, sessions):
            with contextlib.suppress(SessionNotFound, Damaged):
                if (await self._store.head(SessionId(name))).head.erased_at is not None:
                    await forget_session(self._store, name)

    # ---- asks

    def _notify_of_ask(self, ask: InboxAsk, told: Notified | None, found: Round) -> None:
        after = told
        if told is None and found.webhooks:
            after = Notified(opened_at=ask.opened_at)
            self._tell_of_ask("ask.opened", ask, found, since=ask.opened_at)
        match notification_due(ask, found.at):
            case "ask.reminder":
                after = replace(after or Notified(opened_at=ask.opened_at), reminded_at=found.at)
                self._tell_of_ask("ask.reminder", ask, found)
            case "ask.escalated":
                after = after or Notified(opened_at=ask.opened_at)
                after = replace(after, escalated_at=found.at, escalated_to=self._escalate_to)
                self._tell_of_ask("ask.escalated", replace(ask, escalated_to=self._escalate_to), found)
            case None:
                pass
        if after is not None and after != told:
            found.items[f"{TOLD}{ask.key}"] = msgspec.json.encode(after)

    def _tell_of_ask(self, kind: str, ask: InboxAsk, found: Round, *, since: float = inf) -> None:
        names = (str(ask.session), str(ask.ask))
        found.rows += found.deliveries(kind, ask.tenant, names, _ask_facts(ask), since=since, session=ask.session)

    async def _notify_closed(self, keys: Iterable[str], found: Round) -> None:
        for key in keys:
            session, _, ask = key.rpartition("/")
            try:
                head = (await self._store.head(SessionId(session))).head
            except SessionNotFound:
                found.items[f"{TOLD}{key}"] = None
                continue
            except Damaged:
                continue
            if all(one.id != ask for one in head.open_asks) or head.status in {status.value for status in ENDED}:
                found.items[f"{TOLD}{key}"] = None
                facts = _closed_facts(head, ask)
                found.rows += found.deliveries("ask.closed", tenant_of(session), (session, ask), facts, session=session)

    # ---- the less urgent

    async def _notify_rare(self, found: Round) -> None:
        self._looked_at = found.at
        if found.wants("alarms.batched"):
            alarms = await read_alarms(self._store, since=found.at - _DAY)
            await self._notify_alarms([one for one in alarms if one.level == "notify"], found)
        if found.wants("review.proposed"):
            await self._apart(self._notify_proposals(found))

    async def _notify_proposals(self, found: Round) -> None:
        for one in await proposals(self._store, state="open"):
            facts = {"proposal": one.id, "policy": one.policy, "name": one.name, "link": "/?policies"}
            await self._notify_once("review.proposed", one.id, tenant_of(one.id), facts, one.made_at, found)

    async def _notify_alarms(self, alarms: Sequence[Alarm], found: Round) -> None:
        """Notify people of each complete batch. A person's windows follow each other; the last sent one ends them."""
        of_tenants: dict[str, list[Alarm]] = {}
        gather, of_policies = float(STANDARD.restraint.batch), await intervention_times(self._store, alarms)
        for one in alarms:
            of_tenants.setdefault(tenant_of(one.session), []).append(one)
        for tenant, theirs in of_tenants.items():
            until = await self._notified_until(tenant)
            fresh = [one for one in theirs if one.at >= until.get(one.person, 0.0)]
            for batch in batches(fresh, gather, of_policies):
                if batch.ready_at > found.at:
                    continue
                until[batch.person] = batch.ready_at
                names = (tenant, batch.person, f"{batch.since:.3f}")
                facts = _batch_facts(tenant, batch)
                found.rows += found.deliveries("alarms.batched", tenant, names, facts, since=batch.since)
                kept = {person: at for person, at in until.items() if at > found.at - 2 * _DAY}
                found.items[f"{_SEEN}alarms/{tenant}"] = msgspec.json.encode(kept)

    async def _notified_until(self, tenant: str) -> dict[str, float]:
        key = f"{_SEEN}alarms/{tenant}"
        rows, _ = await readable(self._store, TELLING, first=key, last=key)
        # Else all of a day anew, under the ids that they had.
        return (decoded(rows[0][1], dict[str, float]) if rows else None) or {}

    async def _notify_switches(self, switches: Switches, found: Round) -> None:
        for one in await switches():
            concerned = [hook for hook in found.webhooks if one.scope.concerns(hook.tenant)]
            theirs = dataclasses.replace(found, webhooks=concerned)  # with the same lists
            for kind, at in (("kill_switch.thrown", one.at), ("kill_switch.lifted", one.lifted_at)):
                if at is not None and at > found.at - _DAY:
                    await self._notify_once(kind, str(one.id), None, _switch_facts(one), at, theirs)

    async def _notify_once(
        self, kind: str, name: str, tenant: str | None, facts: Mapping[str, Any], since: float, found: Round
    ) -> None:
        key = f"{_SEEN}{kind}/{name}"
        made = found.deliveries(kind, tenant, (name,), facts, since=since)
        if made and not await self._store.shelf_keys(TELLING, first=key, last=key):
            found.rows += made
            found.items[key] = msgspec.json.encode(self._clock.now())

    async def _tidy(self, gone: set[str]) -> None:
        if gone:
            await self._people_inbox.tidy(gone)
        now = self._clock.now()
        if now - self._tidied_at >= TIDIED:
            self._tidied_at = now
            await self._outbox.prune(now)

    async def end(self) -> None:
        """Release the lease, so that another server continues. What was not sent is still in the outbox."""
        await self.sender.end()
        with contextlib.suppress(MidcourseError):
            await self._turn.end()


async def run_notifier(teller: Notifier) -> None:
    """Look again and again, until cancelled."""
    while True:
        pause = EVERY
        try:
            await teller.run_once()
        except MidcourseError as error:
            log.warning("people could not be notified; it is tried again: %s", error)
            pause = AGAIN
        except Exception:
            log.exception("people could not be notified; it is tried again: unexpected")
            pause = AGAIN
        await asyncio.sleep(pause)


# ---- what is sent


def _ask_facts(ask: InboxAsk) -> dict[str, Any]:
    return {
        "session": ask.session,
        "ask": ask.ask,
        "tenant": ask.tenant,
        "agent": ask.agent,
        "goal": _short(ask.goal),
        "reason": ask.reason,
        "prompt": _short(ask.prompt),
        "tool": ask.tool,
        "is_review": ask.is_review,
        "owner": ask.owner,
        "opened_at": ask.opened_at,
        "respond_by": ask.respond_by,
        "deadline": ask.deadline,
        "escalated_to": ask.escalated_to,
        "link": f"/?run={quote(ask.session, safe='~')}",
    }


def _closed_facts(head: Head, ask: str) -> dict[str, Any]:
    return {
        "session": head.id,
        "ask": ask,
        "tenant": tenant_of(head.id),
        "agent": head.agent,
        "session_status": head.status,
        "link": f"/?run={quote(head.id, safe='~')}",
    }


def _batch_facts(tenant: str, batch: Batch) -> dict[str, Any]:
    sessions = list(dict.fromkeys(one.session for one in batch.alarms))
    return {
        "tenant": tenant,
        "person": batch.person,
        "since": batch.since,
        "count": len(batch.alarms),
        "signals": sorted({signal for one in batch.alarms for signal in one.signals}),
        "sessions": sessions[:_MOST],
        "link": "/?inbox",
    }


def _switch_facts(switch: Switch) -> dict[str, Any]:
    return {
        "switch": switch.id,
        "scope": {"kind": switch.scope.kind, "value": switch.scope.value},
        "tenant": switch.scope.tenant,
        "reason": _short(switch.reason),
        "by": switch.by,
        "at": switch.at,
        "lifted_at": switch.lifted_at,
        "lifted_by": switch.lifted_by,
        "link": f"/?kill-switch={quote(switch.id, safe='')}",
    }


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
