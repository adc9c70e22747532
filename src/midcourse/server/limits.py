"""Limit what a caller sends, how often, and how many streams it holds open: against runaway clients."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address
from math import ceil
from typing import Final, Literal, Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midcourse.errors import AccessDenied, MidcourseError
from midcourse.ports.clock import Clock
from midcourse.server.conventions import path_in
from midcourse.server.problems import problem_response
from midcourse.server.tokens import Principal

BODY_LIMIT: Final = 2 * 1024 * 1024
"""The most bytes of a request body."""
BODY_SECONDS: Final = 30.0
"""The longest time for a request body to arrive."""
LINGER_BYTES: Final = 16 * 1024 * 1024
LINGER_SECONDS: Final = 2.0
"""The time that a refused body is still read and dropped: a client cut off while writing may miss the answer."""

_CLOSE: Final = {"Connection": "close"}


class BodyLimit:
    """Refuses bodies that are too large (413 ``body_too_large``) or too slow (408 ``request_timeout``).

    The answer is sent from here as soon as it is clear, and the application is told that the client has gone: whatever
    it makes of that goes nowhere.
    """

    def __init__(self, app: ASGIApp, *, limit: int = BODY_LIMIT, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, send, limit=self._limit, seconds=self._seconds)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > self._limit):
            await body.refuse("large")
            return
        await self._app(scope, body.receive, body.send)


class _Body:
    """The body of one request on its way in."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, limit: int, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._seconds = seconds
        self._size = 0
        self._is_complete = False
        self._deadline: float | None = None
        self._has_answered = False
        self._is_refused = False

    async def receive(self) -> Message:
        """Return the next piece, or that the client has gone."""
        if self._is_refused:
            return {"type": "http.disconnect"}
        if self._is_complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            return await self.refuse("slow")
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._size > self._limit:
                return await self.refuse("large")
        return message

    async def send(self, message: Message) -> None:
        """Send what the application answers, unless it was answered already."""
        if not self._is_refused:
            self._has_answered = True
            await self._send(message)

    async def refuse(self, why: Literal["large", "slow"]) -> Message:
        """Answer, unless an answer is under way, and drop the rest."""
        self._is_refused = True
        if not self._has_answered:
            await self._refuse(why)
        return {"type": "http.disconnect"}

    async def _refuse(self, why: Literal["large", "slow"]) -> None:
        if why == "large":
            sentence = (
                f"The request's body is larger than {self._limit:,} bytes, the limit. "
                "Put the long part where the agent can read it and refer to it."
            )
            answer = problem_response(413, "body_too_large", sentence, _CLOSE, limit=self._limit)
        else:
            sentence = f"The request's body did not arrive within {self._seconds:g} seconds. Send it again."
            answer = problem_response(408, "request_timeout", sentence, _CLOSE)

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body" and why == "large":
                await self._send({**message, "more_body": True})
                await self._linger()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await self._send(message)

        await answer(self._scope, self._receive, send)

    async def _linger(self) -> None:
        thrown_away = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._is_complete and thrown_away < LINGER_BYTES:
                    message = await self._receive()
                    thrown_away += len(message.get("body", b""))
                    self._is_complete = message["type"] == "http.disconnect" or not message.get("more_body", False)
        except TimeoutError:
            pass


class Buckets:
    """A token bucket for each caller: ``rate`` requests a second in the long run, ``burst`` at once."""

    def __init__(self, clock: Clock, *, rate: float = 100.0, burst: int = 500, most: int = 10_000) -> None:
        """``most``: callers that are remembered. The one unseen for longest is forgotten first."""
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._most = most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, caller: str) -> float:
        """Count one request. Returns 0, or the seconds until the next is allowed."""
        now = self._clock.monotonic()
        level, since = self._levels.pop(caller, (float(self._burst), now))
        level = min(float(self._burst), level + max(0.0, now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._levels[caller] = (level if wait else level - 1, now)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return wait


IDENTIFIED: Final = "midcourse.principal"
"""The key of a request's scope with its principal, so that its token is looked up once."""


class RateLimit:
    """Refuses what a caller sends beyond its rate: 429 ``too_many_requests``, with Retry-After.

    A caller is a principal, or the address of one without a known token.
    """

    def __init__(
        self, app: ASGIApp, *, buckets: Buckets, identify: Callable[[Scope], Awaitable[Principal | None]]
    ) -> None:
        self._app = app
        self._buckets = buckets
        self._identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            wait = self._buckets.take(await self._caller(scope))
            if wait:
                seconds = ceil(wait)
                answer = problem_response(
                    429,
                    "too_many_requests",
                    f"Too many requests from this caller. Wait {seconds} s; events are better followed than polled.",
                    {"Retry-After": str(seconds)},
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> str:
        try:
            principal = await self._identify(scope)
        except MidcourseError:  # the store cannot be read: the route says so
            principal = None
        if principal is not None:
            scope[IDENTIFIED] = principal
            return f"token {principal.full_name}"
        client: tuple[str, int] | None = scope.get("client")
        return f"address {_network(client[0])}" if client else "address"


def _network(address: str) -> str:
    """Return the network of an IPv6 client, which has many addresses."""
    try:
        return str(IPv6Address(address).exploded[:19])
    except ValueError:
        return address


class Slot:
    """One open stream. Close it when the stream ends, once or more."""

    def __init__(self, streams: "Streams", name: str) -> None:
        self._streams: Streams | None = streams
        self._name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the place back."""
        if self._streams is not None:
            self._streams.give_back(self._name)
            self._streams = None


class Streams:
    """The open streams, of each principal and in all."""

    def __init__(self, *, each: int = 200, total: int = 2000) -> None:
        self._each = each
        self._total = total
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._open.total()

    def open(self, principal: Principal) -> Slot:
        """Take a place for one more stream at once; closing the slot gives it back.

        Raises:
            AccessDenied: ``too_many_streams``: there is none left, for this principal or at all.
        """
        if self._open[principal.full_name] >= self._each:
            raise AccessDenied(
                f"'{principal.name}' has {self._each} streams open, the most one token may. Close some of them.",
                code="too_many_streams",
            )
        if len(self) >= self._total:
            raise AccessDenied(
                f"This server has {self._total} streams open, the most it takes. Try again when some have ended.",
                code="too_many_streams",
            )
        self._open[principal.full_name] += 1
        return Slot(self, principal.full_name)

    def give_back(self, name: str) -> None:
        """Note that a stream has ended."""
        self._open[name] -= 1
        if self._open[name] <= 0:
            del self._open[name]


POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
"""Nothing from elsewhere, nothing inline, and no page may frame it."""


class SafeHeaders:
    """Headers on every answer that tell browsers what not to do with it. What an answer has set itself stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("X-Frame-Options", "DENY")
                headers.setdefault("Content-Security-Policy", POLICY)
                if path_in(scope).startswith("/api"):
                    headers.setdefault("Cache-Control", "no-store")
                    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
            await send(message)

        await self._app(scope, receive, with_headers)
