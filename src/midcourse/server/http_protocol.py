"""HTTP for clients that may be slow, broken or hostile: uvicorn's own protocol, with limits for a request's head.

A head has 10 seconds to arrive (408, or nothing if nothing came), 64 KiB and 100 lines (431). The same time is given
to what is left of a body once the request was answered. Bodies that are read have their limits in ``limits``. A client
that takes nothing of its answer for 90 seconds is cut off. Of the connections on which no request is under way, those
that just came or are kept for the next one, at most 1,000 stay: the one that has waited longest makes room.
"""

import asyncio
from typing import Any, ClassVar, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_SECONDS: Final = 10.0
HEAD_BYTES: Final = 64 * 1024
HEAD_LINES: Final = 100
STALLED_SECONDS: Final = 90.0
"""The longest time that a client may stop reading the answer."""

_TOO_LARGE: Final = "HTTP/1.1 431 Request Header Fields Too Large"
_TOO_SLOW: Final = "HTTP/1.1 408 Request Timeout"


MOST_WAITING: Final = 1000
"""Connections on which no request is under way."""


class _HeadTooLarge(Exception):
    """Ends the parser's work on this connection."""


class PatientProtocol(HttpToolsProtocol):
    """Patient with slow clients, but not for ever. ``uvicorn.Config(http=PatientProtocol)`` uses it."""

    head_seconds: float = HEAD_SECONDS
    most_waiting: int = MOST_WAITING
    waiting: ClassVar["dict[PatientProtocol, None]"] = {}
    """Those on which no request is under way, the one that has waited longest first."""
    stalled_seconds: float = STALLED_SECONDS

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_body = False
        self._has_begun = False
        self._is_too_large = False
        self._head_bytes = 0
        self._head_lines = 0
        self._not_understood = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a client's first request."""
        super().connection_made(transport)
        self._expect_more()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client has gone."""
        self._expect_nothing()
        self._takes_something()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the client reads nothing for now. Closing such a connection politely would wait for ever."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client has read what was written."""
        self._takes_something()
        super().resume_writing()

    def _takes_something(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def data_received(self, data: bytes) -> None:
        """Bytes came: of a head, of a body, or of neither."""
        if self.transport.is_closing():
            return  # it was refused, and still sends
        if not self._in_body and self._timer is None:
            self._expect_more()
        self._not_understood += len(data)
        super().data_received(data)
        # One endless header or trailer is nothing the parser would tell us of before its end.
        if self._not_understood > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Answer a parser's error: nonsense, or a head that is too large."""
        self._expect_nothing()
        if self._is_too_large:
            self._refuse(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        self._has_begun = True
        self._head_bytes = self._head_lines = self._not_understood = 0
        if self._timer is None:  # it follows another in the same packet
            self._expect_more()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Handle a part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header, or a trailer after the body."""
        self._head_lines += 1
        self._count(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Handle the end of the head: the application takes over."""
        self._in_body = True
        self._not_understood = 0
        self._expect_nothing()
        self.waiting.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._not_understood = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of the request. The next one may follow at any time."""
        self._in_body = self._has_begun = False
        self._not_understood = 0
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Handle the end of the answer, perhaps before all of the request was here."""
        super().on_response_complete()
        if not self.cycle.response_complete or self.transport.is_closing():
            return  # another one followed in the same packet, or none will
        if self._in_body:
            self._expect_more()
        self._wait()

    def _wait(self) -> None:
        """Wait for the next request. Where too many connections wait, the oldest of them is closed."""
        self.waiting.pop(self, None)
        self.waiting[self] = None
        if len(self.waiting) > self.most_waiting:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.close()

    def _count(self, size: int) -> None:
        self._not_understood = 0
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES or self._head_lines > HEAD_LINES:
            self._is_too_large = True
            raise _HeadTooLarge

    def _expect_more(self) -> None:
        self._expect_nothing()
        self._timer = self.loop.call_later(self.head_seconds, self._is_too_slow)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_too_slow(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # we do not listen, so that it cannot continue
            self._expect_more()
        elif self._has_begun and not self._in_body:
            self._refuse(_TOO_SLOW)
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status_line: str) -> None:
        """Answer and close. While an answer is under way on this connection, only close."""
        self._expect_nothing()
        if self.transport.is_closing():
            return
        # Before the first request there is no cycle, whatever the annotation says.
        if getattr(self.cycle, "response_complete", True):
            self.transport.write(f"{status_line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode())
        self.transport.close()


def patient(seconds: float, most_waiting: int) -> type[PatientProtocol]:
    """Return the protocol with other limits, and a list of its own of waiting connections."""

    class Own(PatientProtocol):
        head_seconds = seconds
        waiting: ClassVar[dict[PatientProtocol, None]] = {}

    Own.most_waiting = most_waiting
    return Own
