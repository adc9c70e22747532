"""The webhooks of a server, over HTTP: who is told of what, and what came of it. They take the role ``operate``."""

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from midcourse.core.request_checks import check_text
from midcourse.handle.http.connection import HttpConnection
from midcourse.people.webhooks import DeliveryView, WebhookView, check_kinds


class _Made(msgspec.Struct, frozen=True):
    webhook: WebhookView
    secret: str


class RemoteWebhooks:
    """What a server keeps of webhooks. Made by ``RemoteMidcourse.webhooks``."""

    def __init__(self, wire: HttpConnection) -> None:
        self._wire = wire

    async def add(self, url: str, kinds: Sequence[str], *, about: str = "") -> tuple[WebhookView, str]:
        """Tell ``url`` of what happens from now on; and the secret that signs it, which is shown this once.

        Raises:
            InvalidInput: there is no such kind, or the address cannot be used.
            Refused: there are as many webhooks as are kept.
        """
        body = {"url": check_text(url, "url"), "kinds": list(check_kinds(kinds)), "about": about}
        made = self._wire.read(await self._wire.send("POST", "webhooks", body=body), _Made)
        return made.webhook, made.secret

    async def list(self) -> Sequence[WebhookView]:
        """The webhooks, and whether what they are told arrives."""
        return await self._wire.items("webhooks", "webhooks", WebhookView)

    async def remove(self, webhook: str) -> None:
        """Forget a webhook, and what it was still to be told."""
        await self._wire.send("DELETE", _path(webhook))

    async def test(self, webhook: str) -> DeliveryView:
        """Send it something, once, and tell what came of that."""
        return self._wire.read(await self._wire.send("POST", f"{_path(webhook)}/test"), DeliveryView)

    async def deliveries(self, webhook: str, limit: int = 100) -> Sequence[DeliveryView]:
        """What it is and was told in the last seven days, the newest first."""
        return await self._wire.items(f"{_path(webhook)}/deliveries", "deliveries", DeliveryView, limit=limit)


def _path(webhook: str) -> str:
    return f"webhooks/{quote(check_text(webhook, 'webhook'), safe='')}"
