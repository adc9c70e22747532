"""What programs are told over webhooks: who wants to know, and an outbox of what they are told. No network here.

Registrations lie on the shelf ``webhooks``, each with the secret that signs what it is sent: a signature needs the
secret itself, so a hash of it would not do. Whoever can read the store's file (which only its owner may) can read it;
no answer, log line or audit entry ever holds it.

The outbox is on the shelf ``telling``, beside what people were told, so that a fact and what is sent of it are written
in one transaction.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from midcourse.core.audit import AuditEntry
from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK
from midcourse.core.webhooks import DONE, DUE, Delivery, Webhook
from midcourse.errors import InvalidInput, Refused
from midcourse.ports.store import Store
from midcourse.runtime.desk import SHELF as DESK
from midcourse.runtime.desk import TAKEN, TELLING, TOLD

WEBHOOKS: Final = "webhooks"
MOST_WEBHOOKS: Final = 100
"""Webhooks of one tenant."""
KEPT_FOR: Final = 7 * 86_400.0
"""Seconds for which a delivery is listed after its end."""
_LAST: Final = "\U0010ffff"


class Outbox:
    """The webhooks of a store, and what they are told."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ---- who wants to know

    async def add(self, webhook: Webhook, *, role: str = "") -> None:
        """Keep a webhook.

        Raises:
            Refused: ``too_many_webhooks``.
        """
        ours = [one for one in await self.webhooks() if one.tenant == webhook.tenant]
        if len(ours) >= MOST_WEBHOOKS:
            raise Refused(
                f"There are {len(ours)} webhooks; at most {MOST_WEBHOOKS} are kept. Remove one that nobody needs.",
                code="too_many_webhooks",
            )
        detail = f"{_where(webhook)} for {', '.join(webhook.kinds)}"
        entry = _entry("webhook.add", webhook, webhook.by, role, detail, webhook.added_at)
        await self._store.shelve(WEBHOOKS, {webhook.id: msgspec.json.encode(webhook)}, audit=(entry,))

    async def webhooks(self, tenant: str | None = None) -> list[Webhook]:
        """Those of a tenant (None: all there are), the oldest first."""
        rows = await self._store.shelved(WEBHOOKS)
        found = [msgspec.json.decode(content, type=Webhook) for _, content in rows]
        return sorted(
            (one for one in found if tenant is None or one.tenant == tenant), key=lambda one: (one.added_at, one.id)
        )

    async def webhook(self, name: str, tenant: str | None = None) -> Webhook:
        """One of them.

        Raises:
            InvalidInput: ``webhook_not_found``: there is none, or it is another tenant's.
        """
        wanted = name if not tenant or MARK in name else f"{tenant}{MARK}{name}"
        rows = await self._store.shelved(WEBHOOKS, first=wanted, last=wanted) if wanted else ()
        found = [msgspec.json.decode(content, type=Webhook) for _, content in rows]
        if not found or (tenant is not None and found[0].tenant != tenant):
            raise InvalidInput(
                f"There is no webhook '{name[:100]}'. List the webhooks, and name one of them.",
                code="webhook_not_found",
            )
        return found[0]

    async def remove(self, webhook: Webhook, *, by: str, role: str = "", now: float) -> None:
        """Forget a webhook, and all it was to be told."""
        entry = _entry("webhook.remove", webhook, by, role, _where(webhook), now)
        await self._store.shelve(WEBHOOKS, {webhook.id: None}, audit=(entry,))
        for prefix in (DUE, DONE):
            place = f"{prefix}{webhook.id}/"
            await self._forget_rows(await self._store.shelf_keys(TELLING, first=place, last=place + _LAST))

    async def put_test(self, row: Delivery, webhook: Webhook, *, by: str, role: str = "") -> None:
        """Put a trial into the outbox, and into the audit log who wanted it."""
        entry = _entry("webhook.test", webhook, by, role, _where(webhook), row.made_at)
        await self._store.shelve(TELLING, {row.key: msgspec.json.encode(row)}, audit=(entry,))

    # ---- what they are told

    async def put(self, rows: Iterable[Delivery], facts: Mapping[str, bytes | None] | None = None) -> int:
        """Put into the outbox what is not there, nor was lately, with ``facts`` on the same shelf: one transaction."""
        fresh: dict[str, bytes | None] = {}
        for row in rows:
            if not await self._is_known(row):
                fresh[row.key] = msgspec.json.encode(row)
        items = {**fresh, **(facts or {})}
        if items:
            await self._store.shelve(TELLING, items)
        return len(fresh)

    async def _is_known(self, row: Delivery) -> bool:
        places = (f"{prefix}{row.webhook}/{row.id}" for prefix in (DUE, DONE))
        return any([await self._store.shelf_keys(TELLING, first=place, last=place) for place in places])

    async def waiting(self) -> list[Delivery]:
        """All that is to be sent, now or later."""
        return [_read(content) for _, content in await self._store.shelved(TELLING, first=DUE, last=DUE + _LAST)]

    async def still(self, row: Delivery) -> bool:
        """Whether it waits as it did when it was read: nobody has tried it since."""
        rows = await self._store.shelved(TELLING, first=row.key, last=row.key)
        return bool(rows) and _read(rows[0][1]) == row

    async def settle(self, before: Delivery, after: Delivery) -> bool:
        """Write down what came of a try, unless it is gone or changed since. What ended is kept for a while.

        Its session may have been erased during the try, its webhook removed, or another server may have sent it. A
        shelf has no "put if unchanged": what happens between this look and this write is not seen.
        """
        if not await self.still(before):
            return False
        items: dict[str, bytes | None] = {before.key: None} if before.key != after.key else {}
        await self._store.shelve(TELLING, {**items, after.key: msgspec.json.encode(after)})
        return True

    async def deliveries(self, webhook: str, limit: int = 100) -> list[Delivery]:
        """What a webhook is and was told lately, the newest first."""
        found: list[Delivery] = []
        for prefix in (DUE, DONE):
            place = f"{prefix}{webhook}/"
            rows = await self._store.shelved(TELLING, first=place, last=place + _LAST)
            found += [_read(content) for _, content in rows]
        return sorted(found, key=lambda one: (-one.made_at, one.id))[:limit]

    async def prune(self, now: float) -> None:
        """Forget what ended long ago."""
        rows = await self._store.shelved(TELLING, first=DONE, last=DONE + _LAST)
        await self._forget_rows(key for key, content in rows if (_read(content).ended_at or 0.0) < now - KEPT_FOR)

    async def _forget_rows(self, keys: Iterable[str]) -> None:
        items: dict[str, bytes | None] = dict.fromkeys(keys)
        if items:
            await self._store.shelve(TELLING, items)


async def forget_session(store: Store, session_id: str) -> None:
    """Forget all that is kept beside a session for inbox and webhooks: its words are in what was to be sent."""
    names = (f"{TOLD}{session_id}/",)
    rows = await store.shelved(TELLING)
    gone = [key for key, _ in rows if key.startswith(names)]
    gone += [key for key, content in rows if key.startswith((DUE, DONE)) and _read(content).session == session_id]
    if gone:
        await store.shelve(TELLING, dict.fromkeys(gone))
    place = f"{TAKEN}{session_id}/"
    taken = await store.shelf_keys(DESK, first=place, last=place + _LAST)
    if taken:
        await store.shelve(DESK, dict.fromkeys(taken))


def _where(webhook: Webhook) -> str:
    # The rest of the address may hold a key of the receiver's.
    return f"{webhook.id} to {'/'.join(webhook.url.split('/', 3)[:3])}"


def _entry(action: str, webhook: Webhook, by: str, role: str, detail: str, at: float) -> AuditEntry:
    tenant = webhook.tenant or ""
    return AuditEntry(session=SessionId(""), by=by, role=role, action=action, detail=detail, at=at, tenant=tenant)


def _read(content: bytes) -> Delivery:
    return msgspec.json.decode(content, type=Delivery)
