"""Requests to a model as streams that a step can read, again and again, and close."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from midcourse.adapters.continuation import OBJECTS, ModelAnswer, Way
from midcourse.adapters.plain.replies import ModelReply
from midcourse.adapters.plain.stream_readers import READERS, ChatCompletionsReader, ModelError, StreamReader
from midcourse.adapters.prices import PriceMeter
from midcourse.core.retries import Retry
from midcourse.errors import InvalidInput
from midcourse.runtime.asks import OnRedirect
from midcourse.runtime.calls import current_call
from midcourse.runtime.model_streams import StreamEnd
from midcourse.runtime.run import Run

Create: TypeAlias = Callable[..., Awaitable[object]]


class Streamed(AsyncIterator[str | StreamEnd]):
    """A request that is made when it is iterated, each time anew, and closed when that ends in whatever way."""

    foresees = True
    """It is priced before it is made."""

    def __init__(
        self, create: Create, request: Mapping[str, Any], *, on_cut: Way | None = None, whole: bool = False
    ) -> None:
        self._create = create
        self._request = request
        self._on_cut: Way | None = on_cut
        self._whole = whole
        self._pieces: AsyncGenerator[str | StreamEnd] | None = None

    def whole(self) -> "Streamed":
        """Return the same request, whose step returns a ``ModelReply``."""
        return Streamed(self._create, self._request, on_cut=self._on_cut, whole=True)

    def __aiter__(self) -> "Streamed":
        self._pieces = self._read()
        return self

    async def __anext__(self) -> str | StreamEnd:
        if self._pieces is None:
            self._pieces = self._read()
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Close the stream: the provider sees that the client is gone, and stops."""
        if self._pieces is not None:
            await self._pieces.aclose()

    async def _read(self) -> AsyncGenerator[str | StreamEnd]:
        reader, create, client = _prepared(self._create)
        request = reader.asked(self._request)
        if request.get("tools") and not self._whole:
            raise InvalidInput(
                "This request has tools: the model may answer with calls, which run.stream cannot return. "
                "Use `await model_reply(run, name, lambda: streamed(…))`, which returns the text and the calls.",
                field="tools",
            )
        call, address = current_call(), str(getattr(client, "base_url", ""))
        most = next((request[name] for name in reader.most if isinstance(request.get(name), int)), None)
        answer = ModelAnswer()
        asked = reader.continued(request, answer, address) if answer.said else request
        meter = PriceMeter(
            {name: asked.get(name) for name in (reader.prompt, "system", "tools")}, at_most=most, url=address
        )
        meter.begin(reader.model)
        stream: Any = None
        try:
            try:
                stream = await create(**asked)
            except Exception as error:
                if not answer.said or getattr(error, "status_code", 0) not in OBJECTS:
                    raise
                answer.begin_again()
                reader = type(reader)()
                stream = await create(**reader.asked(self._request))
            async for event in stream:
                if text := answer.say(reader.take(event)):
                    answer.way = self._on_cut or reader.way(request, address)
                    answer.can_continue()
                    call.spend(reader.cost(meter), reader.tokens)
                    yield text
            if not reader.ended:
                raise ModelError("The stream ended before the model had.") from ConnectionResetError()
            if text := answer.rest():
                yield text
        except Exception as error:
            explain_error(error, client, address)
            if isinstance(error, json.JSONDecodeError):
                raise ModelError(f"{host(address)} sent something that is no JSON.") from error
            raise
        finally:
            # First: that a price is looked up must not keep a model talking.
            if stream is not None:
                await stream.close()
            call.spend(reader.cost(meter), reader.tokens)
        whole = answer.text if answer.said else None
        value = reader.reply(call.step, request, whole) if self._whole else None
        yield StreamEnd(value=value, cost=reader.cost(meter), tokens=reader.tokens)


def streamed(create: Create, *, on_cut: Way | None = None, **request: Any) -> Streamed:
    """Stream an answer with ``run.stream``: ``lambda: streamed(client.chat.completions.create, model=…, messages=…)``.

    ``create`` is that method, or ``client.responses.create``, or ``client.messages.create`` of Anthropic's client. The
    request is streamed whatever ``stream`` says, and made once: the client's own retries are off, so that no request
    goes unseen; ``run.stream`` makes it again. A stop closes the stream.

    A pause cuts it; it continues from there, in the way that the provider allows. ``on_cut`` is for a server that is
    not known: ``prefix`` if it continues a last message of the assistant, ``quote``, or ``again`` to begin again.

    In the step:
        InvalidInput: it is another function, or a request that this cannot hold.
    """
    return Streamed(create, request, on_cut=on_cut)


async def model_reply(
    run: Run,
    name: str,
    request: Callable[[], Streamed],
    *,
    key: str | None = None,
    on_redirect: OnRedirect = "again",
    retry: Retry | None = None,
) -> ModelReply:
    """Call a model that may want to use tools: ``await model_reply(run, "think", lambda: streamed(…, tools=…))``.

    As ``run.stream``, whose step it is, but for what it returns.

    Raises:
        StepError: the request failed.
        Redirected: with ``on_redirect="raise"``, a redirect cut it.
    """
    said = await run.stream(name, lambda: request().whole(), key=key, on_redirect=on_redirect, retry=retry)
    return msgspec.convert(cast("object", said), ModelReply)


def _prepared(create: Create) -> "tuple[StreamReader, Create, object]":
    """Return the reader of the answer; the function to call, on a client that does not retry; the client."""
    resource: Any = getattr(create, "__self__", None)
    kind: type[Any] = resource.__class__
    reader = READERS.get(kind.__name__.removeprefix("Async"))
    if reader is None or (reader is ChatCompletionsReader and ".chat." not in kind.__module__):
        raise InvalidInput(
            f"streamed() cannot read what {getattr(create, '__qualname__', repr(create))} answers. Give it "
            "client.chat.completions.create, client.responses.create or, of Anthropic, client.messages.create.",
            field="create",
        )
    client: Any = getattr(resource, "_client", None)
    if not kind.__name__.startswith("Async"):
        raise InvalidInput(
            f"{type(client).__name__} blocks while it waits, and cannot be stopped. Use Async{type(client).__name__}.",
            field="create",
        )
    once = client.with_options(max_retries=0)
    return reader(), cast("Create", getattr(kind(once), getattr(create, "__name__", "create"))), client


# ---- what a client raises

_SHORTEST_SECRET: Final = 8
"""A shorter key, as servers without keys are given, may be a word of any sentence."""


def explain_error(error: Exception, client: object, address: str) -> None:
    """Give a client's error a sentence that says what to do, and no key. It keeps its class: the step's ``kind``."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    where = host(address)
    if "APITimeoutError" in kinds or "TimeoutException" in kinds:
        words = f"{where} did not answer in time. Is it busy? The client's timeout may be too short."
    elif "APIConnectionError" in kinds or "TransportError" in kinds:
        cause = str(error.__cause__ or error).strip().rstrip(".") or "no reason given"
        words = f"No connection to {where}, or it was lost: {cause}. Check base_url, and whether that can be reached."
    elif "APIError" in kinds:
        status: int | None = getattr(error, "status_code", None)
        words = f"{where} said{f' ({status})' if status else ''}: {_reason(error).rstrip('.')}.{_what_to_do(status)}"
    elif "authentication method" in str(error) or "Missing credentials" in str(error):
        words = f"The client has no key for {where}. Give it an api_key, or set its environment variable."
    else:
        return
    for name in ("api_key", "auth_token"):
        secret = getattr(client, name, None)
        if isinstance(secret, str) and len(secret) >= _SHORTEST_SECRET:
            words = words.replace(secret, "(the key)")
    error.args = (words,)


def _reason(error: Exception) -> str:
    """Return the provider's own sentence."""
    body: object = getattr(error, "body", None)
    while isinstance(body, Mapping):
        told = cast("Mapping[str, object]", body)
        if isinstance(message := told.get("message"), str) and message:
            return message
        body = told.get("error")
    return str(error)


def _what_to_do(status: int | None) -> str:
    match status:
        case 401 | 403:
            return " Check the client's api_key."
        case 404:
            return " Check the model's name and the client's base_url."
        case 429:
            return " Wait a while before the next request."
        case _:
            return ""


def host(address: str) -> str:
    """Return the address without anything secret: a password, a key in its query."""
    parts = urlsplit(address)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the provider"
