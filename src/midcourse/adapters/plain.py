"""The clients of OpenAI and Anthropic in an agent that is a plain function: a stop closes the model's stream.

``streamed(client.chat.completions.create, model=…, messages=…)`` is what ``run.stream`` takes; so are
``client.responses.create`` and ``client.messages.create``. ``model_reply`` is for loops of your own with tools.
Neither library is imported here.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from midcourse.adapters.holding import step_key
from midcourse.core.codec import encode
from midcourse.errors import InvalidInput, StepError
from midcourse.runtime.asking import OnRedirect
from midcourse.runtime.calls import current_call
from midcourse.runtime.run import Run
from midcourse.runtime.streaming import StreamEnd

# Here and not where a price is wanted: that is in the middle of a stop.
try:
    from midcourse.adapters import prices

    _dollars: Callable[..., float] | None = prices.dollars
except ModuleNotFoundError:  # genai-prices is not installed: nothing has a price
    _dollars = None

Api: TypeAlias = Literal["chat.completions", "responses", "messages"]
Create: TypeAlias = Callable[..., Awaitable[object]]

_SHORTEST_SECRET: Final = 8
"""A shorter key, as servers without keys are given, may be a word of any sentence."""


class ModelError(Exception):
    """A stream of a model broke off, in a way that its client does not call an error. A step's ``kind``."""


# ---- what a model answers


class ToolCall(msgspec.Struct, frozen=True):
    """A model's wish to use a tool: ``await run.call(tool, call.arguments, key=call.key)``."""

    id: str
    name: str
    spelled: str
    """The arguments as the model wrote them."""
    key: str
    """What the step of this call is told by. Not ``id``: some servers use one id again and again."""
    api: Api

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name.

        Raises:
            StepError: the model wrote something else than a JSON object. Tell it so: ``call.result(str(error))``.
        """
        try:
            read: object = json.loads(self.spelled or "{}")
        except ValueError:
            read = None
        if isinstance(read, dict):
            return cast("dict[str, Any]", read)
        detail = f"the arguments are no JSON object: {self.spelled[:200]}"
        raise StepError(
            f"Call '{self.name}' cannot be made: {detail}", step=self.key, kind="BadArguments", detail=detail
        )

    def result(self, value: object) -> Any:
        """What the call returned, as a message for the model's next request."""
        text = value if isinstance(value, str) else encode(value, what=f"The result of call '{self.name}'").decode()
        match self.api:
            case "chat.completions":
                return {"role": "tool", "tool_call_id": self.id, "content": text}
            case "responses":
                return {"type": "function_call_output", "call_id": self.id, "output": text}
            case "messages":
                return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": self.id, "content": text}]}


class Reply(msgspec.Struct, frozen=True):
    """What a model said and which tools it wants to use."""

    text: str
    calls: tuple[ToolCall, ...]
    messages: tuple[Any, ...]
    """The same in the words of its API: put them into the next request, before the results of the calls."""
    ended: str
    """Why the model stopped, in the word of its API: ``stop``, ``end_turn``, ``max_tokens``."""


# ---- asking it


class Streamed(AsyncIterator[str | StreamEnd]):
    """A request that is made when it is iterated, each time anew, and closed when that ends in whatever way."""

    def __init__(self, create: Create, request: Mapping[str, Any], *, whole: bool = False) -> None:
        self._create = create
        self._request = request
        self._whole = whole
        self._pieces: AsyncGenerator[str | StreamEnd] | None = None

    def whole(self) -> "Streamed":
        """The same request, whose step returns a ``Reply``."""
        return Streamed(self._create, self._request, whole=True)

    def __aiter__(self) -> "Streamed":
        self._pieces = self._read()
        return self

    async def __anext__(self) -> str | StreamEnd:
        if self._pieces is None:
            self._pieces = self._read()
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Close the stream: the provider sees that nobody listens, and stops."""
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
        stream: Any = None
        try:
            stream = await create(**request)
            async for event in stream:
                if text := reader.take(event):
                    yield text
            if not reader.ended:
                raise ModelError("The stream ended before the model had.")
        except Exception as error:
            _say_clearly(error, client, address)
            if isinstance(error, json.JSONDecodeError):
                raise ModelError(f"{_host(address)} sent something that is no JSON.") from error
            raise
        finally:
            # First: that a price is looked up must not keep a model talking.
            if stream is not None:
                await stream.close()
            call.spend(reader.cost(address), reader.tokens)
        value = reader.reply(call.step) if self._whole else None
        yield StreamEnd(value=value, cost=reader.cost(address), tokens=reader.tokens)


def streamed(create: Create, **request: Any) -> Streamed:
    """A model's answer for ``run.stream``: ``lambda: streamed(client.chat.completions.create, model=…, messages=…)``.

    ``create`` is that method, or ``client.responses.create``, or ``client.messages.create`` of Anthropic's client. The
    request is streamed whatever ``stream`` says, and made once: the client's own retries are off, so that there is no
    request that nobody sees. A stop closes the stream.

    In the step:
        InvalidInput: it is another function, or a request that this cannot hold.
    """
    return Streamed(create, request)


async def model_reply(
    run: Run,
    name: str,
    request: Callable[[], Streamed],
    *,
    key: str | None = None,
    on_redirect: OnRedirect = "again",
) -> Reply:
    """Call a model that may want to use tools: ``await model_reply(run, "think", lambda: streamed(…, tools=…))``.

    As ``run.stream``, whose step it is, but for what it returns.

    Raises:
        StepError: the request failed.
        Redirected: with ``on_redirect="raise"``, a redirect cut it.
    """
    said = await run.stream(name, lambda: request().whole(), key=key, on_redirect=on_redirect)
    return msgspec.convert(cast("object", said), Reply)


def _prepared(create: Create) -> "tuple[_Reader, Create, object]":
    """Who reads the answer; the function to call, of a copy of the client that does not retry; the client."""
    resource: Any = getattr(create, "__self__", None)
    kind: type[Any] = resource.__class__
    reader = _READERS.get(kind.__name__.removeprefix("Async"))
    if reader is None or (reader is _Chat and ".chat." not in kind.__module__):
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


# ---- reading what comes


@dataclass(slots=True, eq=False)
class _Used:
    """Tokens, as far as the provider has told."""

    heard: int = 0
    said: int = 0
    cached: int = 0
    written_to_cache: int = 0


class _Reader:
    """Takes in the events of one answer."""

    api: Api

    def __init__(self) -> None:
        self.model = ""
        self.ended = ""
        self.used = _Used()
        self.pieces = 0
        self.text: list[str] = []

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request as it is made."""
        self.model = str(request.get("model", ""))
        return {**request, "stream": True}

    def take(self, event: Any) -> str:
        """Take in an event and return the text that it brings."""
        raise NotImplementedError

    def spoken(self) -> tuple[list[Any], list[tuple[str, str, str]]]:
        """The messages in the words of the API, and of each call the id, the name and the arguments as written."""
        raise NotImplementedError

    def reply(self, step: str) -> Reply:
        """The whole answer, of a step."""
        messages, calls = self.spoken()
        prefix = step.rpartition("/")[2].replace("#", ".")
        made = (
            ToolCall(id, name, spelled, step_key(f"{prefix}.{at}"), self.api)
            for at, (id, name, spelled) in enumerate(calls)
        )
        return Reply("".join(self.text), tuple(made), tuple(messages), self.ended)

    @property
    def tokens(self) -> int:
        """Output tokens: as told, or at least one for each piece that came."""
        return self.used.said if self.ended and self.used.said else max(self.used.said, self.pieces)

    def cost(self, address: str) -> float:
        """Dollars, as far as is known; 0 where the price is not."""
        used = self.used
        if _dollars is None or not (used.heard or self.tokens):
            return 0.0
        return _dollars(
            model=self.model,
            heard=used.heard,
            said=self.tokens,
            cached=used.cached,
            written_to_cache=used.written_to_cache,
            url=address,
        )

    def _said(self, text: str) -> str:
        self.pieces += bool(text)
        self.text.append(text)
        return text


class _Chat(_Reader):
    """OpenAI's Chat Completions, and those of everybody who speaks them."""

    api = "chat.completions"

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, dict[str, str]] = {}

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"include_usage": True, **(request.get("stream_options") or {})}
        return {**super().asked(request), "stream_options": options}

    def take(self, event: Any) -> str:
        self.model = event.model or self.model
        if event.usage is not None:
            details = event.usage.prompt_tokens_details
            cached = (details.cached_tokens if details else 0) or 0
            self.used = _Used(event.usage.prompt_tokens, event.usage.completion_tokens, cached)
        choice = next((choice for choice in event.choices if choice.index == 0), None)
        if choice is None:
            return ""
        self.ended = choice.finish_reason or self.ended
        if choice.delta is None:
            return ""
        for part in choice.delta.tool_calls or ():
            call = self._calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            if part.function is not None:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
                self.pieces += bool(part.function.arguments)
        return self._said(choice.delta.content or choice.delta.refusal or "")

    def spoken(self) -> tuple[list[Any], list[tuple[str, str, str]]]:
        text = "".join(self.text)
        calls = [(call["id"], call["name"], call["arguments"]) for _, call in sorted(self._calls.items())]
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        if calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": spelled}}
                for id, name, spelled in calls
            ]
        return [message], calls


class _Responses(_Reader):
    """OpenAI's Responses. They raise nothing when a stream breaks: they say so in an event."""

    api = "responses"

    def __init__(self) -> None:
        super().__init__()
        self._output: list[Any] = []

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("background"):
            raise InvalidInput(
                "A response in the background goes on when nobody listens, so that a stop would not stop it. "
                "Leave background=True out: the step itself lasts as long as it takes.",
                field="background",
            )
        return super().asked(request)

    def take(self, event: Any) -> str:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._said(event.delta)
            case "response.created" | "response.completed" | "response.incomplete" | "response.failed":
                self._note(event.response)
                if event.type in {"response.completed", "response.incomplete"}:
                    why = event.response.incomplete_details
                    self.ended = (why.reason if why else "") or event.type.removeprefix("response.")
                elif event.type == "response.failed":
                    error = event.response.error
                    raise ModelError(f"{self.model} failed: {error.message if error else 'it does not say why'}")
            case "error":
                raise ModelError(f"{self.model} broke off: {event.message} ({event.code or 'error'})")
            case kind if kind.endswith(".delta"):  # arguments, reasoning: not for the reader, but to be paid
                self.pieces += 1
            case _:
                pass
        return ""

    def _note(self, response: Any) -> None:
        self.model = response.model or self.model
        self._output = response.output or []
        if response.usage is not None:
            details = response.usage.input_tokens_details
            cached = (details.cached_tokens if details else 0) or 0
            self.used = _Used(response.usage.input_tokens, response.usage.output_tokens, cached)

    def spoken(self) -> tuple[list[Any], list[tuple[str, str, str]]]:
        calls = [(item.call_id, item.name, item.arguments) for item in self._output if item.type == "function_call"]
        return [_plain(item) for item in self._output], calls


class _Messages(_Reader):
    """Anthropic's Messages."""

    api = "messages"

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._spelled: dict[int, str] = {}
        self._reason = ""

    def take(self, event: Any) -> str:
        match event.type:
            case "message_start":
                self.model = event.message.model or self.model
                self._note(event.message.usage)
            case "content_block_start":
                self._blocks[event.index] = _plain(event.content_block)
                return self._said(self._blocks[event.index].get("text") or "")
            case "content_block_delta":
                return self._delta(self._blocks[event.index], event.index, event.delta)
            case "message_delta":
                self._reason = event.delta.stop_reason or self._reason
                self._note(event.usage)
            case "message_stop":
                self.ended = self._reason or "end_turn"
            case _:
                pass
        return ""

    def _delta(self, block: dict[str, Any], index: int, delta: Any) -> str:
        match delta.type:
            case "text_delta":
                block["text"] += delta.text
                return self._said(delta.text)
            case "input_json_delta":
                self._spelled[index] = self._spelled.get(index, "") + delta.partial_json
                self.pieces += bool(delta.partial_json)
            case "thinking_delta":
                block["thinking"] += delta.thinking
                self.pieces += 1
            case "signature_delta":
                block["signature"] = delta.signature
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), _plain(delta.citation)]
            case _:
                pass
        return ""

    def _note(self, usage: Any) -> None:
        """Later counts are of the whole answer so far; what is left out stands."""
        if usage is None:
            return
        fresh = getattr(usage, "input_tokens", None)
        if fresh is not None:
            cached = getattr(usage, "cache_read_input_tokens", None) or 0
            written = getattr(usage, "cache_creation_input_tokens", None) or 0
            self.used = _Used(fresh + cached + written, self.used.said, cached, written)
        self.used.said = usage.output_tokens or self.used.said

    def spoken(self) -> tuple[list[Any], list[tuple[str, str, str]]]:
        calls: list[tuple[str, str, str]] = []
        for index, block in self._blocks.items():
            spelled = self._spelled.get(index) or json.dumps(block.get("input") or {}, ensure_ascii=False)
            if "input" in block:
                block["input"] = _object(spelled)
            if block["type"] == "tool_use":
                calls.append((block["id"], block["name"], spelled))
        # A block of no text is streamed, but not taken back.
        kept = [block for block in self._blocks.values() if block["type"] != "text" or block["text"].strip()]
        return ([{"role": "assistant", "content": kept}] if kept else []), calls


_READERS: Final[Mapping[str, type[_Reader]]] = {"Completions": _Chat, "Responses": _Responses, "Messages": _Messages}


def _plain(item: Any) -> dict[str, Any]:
    """A client's object as it came over the wire."""
    dumped: dict[str, Any] = item.model_dump(mode="json", exclude_unset=True)
    return dumped


def _object(spelled: str) -> object:
    """Arguments as they can be sent back: broken ones are an empty object."""
    try:
        read: object = json.loads(spelled)
    except ValueError:
        return {}
    return cast("object", read) if isinstance(read, dict) else {}


# ---- errors in words


def _say_clearly(error: Exception, client: object, address: str) -> None:
    """Give a client's error a sentence that says what to do, and no key. It keeps its class: the step's ``kind``."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    where = _host(address)
    if "APITimeoutError" in kinds or "TimeoutException" in kinds:
        words = f"{where} did not answer in time. Is it busy? The client's timeout may be too short."
    elif "APIConnectionError" in kinds or "TransportError" in kinds:
        cause = str(error.__cause__ or error).strip().rstrip(".") or "no reason given"
        words = f"No connection to {where}, or it was lost: {cause}. Check base_url, and whether that can be reached."
    elif "APIError" in kinds:
        status: int | None = getattr(error, "status_code", None)
        words = f"{where} said{f' ({status})' if status else ''}: {_told(error).rstrip('.')}.{_what_to_do(status)}"
    elif "authentication method" in str(error) or "Missing credentials" in str(error):
        words = f"The client has no key for {where}. Give it an api_key, or set its environment variable."
    else:
        return
    for name in ("api_key", "auth_token"):
        secret = getattr(client, name, None)
        if isinstance(secret, str) and len(secret) >= _SHORTEST_SECRET:
            words = words.replace(secret, "(the key)")
    error.args = (words,)


def _told(error: Exception) -> str:
    """The provider's own sentence."""
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


def _host(address: str) -> str:
    """Without what an address may hold besides: a password, a key in its query."""
    parts = urlsplit(address)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the provider"
