"""Says the pieces of a script to one client, until they are said or the client is gone."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope, Send

from midcourse.models.script import Call, Fail, Garbage, Piece, Text, Usage, Wait
from midcourse.testing.wires.wire import Objection, Writer, encoded


class AnswerProgress(Protocol):
    """Keeps how far an answer has come."""

    def __call__(
        self,
        *,
        status: int = ...,
        pieces: int = ...,
        finished: bool = ...,
        closed_by_client_after: int = ...,
    ) -> None:
        """Report a change in the progress of the answer."""
        ...


@dataclass(slots=True, kw_only=True)
class StreamAnswer:
    """The answer to one request, as an ASGI application."""

    pieces: Sequence[Piece]
    writer: Writer
    error: Callable[[Objection], Mapping[str, object]]
    usage: Usage
    streams: bool
    note: AnswerProgress
    cut: Callable[[object], None]
    _begun: bool = False
    _finished: bool = False
    _said: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say it. A client that goes away ends it, wherever it is: in a silence, between two words."""
        saying = asyncio.create_task(self._play(send, scope["client"]))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((saying, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            saying.cancel()
            leaving.cancel()
            await asyncio.wait((saying, leaving))
        if not saying.cancelled():
            saying.result()
        if not self._finished:
            self.note(closed_by_client_after=self._said)

    async def _play(self, send: Send, client: object) -> None:
        body = b"" if self.streams else encoded(self.writer.whole(self.pieces, self.usage))
        for piece in self.pieces:
            match piece:
                case Text() | Call():
                    write = self.writer.text if isinstance(piece, Text) else self.writer.arguments
                    if self.streams and isinstance(piece, Call):
                        await self._write(send, self.writer.call(piece))
                    for at, part in enumerate(piece.parts):
                        await asyncio.sleep(piece.every if at else 0)
                        if self.streams:
                            await self._write(send, write(part))
                        self._count()
                case Wait():
                    await asyncio.sleep(piece.seconds)
                case Garbage():
                    body = piece.text.encode()
                    if self.streams:
                        await self._write(send, self.writer.garbage(piece.text))
                    self._count()
                case Fail():
                    await self._fail(send, client, piece)
                    return
        if self.streams:
            await self._write(send, self.writer.end(self.usage))
            await self._end(send)
        else:
            await self._begin(send, 200, "application/json")
            await self._end(send, body)

    async def _fail(self, send: Send, client: object, failure: Fail) -> None:
        if failure.status == 0:
            self._finish()
            self.cut(client)
            return
        objection = Objection(failure.message, status=failure.status)
        if self._begun:
            await self._write(send, self.writer.broken(objection))
            await self._end(send)
        else:
            await self._begin(send, failure.status, "application/json", retry_after=failure.retry_after)
            await self._end(send, encoded(self.error(objection)))

    def _count(self) -> None:
        self._said += 1
        self.note(pieces=self._said)

    async def _write(self, send: Send, written: bytes) -> None:
        if not self._begun:
            await self._begin(send, 200, "text/event-stream")
            written = self.writer.begin() + written
        await send({"type": "http.response.body", "body": written, "more_body": True})

    async def _begin(self, send: Send, status: int, kind: str, *, retry_after: str = "") -> None:
        # Not before there is something to say: until then a failure can still be an HTTP status.
        self._begun = True
        self.note(status=status)
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache")]
        if retry_after:
            headers.append((b"retry-after", retry_after.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def _end(self, send: Send, body: bytes = b"") -> None:
        self._finish()  # before the last bytes: a client that has them may be gone before we learn that they are sent
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _finish(self) -> None:
        self._finished = True
        self.note(finished=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
