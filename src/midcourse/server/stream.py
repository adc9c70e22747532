"""Server-sent events: a stalled or lost reader costs others nothing, and one that comes back misses nothing."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from midcourse.core.events import Recorded
from midcourse.core.ids import Position, SessionId
from midcourse.errors import InvalidInput, StoreError
from midcourse.ports.bus import Delta
from midcourse.ports.store import Head, HeadQuery
from midcourse.server.caller import Caller
from midcourse.server.fleet_changes import EVERY as LIST_EVERY
from midcourse.server.fleet_changes import FleetBoard, found_by
from midcourse.server.limits import Slot
from midcourse.server.to_json import delta_view, encoded, event_view, head_view
from midcourse.server.validation_errors import shortened

KEEP_ALIVE: Final = 15.0
"""Seconds between two comment lines that keep proxies and readers from giving up."""
PIECE: Final = 100
"""Events that a stream reads at once: few enough that others get their turn."""
LIST_PIECE: Final = 500
"""Sessions in one frame of a list: the first are drawn while the others come."""
END_SECONDS: Final = 1.0
"""Seconds a reader has to take the end of its stream."""
RECHECK: Final = 4.0
"""Seconds after which a stream checks its caller's rights again. An end in this process ends it at once."""
STALLED_AFTER: Final = 60.0
"""Seconds after which a reader that takes nothing is disconnected. It comes back with its last event id."""
_LEAVES: Final = b": the server is about to end; come back with the last id you saw\nretry: 1000\n\n"
"""The comment to every open stream when the server begins to drain. No event: it belongs to no session."""


def frame(data: object, *, event: str = "", position: int | None = None) -> bytes:
    """Return one event as it goes over the wire."""
    place = f"id: {position}\n" if position is not None else ""
    kind = f"event: {event}\n" if event else ""
    return b"%s%sdata: %s\n\n" % (place.encode(), kind.encode(), encoded(data))


Reason = Literal["session_ended", "server_stopping", "not_allowed"]
"""Why a stream ends: its session has ended, the server is about to, or its caller may not read any more."""


def end_frame(reason: Reason) -> bytes:
    """Return the last frame of a stream. One that breaks off without it was lost, and is to be opened again."""
    return frame({"type": "end", "reason": reason}, event="end")


class Stream(EventSourceResponse):
    """A streamed answer: it holds one of its caller's places, and ends when the caller's token does."""

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        caller: Caller,
        headers: Mapping[str, str] | None = None,
        place: Slot | None = None,
        *,
        flushes: bool = False,
    ) -> None:
        """Take the place, unless the caller has one. ``flushes``: the frames end by themselves when the server does.

        Raises:
            AccessDenied: ``too_many_streams``.
        """
        self._caller = caller
        self._flushes = flushes
        self._place = place or caller.streams.open(caller.principal)
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            frames,
            headers=headers,
            ping=KEEP_ALIVE,
            ping_message_factory=lambda: ServerSentEvent(comment="still here", sep="\n"),
            sep="\n",
            send_timeout=STALLED_AFTER,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._caller.leaving.stream():
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = False

        async def sending(message: Message) -> None:
            nonlocal is_open
            await send(message)
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)

        async def tell() -> None:
            await leaving.told.wait()
            if is_open:
                await send({"type": "http.response.body", "body": _LEAVES, "more_body": True})
            await leaving.ended.wait()

        leaving = self._caller.leaving
        serving = asyncio.create_task(super().__call__(scope, receive, sending))
        revoked = asyncio.create_task(self._until_revoked())
        told = asyncio.create_task(tell())
        try:
            await asyncio.wait({serving, revoked, told}, return_when=asyncio.FIRST_COMPLETED)
            if told.done() and self._flushes:  # what is journaled and was not sent
                await asyncio.wait({serving}, timeout=END_SECONDS)
        finally:
            self._place.close()
            is_allowed = not revoked.done()
            revoked.cancel()
            told.cancel()
            serving.cancel()
        # Who reads too slowly, or has gone, comes back with the last id it saw.
        with contextlib.suppress(asyncio.CancelledError, SendTimeoutError, OSError):
            await serving
        if is_open:  # the server ends it, or the token was revoked: that is an end, not a broken connection
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(END_SECONDS):
                    last = end_frame("server_stopping" if is_allowed else "not_allowed")
                    await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _until_revoked(self) -> None:
        while True:
            await self._caller.wait_for_change(RECHECK)
            with contextlib.suppress(StoreError):  # the tokens cannot be read now: it was allowed
                if not await self._caller.is_still_allowed():
                    return


async def event_frames(
    batches: AsyncGenerator[Sequence[Recorded | Delta]],
    start: Position,
    end: Position,
    ends: Callable[[], bool],
    lost: Mapping[str, object] | None = None,
) -> AsyncIterator[bytes]:
    """Journal events with their position as id, and previews without one; those that are there at once in one piece.

    ``caught_up`` comes once, after what was journaled up to ``end`` when the stream was opened; ``end`` is the last.
    ``lost``: before that ``reset``, whose id is 0: a browser that loses the stream right then begins at the start.
    """
    if lost is not None:
        yield frame(lost, event="reset", position=0)
    seen, is_behind = start, True
    if seen >= end:
        yield frame({"type": "caught_up", "position": seen}, event="caught_up")
        is_behind = False
    async with contextlib.aclosing(batches):
        async for batch in batches:
            yield b"".join(map(_frame_of, batch))
            seen = max([seen, *(one.position for one in batch if isinstance(one, Recorded))])
            if is_behind and seen >= end:
                yield frame({"type": "caught_up", "position": seen}, event="caught_up")
                is_behind = False
    yield end_frame("server_stopping" if ends() else "session_ended")


def _frame_of(one: Recorded | Delta) -> bytes:
    if isinstance(one, Delta):
        return frame(delta_view(one), event="delta")
    return frame(event_view(one), event=one.type, position=one.position)


class Beginning(NamedTuple):
    """Where a stream of a journal begins; with ``lost``, at its start, for a reader that had seen something else."""

    after: Position
    lost: Mapping[str, object] | None = None


def beginning(request: Request, after: int, session: SessionId, end: Position) -> Beginning:
    """Return where to continue: after the header that a browser sends when it comes back, else after the query.

    An id that this journal has not given, because it ends before that, is another session's, or no id at all, cannot be
    continued from: the reader is asked to drop what it has, and gets everything.
    """
    given = request.headers.get("last-event-id", "").strip() or str(after)
    name, mark, number = given.rpartition("@")
    is_ours = not mark or name == session
    if is_ours and number.isascii() and number.isdigit() and len(number) < 16 and int(number) <= end:
        return Beginning(Position(int(number)))
    shown = shortened(given, 100)
    detail = f"'{shown}' is no event of session '{session}', which ends at {end}. Forget what you have: this is all."
    return Beginning(Position(0), {"session": session, "last_event_id": shown, "position": end, "detail": detail})


def check_after(request: Request, after: int, session: SessionId, end: Position) -> Position:
    """Return where a page begins; unlike a stream, it cannot begin anew.

    Raises:
        InvalidInput: there is no such event.
    """
    begins = beginning(request, after, session, end)
    if begins.lost is None:
        return begins.after
    field = "Last-Event-ID" if request.headers.get("last-event-id") else "after"
    raise InvalidInput(
        f"{field} is the position of the last event seen, and session '{session}' ends at {end}. Leave it out to begin "
        "at the start.",
        field=field,
    )


def wants_stream(request: Request) -> bool:
    """Return True if the caller wants to follow rather than read once."""
    return "text/event-stream" in request.headers.get("accept", "")


async def list_frames(board: FleetBoard, query: HeadQuery) -> AsyncIterator[bytes]:
    """Those that are wanted, in pieces, the first of which says ``all``; then each time what changed, and what left.

    ``counts`` are of the whole fleet, and come when they have changed.
    """
    known: Mapping[str, Head] = {}
    counted: dict[str, int] = {}
    is_first = True
    while True:
        shown, counts = found_by(query, await board.look())
        changed = [head for name, head in shown.items() if known.get(name) is not head]
        gone = [name for name in known if name not in shown]
        pieces = [changed[start : start + LIST_PIECE] for start in range(0, len(changed), LIST_PIECE)] or [[]]
        for number, piece in enumerate(pieces):
            told: dict[str, Any] = {"sessions": [head_view(head) for head in piece], "gone": []}
            if number == 0:
                told["gone"] = gone
                told |= {"all": True} if is_first else {}
                told |= {"counts": counts} if is_first or counts != counted else {}
            if is_first or piece or gone or "counts" in told:
                yield frame(told, event="sessions")
        known, counted, is_first = shown, counts, False
        await asyncio.sleep(LIST_EVERY)
