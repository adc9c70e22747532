"""Send the outbox: signed, within limits, with retries. A slow receiver does not delay the others.

Webhooks take turns, one that fails has one place, and a tenant never holds more places than are left free: so there are
places for the others while some hang. A receiver's wishes are obeyed: later (``Retry-After``), or never again (410).

Redirects are not followed, and little is read of an answer. A tenant's webhook may only go to public addresses, checked
with every try: a name may lead elsewhere tomorrow.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from midcourse._version import __version__
from midcourse.core.codec import ERASED
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.people.outbox import Outbox
from midcourse.people.webhook_signature import encode_secret, new_key, signed
from midcourse.people.webhooks import (
    ABOUT_LIMIT,
    LONGEST_WAIT,
    TEST,
    TEXT_LIMIT,
    URL_LIMIT,
    Delivery,
    DeliveryOutcome,
    Webhook,
    check_kinds,
    delivery,
    tried,
)
from midcourse.ports.clock import Clock
from midcourse.tools.http_request import RequestLimits, WebResponse, check_address, request

log = logging.getLogger("midcourse.server")
PATIENCE: Final = 10.0
"""Seconds that a receiver has to answer."""
LEASE: Final = 1.5 * PATIENCE
"""Seconds for which what is sent is this server's. If it dies meanwhile, another one sends it then."""
RECEIVER: Final = "receiver"
"""The one who stopped a webhook: its receiver asked for it."""
AT_ONCE: Final = 4
"""The most that one webhook is sent at the same time."""
IN_ALL: Final = 200
"""The most that is sent at the same time, to all of them."""
READ: Final = 1000
"""Bytes that are read of an answer."""
LOOKED_UP: Final = 5.0
"""Seconds that the name of a new webhook's host may take to be looked up."""


class Sender:
    """Send for one server, each try in a task of its own."""

    def __init__(self, outbox: Outbox, clock: Clock) -> None:
        self._outbox = outbox
        self._clock = clock
        self._flying: dict[str, asyncio.Task[None]] = {}
        self._failing: set[str] = set()
        """The webhooks whose last try did not arrive."""
        self._left_alone: dict[str, float] = {}
        """The webhooks whose receivers asked to be left alone, and until when."""

    def send_due(self, rows: Sequence[Delivery], webhooks: Sequence[Webhook]) -> None:
        """Begin with what is due, as far as there are places for its webhook and tenant. Returns at once."""
        known = {one.id: one for one in webhooks}
        self._failing &= known.keys()
        self._left_alone = {name: until for name, until in self._left_alone.items() if name in known}
        busy = Counter(key.partition("/")[2].rpartition("/")[0] for key in self._flying)
        held: Counter[str] = Counter()
        for webhook, places in busy.items():
            held[tenant_of(webhook)] += places
        for row in self._in_turn(rows, busy):
            tenant = tenant_of(row.webhook)
            if held[tenant] < IN_ALL - len(self._flying):
                held[tenant] += 1
                task = asyncio.create_task(self._try(row, known.get(row.webhook)))
                self._flying[row.key] = task
                task.add_done_callback(lambda _, key=row.key: self._flying.pop(key, None))

    def _in_turn(self, rows: Sequence[Delivery], busy: Mapping[str, int]) -> list[Delivery]:
        """Return what is due and has a place at its webhook: first the only deliveries of one, then second ones."""
        now = self._clock.now()
        places = Counter(busy)
        found: list[tuple[int, bool, Delivery]] = []
        for row in sorted(rows, key=lambda one: one.next_at):
            fails = row.webhook in self._failing
            due_at = max(row.next_at, self._left_alone.get(row.webhook, 0.0))
            if due_at <= now and row.key not in self._flying and places[row.webhook] < (1 if fails else AT_ONCE):
                found.append((places[row.webhook], fails, row))
                places[row.webhook] += 1
        return [row for *_, row in sorted(found, key=lambda one: one[:2])]

    async def end(self) -> None:
        """Give up what is in flight: it is still in the outbox."""
        flying = list(self._flying.values())
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)

    async def _try(self, row: Delivery, webhook: Webhook | None) -> None:
        try:
            held = await self._outbox.claim(row, self._clock.now() + LEASE)
            if held is None:
                return  # another server has it, or it was read before the last try was written down
            await settle(self._outbox, held, await self._outcome(held, webhook), self._clock)
        except MidcourseError as error:
            log.warning("the outcome of delivery %s could not be stored; it is sent again: %s", row.id, error)

    async def _outcome(self, row: Delivery, webhook: Webhook | None) -> DeliveryOutcome:
        if row.body == ERASED:
            return DeliveryOutcome(is_over=True, problem="the session was erased")
        if webhook is None:
            return DeliveryOutcome(is_over=True, problem="the webhook was removed")
        if webhook.gone_at is not None:
            return DeliveryOutcome(is_over=True, problem="the receiver said before that it is gone (410)")
        outcome = await attempt(webhook, row, self._clock)
        (self._failing.discard if outcome.is_good else self._failing.add)(webhook.id)
        now = self._clock.now()
        if outcome.wait:
            self._left_alone[webhook.id] = now + min(outcome.wait, LONGEST_WAIT)
        if outcome.is_gone and await self._outbox.note_gone(webhook, now, by=RECEIVER, now=now):
            log.warning(
                "webhook %s gets nothing more: its receiver answered 410 (gone). When it is there again: "
                "midcourse webhook test %s",
                webhook.id,
                webhook.id,
            )
        return outcome


async def settle(outbox: Outbox, row: Delivery, outcome: DeliveryOutcome, clock: Clock) -> None:
    """Write down what came of a try, and say so if it was the last one."""
    made = tried(row, outcome, clock.now(), clock.random())
    if await outbox.settle(row, made) and made.state == "given_up":
        why = made.problem or f"it was answered with {made.status}"
        log.warning("delivery %s to webhook %s is given up after %s tries: %s", made.id, made.webhook, made.tries, why)


async def attempt(webhook: Webhook, row: Delivery, clock: Clock) -> DeliveryOutcome:
    """Send it once, and tell what came of it."""
    began = clock.monotonic()
    limits = RequestLimits(
        allow_hosts=None, allow_private=webhook.tenant is None, limit=READ, timeout=PATIENCE, cuts=True
    )
    try:
        headers = {
            "content-type": "application/json",
            "user-agent": f"midcourse/{__version__}",
            **signed(webhook.secret, row.id, int(clock.now()), row.body.encode()),
        }
        answer = await request("POST", webhook.url, limits=limits, headers=headers, body=row.body)
    except MidcourseError as error:
        return DeliveryOutcome(problem=_problem(error, webhook.url), seconds=clock.monotonic() - began)
    except Exception:
        log.exception("delivery %s to webhook %s could not be sent: unexpected", row.id, webhook.id)
        return DeliveryOutcome(
            problem="It could not be sent; the server's log says more.", seconds=clock.monotonic() - began
        )
    said = answer.body[:TEXT_LIMIT] if answer.encoding == "text" else ""
    return DeliveryOutcome(
        status=answer.status,
        answer=said,
        problem=_redirect(answer),
        seconds=clock.monotonic() - began,
        wait=_asked_to_wait(answer, clock.now()),
    )


def _redirect(answer: WebResponse) -> str:
    """Describe an answer that is a redirect. Only the host of the address: the rest may hold a key."""
    location = answer.headers.get("location", "")
    if answer.status not in (301, 302, 303, 307, 308) or not location:
        return ""
    try:
        host = urlsplit(location).hostname or "another address of the same host"
    except ValueError:
        host = "what is no address"
    where = host[:100] if host.isascii() and host.isprintable() else "what is no address"
    return f"It redirects to {where}, which is not followed. Add the webhook with that address."


def _asked_to_wait(answer: WebResponse, now: float) -> float:
    """Return the seconds of a Retry-After, given as such or as a date; 0 if there is none that can be read."""
    written = answer.headers.get("retry-after", "").strip()
    if answer.status not in (429, 503) or not written:
        return 0.0
    if written.isascii() and written.isdigit():
        return min(float(written[:12]), LONGEST_WAIT)
    try:
        at = parsedate_to_datetime(written)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now), LONGEST_WAIT)


async def made_webhook(
    clock: Clock, *, url: str, kinds: Sequence[str], about: str, tenant: str | None, by: str, key: str = ""
) -> Webhook:
    """Make a new webhook with a secret of its own. ``key``: shared by the retries of one request.

    Raises:
        InvalidInput: there is no such kind, or the address cannot be used.
    """
    wanted = check_kinds(kinds)
    if len(about) > ABOUT_LIMIT:
        raise InvalidInput(f"'about' has {len(about)} characters; at most {ABOUT_LIMIT} are allowed.", field="about")
    await _check_url(url, allow_private=tenant is None)
    name = f"wh_{key or clock.fresh_id()}"
    return Webhook(
        id=f"{tenant}{MARK}{name}" if tenant else name,
        tenant=tenant,
        url=url,
        kinds=wanted,
        by=by,
        added_at=clock.now(),
        about=about,
        secret=encode_secret(new_key()),
    )


async def try_out(
    outbox: Outbox, webhook: Webhook, clock: Clock, *, by: str, role: str = "", key: str = ""
) -> Delivery:
    """Send a webhook something to see whether it arrives, once, and return what came of it.

    ``key``: what a retry has in common with the first try, which it does not repeat.
    """
    now = clock.now()
    made = delivery(webhook, TEST, (key or clock.fresh_id(),), {"webhook": webhook.id, "by": by}, now=now)
    for earlier in await outbox.deliveries(webhook.id) if key else ():
        if earlier.id == made.id:
            return earlier
    # The sender of the outbox does not touch it meanwhile.
    row = replace(made, next_at=now + LEASE)
    await outbox.put_test(row, webhook, by=by, role=role)
    outcome = await attempt(webhook, row, clock)
    after = tried(row, outcome, clock.now())
    if outcome.is_good or outcome.is_gone:
        await outbox.note_gone(webhook, after.tried_at if outcome.is_gone else None, by=by, now=clock.now())
    ended = after if after.ended_at is not None else replace(after, state="given_up", ended_at=after.tried_at)
    await outbox.settle(row, ended)
    return ended


async def _check_url(url: str, *, allow_private: bool) -> None:
    if not 0 < len(url) <= URL_LIMIT or not url.isascii() or not url.isprintable():
        raise InvalidInput(
            f"A webhook's address is http:// or https:// and a host, at most {URL_LIMIT} ASCII characters.", field="url"
        )
    try:
        async with asyncio.timeout(LOOKED_UP):
            await check_address(url, allow_private=allow_private)
    except TimeoutError:
        raise InvalidInput(
            f"The host of {url} could not be looked up in {LOOKED_UP:g} s. Try again.", field="url"
        ) from None
    except MidcourseError as error:
        raise InvalidInput(_problem(error, url), field="url", code="address_refused") from error


def _problem(error: MidcourseError, url: str) -> str:
    # Of the address its host: it is listed and logged, and the rest may hold a key of the receiver's.
    words = str(error).replace(url, "/".join(url.split("/", 3)[:3]))
    return words.partition("; web(")[0].rstrip(".") + "."
