"""Asks: what a person is needed for, a child's too, and how that ended."""

from typing import Literal

from midcourse.core.codec import Value
from midcourse.core.events.event import Event
from midcourse.core.ids import AskId, SessionId, StepId
from midcourse.core.terms import Expiry

AskEnd = Literal["superseded", "withdrawn", "expired"]


class AskOpened(Event, tag="ask.opened@1"):
    """A person is needed. ``covers`` is the digest of what an approval would be for.

    Not answered before ``expires_at``, it is answered with its ``default``; without one, ``on_expiry`` happens.
    """

    ask: AskId
    step: StepId
    reason: str
    prompt: str
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None
    covers: str = ""
    on_expiry: Expiry = "fail"


class AskAnswered(Event, tag="ask.answered@1"):
    """A person (or the ask's own default, at its deadline) answered."""

    ask: AskId
    step: StepId
    value: Value
    by: str


class AskClosed(Event, tag="ask.closed@1"):
    """The ask can no longer be answered. ``then`` says what happens now that it has ``expired``.

    ``fail``: the agent gets ``AskExpired``. ``cancel``: the session is cancelled.
    """

    ask: AskId
    step: StepId
    end: AskEnd
    then: Expiry | None = None


class SessionWaiting(Event, tag="session.waiting@1"):
    """Every path of the agent waits for an ask."""


class SessionWoken(Event, tag="session.woken@1"):
    """A path of the agent continues although an ask is still open."""


class ChildAsked(Event, tag="child.asked@1"):
    """A child of this session, or a child's child, needs a person."""

    child: SessionId
    ask: AskId
    reason: str
    prompt: str


class ChildAskClosed(Event, tag="child.ask_closed@1"):
    """A child's ask was answered, or can no longer be."""

    child: SessionId
    ask: AskId


AskEvent = AskOpened | AskAnswered | AskClosed | SessionWaiting | SessionWoken | ChildAsked | ChildAskClosed
