"""``midcourse webhook``: programs that are notified of asks, alarms and stops, and their responses."""

from typing import Annotated

import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, show_table
from midcourse.cli.status_text import ago, span
from midcourse.cli.target import argument, opened, option
from midcourse.clock import SystemClock
from midcourse.people.webhooks import ALL, KINDS, DeliveryView, WebhookView

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

    async with opened(call, make=True) as sessions:
        made, secret = await sessions.webhooks.add(address, kinds or [ALL], about=about)
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

    async with opened(call, make=True) as sessions:
        found = await sessions.webhooks.list()
    if call.as_json:
        print_json({"webhooks": found})
    elif not found:
        print_lines("There are no webhooks. Add one: midcourse webhook add ADDRESS")
    else:
        now = SystemClock().now()
        rows = [(one.id, ", ".join(one.kinds), _standing(one, now), one.url, one.about) for one in found]
        show_table(("webhook", "kinds", "state", "address", "about"), rows, whole=("webhook",))


def _standing(one: WebhookView, now: float) -> str:
    words = "no failures" if one.failing_since is None else f"fails since {ago(one.failing_since, now)}"
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

    async with opened(call, make=True) as sessions:
        await sessions.webhooks.remove(webhook)
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

    async with opened(call, make=True) as sessions:
        made = await sessions.webhooks.test(webhook)
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

    async with opened(call, make=True) as sessions:
        found = await sessions.webhooks.deliveries(webhook, limit)
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
