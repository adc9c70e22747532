"""Webhooks: the programs that are notified of what happens, and their responses. They take the role ``operate``."""

from collections.abc import Sequence
from typing import Final

import msgspec

from midcourse.handle.verb import Verbs, served
from midcourse.people.outbox import Outbox
from midcourse.people.webhook_sender import made_webhook, try_out
from midcourse.people.webhooks import DeliveryView, WebhookView, check_kinds, delivery_view, webhook_view

_COUNTED: Final = 1000
"""Deliveries that the state of a webhook is computed from."""
_UNSENT: Final = ("by", "tenant", "key")


def _made(content: bytes) -> tuple[WebhookView, str]:
    sent = msgspec.json.decode(content)
    return msgspec.convert(sent["webhook"], WebhookView), sent["secret"]


class Webhooks(Verbs):
    """The webhooks of an open store or of a server.

    ``tenant`` is whose are found, and ``key`` what a retry has in common with the first try: a server knows both.
    """

    @served("webhooks", method="POST", check=check_kinds, reads=_made, unsent=_UNSENT)
    async def add(
        self,
        url: str,
        kinds: Sequence[str],
        *,
        about: str = "",
        by: str = "local",
        tenant: str | None = None,
        key: str = "",
    ) -> tuple[WebhookView, str]:
        """Notify ``url`` of what happens from now on. The secret that signs it is returned this once.

        Raises:
            InvalidInput: there is no such kind, or the address cannot be used.
            Refused: there are as many webhooks as are kept.
        """
        clock = self._worker.clock
        made = await made_webhook(clock, url=url, kinds=kinds, about=about, tenant=tenant, by=by, key=key)
        made = await self._outbox.add(made, role=self._role)
        return webhook_view(made), made.secret

    @served("webhooks", item=WebhookView, within="webhooks", unsent=_UNSENT)
    async def list(self, *, tenant: str | None = None) -> Sequence[WebhookView]:
        """The webhooks, and whether notifications arrive."""
        found = await self._outbox.webhooks(tenant)
        return [webhook_view(one, await self._outbox.deliveries(one.id, _COUNTED)) for one in found]

    @served("webhooks/{webhook}", method="DELETE", reads=lambda _: None, unsent=_UNSENT)
    async def remove(self, webhook: str, *, by: str = "local", tenant: str | None = None) -> None:
        """Remove a webhook, and the notifications that wait for it."""
        found = await self._outbox.webhook(webhook, tenant)
        await self._outbox.remove(found, by=by, role=self._role, now=self._worker.clock.now())

    @served("webhooks/{webhook}/test", DeliveryView, method="POST", unsent=_UNSENT)
    async def test(self, webhook: str, *, by: str = "local", tenant: str | None = None, key: str = "") -> DeliveryView:
        """Send it a test notification, once, and return what came of that."""
        found = await self._outbox.webhook(webhook, tenant)
        return delivery_view(await try_out(self._outbox, found, self._worker.clock, by=by, role=self._role, key=key))

    @served("webhooks/{webhook}/deliveries", item=DeliveryView, within="deliveries", unsent=_UNSENT)
    async def deliveries(self, webhook: str, limit: int = 100, *, tenant: str | None = None) -> Sequence[DeliveryView]:
        """The notifications of the last seven days, the newest first."""
        found = await self._outbox.webhook(webhook, tenant)
        return [delivery_view(one) for one in await self._outbox.deliveries(found.id, limit)]

    @property
    def _outbox(self) -> Outbox:
        return Outbox(self._worker.store)
