"""The webhooks of programs, and an outbox of their deliveries. No network here.

Registrations are on the shelf ``webhooks``, each with the secret that signs its deliveries: a signature needs the
secret itself, so a hash would not do. Only a reader of the store's file (which its owner alone may read) can see it; no
answer, log line or audit entry ever holds it.

The outbox is on the shelf ``telling``, beside people's notifications, so that a fact and its deliveries are written in
one transaction. A server claims a delivery for a while before it sends it: of several servers one does. Unreadable
records stay where they are and do not stop the others; ``midcourse doctor`` names them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from midcourse.core.audit import AuditEntry
from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import InvalidInput, Refused, ShelfChanged, StoreUnavailable
from midcourse.people.inbox import SHELF as DESK
from midcourse.people.inbox import TAKEN, TELLING, TOLD
from midcourse.people.webhooks import DONE, DUE, Delivery, Webhook
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import KeyRange, below, decoded, readable
from midcourse.ports.store import Store

T = TypeVar("T", bound=Delivery | Webhook)
WEBHOOKS: Final = "webhooks"
MOST_WEBHOOKS: Final = 100
"""Webhooks of one tenant."""
KEPT_FOR: Final = 7 * 86_400.0
"""Seconds for which a delivery is listed after its end."""
_TRIES: Final = 20


class Outbox:
    """The webhooks of a store, and what they are told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.unreadable: set[tuple[str, str]] = set()
        """Shelf and key of what was found and cannot be read: damaged, or not of this Midcourse."""

    # ---- who wants to know

    async def add(self, webhook: Webhook, *, role: str = "") -> Webhook:
        """Keep a webhook and return it; one that is kept under its id already is returned as it is.

        Raises:
            Refused: ``too_many_webhooks``; ``idempotency_key_reused``: another one is kept under its id.
        """
        await check_people_send(self._store, "add a webhook")
        ours = [one for one in await self.webhooks() if one.tenant == webhook.tenant]
        for one in ours:
            if one.id == webhook.id and (one.url, one.kinds) == (webhook.url, webhook.kinds):
                return one
            if one.id == webhook.id:
                raise Refused(
                    "This Idempotency-Key was used before, for another webhook. Use a fresh one for each.",
                    code="idempotency_key_reused",
                )
        if len(ours) >= MOST_WEBHOOKS:
            raise Refused(
                f"There are {len(ours)} webhooks; at most {MOST_WEBHOOKS} are kept. Remove one that is not needed.",
                code="too_many_webhooks",
            )
        detail = f"{_where(webhook)} for {', '.join(webhook.kinds)}"
        entry = _entry("webhook.add", webhook, webhook.by, role, detail, webhook.added_at)
        await self._store.shelve(WEBHOOKS, {webhook.id: msgspec.json.encode(webhook)}, audit=(entry,))
        return webhook

    async def webhooks(self, tenant: str | None = None) -> list[Webhook]:
        """Those of a tenant (None: all there are), the oldest first."""
        found = await self._rows(WEBHOOKS, below(""), Webhook)
        return sorted(
            (one for one in found if tenant is None or one.tenant == tenant), key=lambda one: (one.added_at, one.id)
        )

    async def webhook(self, name: str, tenant: str | None = None) -> Webhook:
        """Return one webhook.

        Raises:
            InvalidInput: ``webhook_not_found``: there is none, or it is another tenant's.
        """
        wanted = name if not tenant or MARK in name else f"{tenant}{MARK}{name}"
        found = await self._rows(WEBHOOKS, {"first": wanted, "last": wanted}, Webhook) if wanted else []
        if not found and (WEBHOOKS, wanted) in self.unreadable:  # what is left of it: it can be removed
            found = [Webhook(id=wanted, tenant=tenant_of(wanted) or None, url="", kinds=(), by="", added_at=0.0)]
        if not found or (tenant is not None and found[0].tenant != tenant):
            raise InvalidInput(
                f"There is no webhook '{name[:100]}'. List the webhooks, and name one of them.",
                code="webhook_not_found",
            )
        return found[0]

    async def remove(self, webhook: Webhook, *, by: str, role: str = "", now: float) -> None:
        """Forget a webhook, and all it was to be told."""
        await check_people_send(self._store, "remove a webhook")
        entry = _entry("webhook.remove", webhook, by, role, _where(webhook), now)
        await self._store.shelve(WEBHOOKS, {webhook.id: None}, audit=(entry,))
        for prefix in (DUE, DONE):
            await self._forget_rows(await self._store.shelf_keys(TELLING, **below(f"{prefix}{webhook.id}/")))

    async def note_gone(self, webhook: Webhook, gone_at: float | None, *, by: str, now: float) -> bool:
        """Tell a webhook nothing more, because its receiver said that it is gone; None: it is there again."""
        if webhook.gone_at == gone_at:
            return False
        action, after = ("webhook.stop" if gone_at is not None else "webhook.go_on"), replace(webhook, gone_at=gone_at)
        entry = _entry(action, webhook, by, "", _where(webhook), now)
        return await self._exchange(WEBHOOKS, webhook, {webhook.id: msgspec.json.encode(after)}, entry)

    async def put_test(self, row: Delivery, webhook: Webhook, *, by: str, role: str = "") -> None:
        """Put a trial into the outbox, and into the audit log who wanted it."""
        entry = _entry("webhook.test", webhook, by, role, _where(webhook), row.made_at)
        await self._store.shelve(TELLING, {row.key: msgspec.json.encode(row)}, audit=(entry,))

    # ---- the deliveries

    async def put(self, rows: Iterable[Delivery], facts: Mapping[str, bytes | None] | None = None) -> int:
        """Put into the outbox what is not there, nor was lately, with ``facts`` on the same shelf: one transaction.

        Raises:
            StoreUnavailable: others write the same all the time.
        """
        wanted = list(rows)
        for _ in range(_TRIES):
            fresh = [row for row in wanted if not await self._is_known(row)]
            items = {**{row.key: msgspec.json.encode(row) for row in fresh}, **(facts or {})}
            absent: dict[str, bytes | None] = dict.fromkeys(place for row in fresh for place in _places(row))
            try:
                if items:
                    await self._store.shelve(TELLING, items, expecting=absent)
            except ShelfChanged:
                continue  # another server was quicker: it is known now
            return len(fresh)
        raise StoreUnavailable("Other servers tell the same at this moment. Nothing was written; it is tried again.")

    async def _is_known(self, row: Delivery) -> bool:
        return any([await self._store.shelf_keys(TELLING, first=place, last=place) for place in _places(row)])

    async def waiting(self) -> list[Delivery]:
        """Return all readable deliveries to send, now or later."""
        return await self._rows(TELLING, below(DUE), Delivery)

    async def claim(self, row: Delivery, until: float) -> Delivery | None:
        """Make it this server's to send until then, and return it. None: it is gone, or another one has been quicker.

        Nothing else says that it is claimed than that it is not due before: if this server dies, another one sends it.
        """
        held = replace(row, next_at=until)
        return held if await self.settle(row, held) else None

    async def settle(self, before: Delivery, after: Delivery) -> bool:
        """Write down what came of a try, unless it is gone or changed since. What ended is kept for a while.

        Its session may have been erased during the try, its webhook removed, or another server may have claimed it.
        """
        return await self._exchange(TELLING, before, {before.key: None, after.key: msgspec.json.encode(after)})

    async def deliveries(self, webhook: str, limit: int | None = 100) -> list[Delivery]:
        """Return a webhook's pending and recent deliveries, the newest first."""
        found: list[Delivery] = []
        for prefix in (DUE, DONE):
            found += await self._rows(TELLING, below(f"{prefix}{webhook}/"), Delivery)
        return sorted(found, key=lambda one: (-one.made_at, one.id))[:limit]

    async def prune(self, now: float) -> None:
        """Forget what ended long ago."""
        ended = await self._rows(TELLING, below(DONE), Delivery)
        await self._forget_rows(row.key for row in ended if (row.ended_at or 0.0) < now - KEPT_FOR)

    async def look_through(self) -> None:
        """Read all of it, so that ``unreadable`` holds what cannot be."""
        await self.webhooks()
        for prefix in (DUE, DONE):
            await self._rows(TELLING, below(prefix), Delivery)

    async def _forget_rows(self, keys: Iterable[str]) -> None:
        items: dict[str, bytes | None] = dict.fromkeys(keys)
        if items:
            await self._store.shelve(TELLING, items)

    async def _rows(self, shelf: str, keys: KeyRange, kind: type[T]) -> list[T]:
        """Return the readable rows. One that is not under its own key is none of ours: it could not be settled."""
        whole, damaged = await readable(self._store, shelf, **keys)
        found = [(key, decoded(content, kind)) for key, content in whole]
        bad = {key for key, one in found if one is None or _key(one) != key}
        elsewhere = {one for one in self.unreadable if one[0] != shelf or not keys["first"] <= one[1] <= keys["last"]}
        self.unreadable = elsewhere | {(shelf, key) for key in (*damaged, *bad)}
        return [one for key, one in found if one is not None and key not in bad]

    async def _exchange(
        self, shelf: str, before: Delivery | Webhook, items: Mapping[str, bytes | None], *audit: AuditEntry
    ) -> bool:
        """Write ``items``, unless the record is gone or has changed since it was read."""
        key = _key(before)
        whole, _ = await readable(self._store, shelf, first=key, last=key)
        if not whole or decoded(whole[0][1], type(before)) != before:
            return False
        try:
            await self._store.shelve(shelf, items, expecting={key: whole[0][1]}, audit=audit)
        except ShelfChanged:
            return False
        return True


async def forget_session(store: Store, session_id: str) -> None:
    """Forget all that is kept beside a session for inbox and webhooks: its words are in what was to be sent."""
    rows, _ = await readable(store, TELLING)
    gone = [key for key in await store.shelf_keys(TELLING) if key.startswith(f"{TOLD}{session_id}/")]
    gone += [key for key, content in rows if key.startswith((DUE, DONE)) and _session(content) == session_id]
    if gone:
        await store.shelve(TELLING, dict.fromkeys(gone))
    taken = await store.shelf_keys(DESK, **below(f"{TAKEN}{session_id}/"))
    if taken:
        await store.shelve(DESK, dict.fromkeys(taken))


def _places(row: Delivery) -> tuple[str, str]:
    return f"{DUE}{row.webhook}/{row.id}", f"{DONE}{row.webhook}/{row.id}"


def _where(webhook: Webhook) -> str:
    # The rest of the address may hold a key of the receiver's.
    return f"{webhook.id} to {'/'.join(webhook.url.split('/', 3)[:3])}"


def _entry(action: str, webhook: Webhook, by: str, role: str, detail: str, at: float) -> AuditEntry:
    tenant = webhook.tenant or ""
    return AuditEntry(session=SessionId(""), by=by, role=role, action=action, detail=detail, at=at, tenant=tenant)


def _key(one: Delivery | Webhook) -> str:
    return one.key if isinstance(one, Delivery) else one.id


def _session(content: bytes) -> str:
    row = decoded(content, Delivery)
    return "" if row is None else row.session
