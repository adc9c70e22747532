"""Webhooks: their subscriptions, their deliveries, and the times of retries. Pure.

A delivery's id is made of its content and its receiver: if a server dies and begins again, the same thing has the same
id.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from midcourse.errors import InvalidInput

Kind = Literal[
    "ask.opened",
    "ask.reminder",
    "ask.escalated",
    "ask.closed",
    "alarms.batched",
    "kill_switch.thrown",
    "kill_switch.lifted",
    "review.proposed",
]
State = Literal["waiting", "delivered", "given_up"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
TEST: Final = "webhook.test"
ALL: Final = "*"
VERSION: Final = 1
"""Of what is sent: it rises when a field changes its meaning or goes away. New fields come without notice."""
URL_LIMIT: Final = 2000
ABOUT_LIMIT: Final = 200
TEXT_LIMIT: Final = 200
"""Characters of the longest text that is sent."""
BACKOFF: Final = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0)
"""Seconds after each failed try. After the last, in about a day, it is given up."""
LONGEST_WAIT: Final = BACKOFF[-1]
"""Seconds that a receiver may ask to be left alone for."""
DUE: Final = "due/"
DONE: Final = "done/"


class Webhook(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A subscription of a program. ``tenant`` None: the host's own, notified of all tenants.

    ``gone_at``: when its receiver answered that it is gone (410). It gets nothing since, until a trial arrives.
    """

    id: str
    tenant: str | None
    url: str
    kinds: tuple[str, ...]
    by: str
    added_at: float
    about: str = ""
    secret: str = ""
    gone_at: float | None = None

    def __repr__(self) -> str:
        return f"<Webhook {self.id} for {', '.join(self.kinds)}>"

    def wants(self, kind: str, tenant: str | None = None) -> bool:
        """Return True if it is notified of this; ``tenant`` None: its tenant was checked before."""
        return (None in (self.tenant, tenant) or self.tenant == tenant) and (kind in self.kinds or ALL in self.kinds)


class Delivery(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that one webhook is told. ``status`` and ``answer`` are the receiver's, ``problem`` is ours."""

    id: str
    webhook: str
    kind: str
    made_at: float
    body: str
    session: str = ""
    state: State = "waiting"
    tries: int = 0
    next_at: float = 0.0
    tried_at: float | None = None
    ended_at: float | None = None
    status: int | None = None
    answer: str = ""
    problem: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """Its place in the outbox."""
        return f"{DONE if self.ended_at is not None else DUE}{self.webhook}/{self.id}"


class WebhookView(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A webhook without its secret. ``failing_since``: nothing has arrived since then, and something should have.

    ``gone_at``: when its receiver answered that it is gone (410): it is told nothing more, until a test arrives.
    """

    id: str
    tenant: str | None
    url: str
    kinds: tuple[str, ...]
    about: str
    by: str
    added_at: float
    waiting: int = 0
    given_up: int = 0
    failing_since: float | None = None
    gone_at: float | None = None


class DeliveryView(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A delivery without its body. ``next_at``: when it is tried again, if it is. ``answer``: how the answer began."""

    id: str
    webhook: str
    kind: str
    session: str
    state: State
    made_at: float
    tries: int
    tried_at: float | None
    next_at: float | None
    ended_at: float | None
    status: int | None
    answer: str
    problem: str
    seconds: float


def delivery_view(row: Delivery) -> DeliveryView:
    """Return a delivery as lists show it."""
    shown: dict[str, Any] = {name: getattr(row, name) for name in DeliveryView.__struct_fields__}
    shown["next_at"] = row.next_at if row.state == "waiting" else None
    return DeliveryView(**shown)


def webhook_view(webhook: Webhook, rows: Iterable[Delivery] = ()) -> WebhookView:
    """Return a webhook as lists show it, with its state by its recent deliveries."""
    told = sorted(rows, key=lambda one: one.tried_at or 0.0)
    failing: float | None = None
    for row in told:
        if row.tried_at is not None:
            failing = None if row.state == "delivered" else failing or row.tried_at
    shown = {name: getattr(webhook, name) for name in WebhookView.__struct_fields__ if hasattr(webhook, name)}
    return WebhookView(
        **shown,
        waiting=sum(row.state == "waiting" for row in told),
        given_up=sum(row.state == "given_up" for row in told),
        failing_since=failing,
    )


class DeliveryOutcome(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The result of one try. ``wait``: the seconds that the receiver asked to wait.

    ``is_over``: nothing was sent, and nothing will be.
    """

    status: int | None = None
    answer: str = ""
    problem: str = ""
    seconds: float = 0.0
    wait: float = 0.0
    is_over: bool = False

    @property
    def is_good(self) -> bool:
        """True if the receiver has it."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_final(self) -> bool:
        """True if a retry is useless: it has it, or the receiver is gone."""
        return self.is_good or self.is_gone or self.is_over

    @property
    def is_gone(self) -> bool:
        """True if the receiver reports that it is gone for good."""
        return self.status == 410


def delivery_id(webhook: str, kind: str, *names: str) -> str:
    """Return the id of a delivery to ``webhook``: always the same for the same thing."""
    words = "\n".join((webhook, kind, *names)).encode()
    return f"msg_{hashlib.blake2b(words, digest_size=16).hexdigest()}"


def delivery(
    webhook: Webhook, kind: str, names: Sequence[str], facts: Mapping[str, object], *, now: float, session: str = ""
) -> Delivery:
    """Return a delivery for the outbox. Its body never changes, however often it is sent."""
    body = {"type": kind, "version": VERSION, "at": now, "data": facts}
    return Delivery(
        id=delivery_id(webhook.id, kind, *names),
        webhook=webhook.id,
        kind=kind,
        made_at=now,
        body=msgspec.json.encode(body).decode(),
        session=session,
        next_at=now,
    )


def tried(row: Delivery, outcome: DeliveryOutcome, now: float, chance: float = 0.5) -> Delivery:
    """Return it after a try: delivered, given up, or waiting for the next one. ``chance`` spreads the waiting."""
    tries = row.tries + 1
    made = replace(
        row,
        tries=tries,
        tried_at=now,
        status=outcome.status,
        answer=outcome.answer[:TEXT_LIMIT],
        problem=outcome.problem[:TEXT_LIMIT],
        seconds=round(outcome.seconds, 3),
    )
    if outcome.is_good:
        return replace(made, state="delivered", ended_at=now)
    if outcome.is_final or tries > len(BACKOFF):
        return replace(made, state="given_up", ended_at=now)
    wait = min(outcome.wait, LONGEST_WAIT) * (1 + 0.1 * chance)
    return replace(made, next_at=now + max(wait, BACKOFF[tries - 1] * (0.9 + 0.2 * chance)))


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Check the kinds of a webhook, each once.

    Raises:
        InvalidInput: there are none, or an unknown one.
    """
    unknown = [kind for kind in kinds if kind not in (*KINDS, ALL)]
    if unknown or not kinds:
        said = f"There is no kind {unknown[0][:50]!r}." if unknown else "No kind is named."
        raise InvalidInput(f"{said} The kinds are {', '.join(KINDS)}; {ALL} is all of them.", field="kinds")
    return (ALL,) if ALL in kinds else tuple(dict.fromkeys(kinds))
