"""Messages: what people say to a session that works, and what its model has seen of that."""

from typing import Literal

from midcourse.core.events.event import Event
from midcourse.core.ids import MessageId

Level = Literal["step", "goal", "clarify"]
"""A person's change of the course: one more instruction, another goal, an explanation."""
MessageLevel = Literal[Level, "event"]
"""The level of a message to a session: a person's, or an event outside."""


class SessionRedirected(Event, tag="session.redirected@1"):
    """A person, or an event outside, changed the course.

    ``grace`` None lets tool calls in flight finish; model streams are cut at once.
    """

    text: str
    level: MessageLevel
    by: str
    grace: float | None = None


class MessageEdited(Event, tag="message.edited@1"):
    """A redirect or a queued message was said in other words before the model had seen it."""

    message: MessageId
    text: str
    by: str


class MessageWithdrawn(Event, tag="message.withdrawn@1"):
    """A redirect or a queued message was taken back before the model had seen it."""

    message: MessageId
    by: str


class MessagesSeen(Event, tag="message.seen@1"):
    """The agent has read the first ``count`` messages: from here on they stand as they are."""

    count: int


MessageEvent = SessionRedirected | MessageEdited | MessageWithdrawn | MessagesSeen
