"""``midcourse webhook``: programs that are told of asks, alarms and stops, and what came of telling them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

import midcourse
from midcourse.cli.opening import DEFAULT_STORE, HERE, JsonOption, Target, token_for, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say, show_table
from midcourse.cli.words import ago, span
from midcourse.core.webhooks import ALL, KINDS, DeliveryView, WebhookView, delivery_view, webhook_view
from midcourse.runtime.clock import SystemClock
from midcourse.runtime.outbox import Outbox
from midcourse.wiring import open_store

if TYPE_CHECKING:
    from midcourse.ports.store import Store

app = typer.Typer(
    help="Programs that a server tells of asks, alarms and stops, signed. Over HTTP they take the role operate.",
    no_args_is_help=True,
)
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its id, as the list says.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="webhook", short_help="Programs that are told of asks and stops.")


@app.command("add", short_help="Tell a program of what happens.")
@with_target
def add(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where it is sent: http:// or https://….")],
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help=f"May be repeated: {', '.join(KINDS)}. Without it: all of them."),
    ] = None,
    about: Annotated[str, typer.Option("--about", metavar="TEXT", help="What it is for.")] = "",
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Tell a program of what happens from now on. Prints the secret that signs it, this once.

    \b
    Examples:
      midcourse webhook add https://pager.example.com/midcourse
      midcourse webhook add https://pager.example.com/midcourse --kind ask.opened --kind ask.escalated
    """

    async def work() -> None:
        async with _webhooks(target) as webhooks:
            made, secret = await webhooks.add(address, kinds or [ALL], about=about)
        if as_json:
            print_json({"webhook": made, "secret": secret})
        else:
            say(f"{made.id} is told of {', '.join(made.kinds)}.", "Its secret, shown this once:", secret)

    carry_out(work(), as_json=as_json)


@app.command("list", short_help="List them, and whether it arrives.")
@with_target
def show(target: Target = HERE, as_json: JsonOption = False) -> None:
    """List the webhooks, and whether what they are told arrives. Never their secrets."""

    async def work() -> None:
        async with _webhooks(target) as webhooks:
            found = await webhooks.list()
        if as_json:
            print_json({"webhooks": found})
        elif not found:
            say("No program is told of anything. Add one: midcourse webhook add ADDRESS")
        else:
            now = SystemClock().now()
            rows = [(one.id, ", ".join(one.kinds), _standing(one, now), one.url, one.about) for one in found]
            show_table(("webhook", "told of", "stands", "address", "about"), rows, whole=("webhook",))

    carry_out(work(), as_json=as_json)


def _standing(one: WebhookView, now: float) -> str:
    words = "nothing fails" if one.failing_since is None else f"fails since {ago(one.failing_since, now)}"
    if one.gone_at is not None:
        words = f"gone since {ago(one.gone_at, now)} (410)"
    words += f", {one.waiting} waiting" if one.waiting else ""
    return words + (f", {one.given_up} given up" if one.given_up else "")


@app.command("remove", short_help="Forget one.")
@with_target
def remove(
    webhook: WebhookArgument,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Forget a webhook, and what it was still to be told."""

    async def work() -> None:
        async with _webhooks(target) as webhooks:
            await webhooks.remove(webhook)
        if as_json:
            print_json({"removed": webhook})
        else:
            say(f"'{webhook}' is told nothing any more.")

    carry_out(work(), as_json=as_json)


@app.command("test", short_help="Send one something, once.")
@with_target
def try_it(
    webhook: WebhookArgument,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Send a webhook something, once, and say what came of it. Exits with 1 if it did not arrive."""

    async def work() -> None:
        async with _webhooks(target) as webhooks:
            made = await webhooks.test(webhook)
        if as_json:
            print_json(made)
        else:
            say(f"{made.id}: {_outcome(made)}")
        if made.state != "delivered":
            raise typer.Exit(1)

    carry_out(work(), as_json=as_json)


@app.command("deliveries", short_help="List what one is and was told.")
@with_target
def deliveries(
    webhook: WebhookArgument,
    limit: Annotated[int, typer.Option("--limit", metavar="NUMBER", min=1, max=1000, help="The most.")] = 20,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """List what a webhook is and was told in the last seven days, the newest first, and what it answered."""

    async def work() -> None:
        async with _webhooks(target) as webhooks:
            found = await webhooks.deliveries(webhook, limit)
        if as_json:
            print_json({"deliveries": found})
        elif not found:
            say(f"'{webhook}' was told nothing so far.")
        else:
            now = SystemClock().now()
            rows = [(ago(one.made_at, now), one.kind, one.session, one.id, _outcome(one, now)) for one in found]
            show_table(("when", "kind", "session", "id", "came of it"), rows, whole=("when", "kind", "id"))

    carry_out(work(), as_json=as_json)


def _outcome(one: DeliveryView, now: float | None = None) -> str:
    said = one.problem or (f"answered with {one.status}" if one.status is not None else "not tried yet")
    if one.state == "delivered":
        return f"delivered, {said}"
    if one.state == "given_up":
        return f"given up after {one.tries} tries: {said}" if one.tries > 1 else f"did not arrive: {said}"
    again = "" if one.next_at is None or now is None else f"; again in {span(one.next_at - now)}"
    return f"{said}{again}"


class _Webhooks(Protocol):
    """What a store and a server both can do."""

    async def add(self, url: str, kinds: Sequence[str], *, about: str = "") -> tuple[WebhookView, str]: ...
    async def list(self) -> Sequence[WebhookView]: ...
    async def remove(self, webhook: str) -> None: ...
    async def test(self, webhook: str) -> DeliveryView: ...
    async def deliveries(self, webhook: str, limit: int = 100) -> Sequence[DeliveryView]: ...


class _OfStore:
    """The webhooks of a file here. Whoever may write to it is its host's operator."""

    def __init__(self, store: "Store") -> None:
        self._outbox = Outbox(store)
        self._clock = SystemClock()

    async def add(self, url: str, kinds: Sequence[str], *, about: str = "") -> tuple[WebhookView, str]:
        from midcourse.server.sending import made_webhook

        made = await made_webhook(self._clock, url=url, kinds=kinds, about=about, tenant=None, by=me())
        await self._outbox.add(made, role="operate")
        return webhook_view(made), made.secret

    async def list(self) -> Sequence[WebhookView]:
        found = await self._outbox.webhooks()
        return [webhook_view(one, await self._outbox.deliveries(one.id, 1000)) for one in found]

    async def remove(self, webhook: str) -> None:
        found = await self._outbox.webhook(webhook)
        await self._outbox.remove(found, by=me(), role="operate", now=self._clock.now())

    async def test(self, webhook: str) -> DeliveryView:
        from midcourse.server.sending import try_out

        found = await self._outbox.webhook(webhook)
        return delivery_view(await try_out(self._outbox, found, self._clock, by=me(), role="operate"))

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
