"""The events of one session from a server, each once and in order, whatever happens to the connection."""

from collections.abc import AsyncGenerator

from midcourse.core.events import Recorded
from midcourse.core.ids import Position, SessionId
from midcourse.core.missing_results import no_such_position
from midcourse.core.session import ENDED
from midcourse.errors import MidcourseError, ServerUnreachable
from midcourse.handle.http.connection import HttpConnection, StreamLost
from midcourse.handle.http.problems import error_of
from midcourse.handle.http.response_bodies import (
    WireDelta,
    WireEnd,
    WireEvent,
    WireReason,
    delta_of,
    event_of,
    session_of,
)
from midcourse.ports.bus import Delta

_A_WHILE = 1.0
"""Seconds after which a stream that is closed was not closed in vain."""


async def watch(
    wire: HttpConnection, path: str, session_id: SessionId, *, after: int, deltas: bool, follow: bool
) -> AsyncGenerator[Recorded | Delta]:
    """Yield events after a position; ends with the session, unless it is to ``follow`` into later turns.

    Raises:
        MidcourseError: the server refused. ServerUnreachable: it does not answer, or not again in time.
        InvalidInput: ``unknown_position``: the journal ends before ``after``, or before what was seen of it.
    """
    seen = Position(after)
    backoff = wire.backoff()
    while True:
        opened: float | None = None
        pause = 0.0
        why: MidcourseError = ServerUnreachable(
            f"The server at {wire.url} closes the stream again and again. Its log may say why.", url=wire.url
        )
        try:
            parameters = {"after": seen, "deltas": deltas, "follow": follow}
            async with wire.stream(f"{path}/events", parameters, last=seen) as events:
                opened = wire.clock.monotonic()
                async for sent in events:
                    backoff.reset()
                    if sent.event == "delta":
                        if deltas:
                            yield delta_of(session_id, wire.read(sent.data.encode(), WireDelta))
                    elif sent.event == "end":
                        if wire.read(sent.data.encode(), WireReason).reason == "session_ended":
                            return
                    elif sent.event == "caught_up":
                        pass
                    elif sent.event == "reset":
                        raise no_such_position(session_id, seen, wire.read(sent.data.encode(), WireEnd).position)
                    elif sent.event == "error":
                        raise error_of(0, sent.data.encode(), wire.url)
                    elif sent.data:
                        event = event_of(wire.read(sent.data.encode(), WireEvent))
                        if event.position > seen:
                            seen = event.position
                            yield event
        except StreamLost as lost:
            if not wire.was_reached:
                raise lost.why from lost
            why, pause = lost.why, lost.retry_after
        else:
            # Without an end frame: a proxy, or a server that was stopped, closed it as politely.
            if not follow:
                session = wire.reading(session_of, await wire.send("GET", path))
                if session.status in ENDED and session.position <= seen:
                    return
        if opened is not None and wire.clock.monotonic() - opened >= _A_WHILE:
            backoff.reset()
        if not await backoff.again(pause):
            raise why
