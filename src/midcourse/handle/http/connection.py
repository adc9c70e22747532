"""One server over HTTP: a request is tried again when its connection is lost, and every error is a sentence.

Whatever is tried again is safe to be: reads, and commands whose id goes with them as ``Idempotency-Key``.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from midcourse._version import __version__
from midcourse.errors import InvalidInput, MidcourseError, ServerUnreachable
from midcourse.handle.http.address import ServerAddress, is_plain
from midcourse.handle.http.problems import error_of, not_midcourse
from midcourse.ports.clock import Clock
from midcourse.ports.sender import AGENT_HEADER, agent_here

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
Parameters = Mapping[str, "str | int | float | bool | list[str]"]

ANSWER_SECONDS: Final = 30.0
"""The time a server has to answer, beyond the ``wait`` of the request."""
CONNECT_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 45.0
"""A stream says something every 15 seconds; one that is silent for so long is dead."""
LONGEST_PAGE: Final = 1000
"""Items of the longest page that a server takes a request for."""
KEY_LIMIT: Final = 128
"""The longest command id that a server takes."""
_BUSY: Final = (429, 502, 503, 504)
_EVENT_BYTES: Final = 64 * 1024 * 1024


class StreamLost(Exception):
    """A stream that ended before its time, and may be opened again."""

    def __init__(self, why: MidcourseError, *, retry_after: float = 0.0) -> None:
        super().__init__(str(why))
        self.why = why
        self.retry_after = retry_after


class Backoff:
    """The pauses between tries: longer each time, never quite the same, and over after ``patience`` seconds."""

    def __init__(self, clock: Clock, patience: float) -> None:
        self._clock = clock
        self._patience = patience
        self._tries = 0
        self._since = 0.0

    def reset(self) -> None:
        """Begin with short pauses again: it works."""
        self._tries = 0

    async def again(self, at_least: float = 0.0) -> bool:
        """Wait before the next try. False: patience is over."""
        now = self._clock.monotonic()
        if self._tries == 0:
            self._since = now
        left = self._since + self._patience - now
        if left <= 0:
            return False
        pause = max(at_least, min(2.0, 0.05 * 2**self._tries) * (0.5 + self._clock.random() / 2))
        self._tries = min(self._tries + 1, 20)
        await asyncio.sleep(min(pause, left))
        return True


class HttpConnection:
    """The connections to one server."""

    def __init__(self, address: ServerAddress, token: str | None, clock: Clock, patience: float) -> None:
        self.url = address.url
        self.clock = clock
        self.was_reached = False
        """True if the server has ever answered. One that is gone since is being restarted, and is waited for."""
        self._patience = patience
        self._httpx2 = httpx = _httpx2()
        headers = {"User-Agent": f"midcourse/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._client: httpx2.AsyncClient = httpx.AsyncClient(
            base_url=f"{address.url}/api/v1/",
            headers=headers,
            # A stop never queues behind streams for a connection.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # No proxy leads to this machine.
            trust_env=not address.is_loopback,
        )

    def __repr__(self) -> str:
        return f"<Wire to {self.url}>"

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    def backoff(self) -> Backoff:
        """Return the pauses between tries to reach this server."""
        return Backoff(self.clock, self._patience)

    async def get(self, path: str, kind: type[T], parameters: Parameters | None = None, *, wait: float = 0.0) -> T:
        """Get ``path``, and return the answer as ``kind``."""
        return self.read(await self.send("GET", path, parameters=parameters, wait=wait), kind)

    async def items(
        self,
        path: str,
        name: str,
        kind: type[T],
        parameters: Parameters | None = None,
        *,
        limit: int | None = None,
        wait: float = 0.0,
    ) -> list[T]:
        """Return the first ``limit`` items of a list, or (None) all of them. The server calls them ``name``."""
        found: list[T] = []
        cursor: str | None = None
        while True:
            size = LONGEST_PAGE if limit is None else min(LONGEST_PAGE, limit - len(found))
            items, cursor = await self.page(path, name, kind, parameters, limit=size, cursor=cursor, wait=wait)
            found += items
            if cursor is None or len(found) == limit:
                return found

    async def page(
        self,
        path: str,
        name: str,
        kind: type[T],
        parameters: Parameters | None = None,
        *,
        limit: int,
        cursor: str | None,
        wait: float = 0.0,
    ) -> tuple[list[T], str | None]:
        """Return the items of a list that are behind ``cursor``, and the next cursor; None: these are the last."""
        wanted = {**(parameters or {}), "limit": limit, **({} if cursor is None else {"cursor": cursor})}
        found: Any = await self.get(path, _page_of(name, kind), wanted, wait=wait)
        return getattr(found, name), found.next

    def read(self, content: bytes, kind: type[T]) -> T:
        """Decode an answer's body.

        Raises:
            ServerUnreachable: it is not an answer of this server's version.
        """
        return self.reading(lambda sent: msgspec.json.decode(sent, type=kind), content)

    def reading(self, read: Callable[[bytes], T], content: bytes) -> T:
        """Decode an answer's body by a function."""
        try:
            return read(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise not_midcourse(self.url, str(error)) from error

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parameters: Parameters | None = None,
        key: str | None = None,
        wait: float = 0.0,
    ) -> bytes:
        """Return the body of the answer to a request. After a lost connection, a read or a command is sent again.

        Raises:
            MidcourseError: the server refused; the same class and sentence as on an open store.
            ServerUnreachable: it does not answer, or not again in time.
        """
        headers = {} if method == "GET" else _of_an_agent()
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = _checked(key)
        content = None if body is None else msgspec.json.encode(body)
        timeout = self._httpx2.Timeout(ANSWER_SECONDS + wait, connect=CONNECT_SECONDS)
        backoff = self.backoff()
        while True:
            try:
                response = await self._client.request(
                    method, path, content=content, params=_query(parameters), headers=headers, timeout=timeout
                )
            except self._httpx2.TransportError as error:
                # What was never connected was never sent.
                is_unsent = isinstance(error, self._httpx2.ConnectError | self._httpx2.ConnectTimeout)
                may_again = self.was_reached if is_unsent else method == "GET" or key is not None
                if not may_again or not await backoff.again():
                    raise (self._unreachable(error) if is_unsent else self._gone(error, key)) from error
                continue
            except self._httpx2.HTTPError as error:
                raise not_midcourse(self.url, type(error).__name__) from error
            self.was_reached = True
            if response.is_success:
                return response.content
            raise error_of(response.status_code, response.content, self.url)

    async def pieces(self, path: str, parameters: Parameters) -> AsyncIterator[bytes]:
        """Yield the body of an answer that is too long to be held, as it comes.

        Raises:
            MidcourseError: the server refused. ServerUnreachable: it does not answer, or the connection was lost.
        """
        timeout = self._httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._client.stream("GET", path, params=_query(parameters), timeout=timeout) as response:
                self.was_reached = True
                if not response.is_success:
                    raise error_of(response.status_code, await response.aread(), self.url)
                async for piece in response.aiter_bytes():
                    yield piece
        except self._httpx2.TransportError as error:
            raise (self._gone(error, None) if self.was_reached else self._unreachable(error)) from error

    @asynccontextmanager
    async def stream(
        self, path: str, parameters: Parameters, *, last: int
    ) -> AsyncGenerator["AsyncIterator[httpx2.ServerSentEvent]"]:
        """Yield the server-sent events of one connection, after event ``last``.

        Raises:
            Lost: there was no connection, or it broke; it can be tried again.
            MidcourseError: the server refused.
        """
        timeout = self._httpx2.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Last-Event-ID": str(last)} if last else {}
        try:
            async with self._client.sse(
                path, params=_query(parameters), headers=headers, timeout=timeout, max_event_size=_EVENT_BYTES
            ) as source:
                response = source.response
                self.was_reached = True
                if not response.is_success:
                    content = await response.aread()
                    why = error_of(response.status_code, content, self.url)
                    if response.status_code in _BUSY:
                        raise StreamLost(why, retry_after=_seconds(response.headers.get("Retry-After", "")))
                    raise why
                yield source.__aiter__()
        except self._httpx2.TransportError as error:
            raise StreamLost(self._gone(error, None) if self.was_reached else self._unreachable(error)) from error

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"No server answers at {self.url} ({_why(error)}). Start the server there with 'midcourse serve', or check "
            "the address.",
            url=self.url,
        )

    def _gone(self, error: Exception, key: str | None) -> ServerUnreachable:
        fate = "" if key is None else f" The command may have been taken: send it again with command_id='{key}'."
        return ServerUnreachable(
            f"The connection to {self.url} was lost ({_why(error)}) and not made again within {self._patience:g} s. "
            f"Check that the server runs, and look what it has done.{fate}",
            url=self.url,
            command_id=key,
        )


@cache
def _page_of(name: str, kind: type) -> type[Any]:
    return msgspec.defstruct("Page", [(name, list[kind]), ("next", str | None, None)])


def _httpx2() -> ModuleType:
    # Not with midcourse itself: only who speaks to a server needs it.
    try:
        import httpx2
    except ImportError as error:
        raise InvalidInput(
            "Speaking to a server needs httpx2, which is not installed: pip install 'midcourse[client]'.",
            code="not_installed",
            library="httpx2",
        ) from error
    return httpx2


def _checked(key: str) -> str:
    if not is_plain(key) or len(key) > KEY_LIMIT:
        raise InvalidInput(
            f"Over HTTP a command id has 1 to {KEY_LIMIT} ASCII letters, digits and signs.", field="command_id"
        )
    return key


def _of_an_agent() -> dict[str, str]:
    """Return the header that tells the server that an agent's own code sends this: whatever its token may do."""
    agent = agent_here()
    return {} if agent is None else {AGENT_HEADER: agent}


def _query(parameters: Parameters | None) -> dict[str, Any]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in (parameters or {}).items()
    }


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isascii() and text.isdigit() else 0.0


def _why(error: Exception) -> str:
    kind = {"ConnectError": "the connection was refused or the host is not known", "ReadTimeout": "no answer in time"}
    return kind.get(type(error).__name__, str(error) or type(error).__name__)
