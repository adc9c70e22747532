"""A model provider on this machine: a real HTTP server that answers by a script, and notices closed connections.

It speaks OpenAI's Chat Completions and Responses and Anthropic's Messages, streamed or at once, so that real clients
and real frameworks can be tested against it. It refuses what the real ones refuse, with the same errors: calls without
results, results without calls, ids that repeat, messages in an order no model can continue.

The server has a thread and a loop of its own. A test that blocks its loop does not stall it then, a client that blocks
can be tested too, and a closed connection is noticed independently of the loop that closed it.

Needs ``starlette`` and ``uvicorn``. Each API's own part is in ``wires``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from midcourse.models.script import Conversation, Fail, Piece, Script, Usage, answer, usage
from midcourse.testing.wires.answers import StreamAnswer
from midcourse.testing.wires.chat_completions import ChatCompletions
from midcourse.testing.wires.http_server import ServerThread
from midcourse.testing.wires.messages import Messages
from midcourse.testing.wires.responses import Responses
from midcourse.testing.wires.wire import Objection, Wire, encoded

_PATIENCE: Final = 10.0
_WIRES: Final[Sequence[Wire]] = (ChatCompletions(), Responses(), Messages())


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request, and how far its answer has come."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    conversation: Conversation = field(default_factory=Conversation)
    """Empty if the request itself was refused."""
    status: int | None = None
    """None until the answer begins, and for good if there was none."""
    refused: str = ""
    """The error for a request that a real provider refuses too, or that the script could not answer."""
    pieces: int = 0
    """The number of words, fragments of arguments and bits of garbage sent or, without a stream, made."""
    finished: bool = False
    """True if the script was played to its end, be that an error or a cut."""
    closed_by_client_after: int | None = None
    """After how many pieces the client was found gone. No more were made."""

    @property
    def is_over(self) -> bool:
        return self.finished or self.closed_by_client_after is not None


class Provider:
    """Serves ``script`` while it is entered: ``async with Provider(script) as provider``.

    With an ``api_key``, a request that brings another is refused. An OpenAI client takes ``base_url``, an Anthropic
    client ``anthropic_url``. ``script`` may be set to another at any time: it counts from the next request on.
    """

    def __init__(self, script: Script, *, api_key: str | None = None) -> None:
        self.script = script
        self._api_key = api_key
        self._failures: deque[Fail] = deque()
        self._received: list[Received] = []
        self._watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._server = ServerThread(
            [Route(wire.path, partial(self._answer, wire), methods=["POST"]) for wire in _WIRES]
        )
        self._port = 0
        self._left = False

    async def __aenter__(self) -> "Provider":
        self._port = await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left = True
        await self._server.stop()

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for an Anthropic client."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> tuple[Received, ...]:
        """All requests so far, in the order they came in, in their present state."""
        return tuple(self._received)

    def fail_next(self, *failures: Fail) -> None:
        """Answer the next requests that make sense with these, one each: what a script cannot do, as it keeps nothing.

        A client that tries again may then succeed.
        """
        self._failures.extend(failures)

    async def wait_for_request(
        self,
        index: int,
        *,
        pieces: int = 0,
        timeout: float = _PATIENCE,  # noqa: ASYNC109 - the caller's patience
    ) -> Received:
        """Return when request ``index`` (the first is 0) has come in and ``pieces`` of its answer are sent.

        Raises:
            TimeoutError: that did not happen in time.
        """
        await self._until(
            lambda: len(self._received) > index and self._received[index].pieces >= pieces,
            f"Request {index} with {pieces} pieces sent",
            timeout,
        )
        return self._received[index]

    async def wait_for_close(self, index: int, timeout: float = _PATIENCE) -> Received:  # noqa: ASYNC109 - the caller's patience
        """Return when the client of request ``index`` is gone before the end of its answer, which is no longer made.

        Raises:
            AssertionError: the script was said to its end.
            TimeoutError: neither happened in time.
        """
        await self._until(
            lambda: len(self._received) > index and self._received[index].is_over,
            f"That the client of request {index} is gone",
            timeout,
        )
        received = self._received[index]
        if received.closed_by_client_after is None:
            raise AssertionError(f"Request {index} was answered to its end; its client did not close it: {received}")
        return received

    async def _until(self, ready: Callable[[], bool], what: str, patience: float) -> None:
        changed = asyncio.Event()
        watcher = (asyncio.get_running_loop(), changed)
        self._watchers.append(watcher)
        try:
            async with asyncio.timeout(patience):
                while not ready():
                    changed.clear()
                    await changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{what} was not seen in {patience} s. Requests so far: {self._received}") from error
        finally:
            self._watchers.remove(watcher)

    # ---- in the server's thread

    async def _answer(self, wire: Wire, request: Request) -> ASGIApp:
        headers, body = dict(request.headers), await request.body()
        number = len(self._received)
        self._received.append(Received(path=request.url.path, headers=headers, body=body))
        try:
            if self._api_key is not None and wire.key(headers) != self._api_key:
                raise wire.wrong_key(wire.key(headers))
            heard = wire.heard(body)
            self._note(number, conversation=heard.conversation)
            pieces, used = self._said(heard.conversation)
        except Objection as objection:
            self._note(number, status=objection.status, refused=objection.message, finished=True)
            return Response(encoded(wire.error(objection)), objection.status, media_type="application/json")
        return StreamAnswer(
            pieces=pieces,
            writer=wire.writer(heard, number),
            error=wire.error,
            usage=used,
            streams=heard.streams,
            note=partial(self._note, number),
            cut=self._server.cut,
        )

    def _said(self, conversation: Conversation) -> tuple[tuple[Piece, ...], Usage]:
        if self._failures:
            failure = (self._failures.popleft(),)
            return failure, usage(conversation, failure)
        try:
            pieces = answer(self.script, conversation)
            strange = next((piece for piece in pieces if not isinstance(piece, get_args(Piece))), None)
            if strange is not None:
                raise Objection(
                    f"the script said {strange!r}, which is no piece; it returns a list of Text, Call, Wait, Fail and "
                    "Garbage.",
                    status=500,
                )
            return pieces, usage(conversation, pieces)
        except Objection:
            raise
        except Exception as error:  # the script is code of the test; its exception goes to the client
            raise Objection(f"the script raised {type(error).__name__}: {error}", status=500) from error

    def _note(self, number: int, **changes: Any) -> None:
        if self._left:  # it is the server that drops its connections now, not their clients
            return
        self._received[number] = replace(self._received[number], **changes)
        for loop, changed in list(self._watchers):
            with suppress(RuntimeError):  # its loop is closed: no task waits there any more
                loop.call_soon_threadsafe(changed.set)
