"""``midcourse webhook``: programs that are notified of asks, alarms and stops, and their responses."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

import midcourse
from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, show_table
from midcourse.cli.status_text import ago, span
from midcourse.cli.target import DEFAULT_STORE, LOCAL, Target, argument, option, token_for
from midcourse.clock import SystemClock
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import ALL, KINDS, DeliveryView, WebhookView, delivery_view, webhook_view
from midcourse.wiring import open_store

if TYPE_CHECKING:
    from midcourse.ports.store import Store

WebhookArgument = Annotated[str, argument("WEBHOOK", "Its id, from midcourse webhook list.")]


@command("webhook add", "Notify a program of what happens.")
async def add(
    call: Call,
    address: Annotated[str, argument("ADDRESS", "The endpoint: http:// or https://….")],
    kinds: Annotated[
        list[str] | None, option("--kind", "KIND", f"May be repeated: {', '.join(KINDS)}. Default: all of them.")
    ] = None,
    about: Annotated[str, option("--about", "TEXT", "A note on its purpose.")] = "",
) -> None:
    """Notify a program of what happens from now on. Prints the signing secret, only once.

    \b
    Examples:
      midcourse webhook add https://pager.example.com/midcourse
      midcourse webhook add https://pager.example.com/midcourse --kind ask.opened --kind ask.escalated
    """

    async with _webhooks(call) as webhooks:
        made, secret = await webhooks.add(address, kinds or [ALL], about=about)
    if call.as_json:
        print_json({"webhook": made, "secret": secret})
    else:
        print_lines(f"{made.id} is notified of {', '.join(made.kinds)}.", "Its secret, shown this once:", secret)


@command("webhook list", "List them, and whether it arrives.")
async def show(call: Call) -> None:
    """List the webhooks, and whether notifications arrive. Never their secrets.

    \b
    Examples:
      midcourse webhook list
    """

    async with _webhooks(call) as webhooks:
        found = await webhooks.list()
    if call.as_json:
        print_json({"webhooks": found})
    elif not found:
        print_lines("There are no webhooks. Add one: midcourse webhook add ADDRESS")
    else:
        now = SystemClock().now()
        rows = [(one.id, ", ".join(one.kinds), _standing(one, now), one.url, one.about) for one in found]
        show_table(("webhook", "kinds", "state", "address", "about"), rows, whole=("webhook",))


def _standing(one: WebhookView, now: float) -> str:
    words = "nothing fails" if one.failing_since is None else f"fails since {ago(one.failing_since, now)}"
    if one.gone_at is not None:
        words = f"gone since {ago(one.gone_at, now)} (410)"
    words += f", {one.waiting} waiting" if one.waiting else ""
    return words + (f", {one.given_up} given up" if one.given_up else "")


@command("webhook remove", "Remove one.")
async def remove(call: Call, webhook: WebhookArgument) -> None:
    """Remove a webhook, and the notifications that wait for it.

    \b
    Examples:
      midcourse webhook remove wh_1a2b3c
    """

    async with _webhooks(call) as webhooks:
        await webhooks.remove(webhook)
    if call.as_json:
        print_json({"removed": webhook})
    else:
        print_lines(f"'{webhook}' is removed.")


@command("webhook test", "Send a test notification.")
async def try_it(call: Call, webhook: WebhookArgument) -> None:
    """Send a test notification once, and report the response. Exits with 1 if it did not arrive.

    \b
    Examples:
      midcourse webhook test wh_1a2b3c
    """

    async with _webhooks(call) as webhooks:
        made = await webhooks.test(webhook)
    if call.as_json:
        print_json(made)
    else:
        print_lines(f"{made.id}: {_outcome(made)}")
    if made.state != "delivered":
        raise typer.Exit(1)


@command("webhook deliveries", "List what was sent.")
async def deliveries(
    call: Call,
    webhook: WebhookArgument,
    limit: Annotated[int, option("--limit", "NUMBER", "List at most so many.", min=1, max=1000)] = 20,
) -> None:
    """List the notifications of the last seven days, the newest first, and their responses.

    \b
    Examples:
      midcourse webhook deliveries wh_1a2b3c
    """

    async with _webhooks(call) as webhooks:
        found = await webhooks.deliveries(webhook, limit)
    if call.as_json:
        print_json({"deliveries": found})
    elif not found:
        print_lines(f"Nothing was sent to '{webhook}' so far.")
    else:
        now = SystemClock().now()
        rows = [(ago(one.made_at, now), one.kind, one.session, one.id, _outcome(one, now)) for one in found]
        show_table(("when", "kind", "session", "id", "response"), rows, whole=("when", "kind", "id"))


def _outcome(one: DeliveryView, now: float | None = None) -> str:
    said = one.problem or (f"answered with {one.status}" if one.status is not None else "not tried yet")
    if one.state == "delivered":
        return f"delivered, {said}"
    if one.state == "given_up":
        return f"given up after {one.tries} tries: {said}" if one.tries > 1 else f"did not arrive: {said}"
    again = "" if one.next_at is None or now is None else f"; again in {span(one.next_at - now)}"
    return f"{said}{again}"


class _Webhooks(Protocol):
    """The operations that a store and a server both have."""

    async def add(self, url: str, kinds: Sequence[str], *, about: str = "") -> tuple[WebhookView, str]: ...
    async def list(self) -> Sequence[WebhookView]: ...
    async def remove(self, webhook: str) -> None: ...
    async def test(self, webhook: str) -> DeliveryView: ...
    async def deliveries(self, webhook: str, limit: int = 100) -> Sequence[DeliveryView]: ...


class _OfStore:
    """The webhooks of a file here. A user who may write to it is its host's operator."""

    def __init__(self, store: "Store") -> None:
        self._outbox = Outbox(store)
        self._clock = SystemClock()

    async def add(self, url: str, kinds: Sequence[str], *, about: str = "") -> tuple[WebhookView, str]:
        from midcourse.people.webhook_sender import made_webhook

        made = await made_webhook(self._clock, url=url, kinds=kinds, about=about, tenant=None, by=LOCAL)
        await self._outbox.add(made, role="operate")
        return webhook_view(made), made.secret

    async def list(self) -> Sequence[WebhookView]:
        found = await self._outbox.webhooks()
        return [webhook_view(one, await self._outbox.deliveries(one.id, 1000)) for one in found]

    async def remove(self, webhook: str) -> None:
        found = await self._outbox.webhook(webhook)
        await self._outbox.remove(found, by=LOCAL, role="operate", now=self._clock.now())

    async def test(self, webhook: str) -> DeliveryView:
        from midcourse.people.webhook_sender import try_out

        found = await self._outbox.webhook(webhook)
        return delivery_view(await try_out(self._outbox, found, self._clock, by=LOCAL, role="operate"))

    async def deliveries(self, webhook: str, limit: int = 100) -> Sequence[DeliveryView]:
        found = await self._outbox.webhook(webhook)
        return [delivery_view(one) for one in await self._outbox.deliveries(found.id, limit)]


@asynccontextmanager
async def _webhooks(target: Target) -> AsyncGenerator[_Webhooks]:
    server = target.server
    if server is not None:
        async with midcourse.connect(server, token=token_for(target, server)) as remote:
            yield remote.webhooks
        return
    opened = await open_store(target.store or DEFAULT_STORE)
    try:
        yield _OfStore(opened)
    finally:
        await opened.close()
