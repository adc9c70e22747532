"""Reads the streams of the three APIs: the text as it comes, and the whole answer at the end."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import urlsplit

from midcourse.adapters.continuation import ModelAnswer, Way, go_on, takes_a_prefix
from midcourse.adapters.conversation_history import OwnIds
from midcourse.adapters.held_agent import step_key
from midcourse.adapters.plain.replies import Api, ModelReply, ToolCall
from midcourse.adapters.prices import PriceMeter, TokenUsage, dollars
from midcourse.errors import InvalidInput

_LLAMA_CPP: Final = re.compile(r"b\d+-")
"""The signature of llama.cpp's answers."""
_FLAGGED: Final = {"api.mistral.ai": "/", "api.deepseek.com": "/beta"}
"""Who wants the message to be marked as a prefix, and under which path that is known."""
Own = Callable[[str], str]
"""Gives a call an id of its own."""


class ModelError(Exception):
    """A stream of a model broke off, in a way that its client does not call an error. A step's ``kind``.

    ``code`` is what the provider calls the reason, if it does.
    """

    def __init__(self, words: str, code: str | None = None) -> None:
        super().__init__(words)
        self.code = code


class StreamReader(ABC):
    """Takes in the events of one answer."""

    api: Api
    prompt = "messages"
    """The field of a request that holds the messages."""
    most = ("max_tokens",)
    """The fields that limit the length of the answer."""

    def __init__(self) -> None:
        self.model = ""
        self.ended = ""
        self.used = TokenUsage()
        """As far as the provider has told."""
        self.pieces = 0
        self.text: list[str] = []
        self.fingerprint = ""

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as it is made."""
        self.model = str(request.get("model", ""))
        return {**request, "stream": True}

    @abstractmethod
    def way(self, request: Mapping[str, Any], address: str) -> Way:
        """Return how this answer would be continued if it were cut."""

    def continued(self, request: Mapping[str, Any], answer: ModelAnswer, address: str) -> dict[str, Any]:
        """Return the request that continues what the answer has ``said``."""
        if answer.is_quoted:
            return self._quoted(request, answer.said)
        return self.prefixed(request, answer.said, address)

    def prefixed(self, request: Mapping[str, Any], said: str, address: str) -> dict[str, Any]:
        """Return the request with the beginning of its answer."""
        del address
        return self._with(request, {"role": "assistant", "content": said})

    def _quoted(self, request: Mapping[str, Any], said: str) -> dict[str, Any]:
        begun = {"role": "assistant", "content": said.rstrip()}
        return self._with(request, begun, {"role": "user", "content": go_on(said)})

    def _with(self, request: Mapping[str, Any], *more: Mapping[str, Any]) -> dict[str, Any]:
        before = request[self.prompt]
        said: list[Any] = [{"role": "user", "content": before}] if isinstance(before, str) else list(before)
        return {**request, self.prompt: [*said, *more]}

    @abstractmethod
    def take(self, event: Any) -> str:
        """Take in an event and return the text that it brings."""

    @abstractmethod
    def spoken(self, own: Own, whole: str | None) -> tuple[list[Any], list[tuple[str, str, str]]]:
        """Return the messages in the form of the API, and the own id, name and written arguments of each call.

        ``whole``: the text of an answer that continues another.
        """

    def reply(self, step: str, request: Mapping[str, Any], whole: str | None = None) -> ModelReply:
        """Return the whole answer of a step. No id of a call is in the request already: providers refuse that."""
        messages, calls = self.spoken(OwnIds(_ids(request)).own, whole)
        prefix = step.rpartition("/")[2].replace("#", ".")
        made = (
            ToolCall(id, name, spelled, step_key(f"{prefix}.{at}"), self.api)
            for at, (id, name, spelled) in enumerate(calls)
        )
        text = "".join(self.text) if whole is None else whole
        return ModelReply(text, tuple(made), tuple(messages), self.ended)

    @property
    def tokens(self) -> int:
        """Output tokens: as told, or at least one for each piece that came."""
        return self.used.said if self.ended and self.used.said else max(self.used.said, self.pieces)

    def cost(self, meter: PriceMeter) -> float | None:
        """Dollars, as far as is known; None where the price is not. Until the provider tells, the prompt is a guess."""
        if not (self.used.heard or self.tokens):  # it was cut before it said anything
            return dollars(self.model, TokenUsage())
        return meter.price(self.model, replace(self.used, said=self.tokens))

    def _said(self, text: str) -> str:
        self.pieces += bool(text)
        self.text.append(text)
        return text


class ChatCompletionsReader(StreamReader):
    """OpenAI's Chat Completions, and those of everybody who speaks them."""

    api = "chat.completions"
    most = ("max_completion_tokens", "max_tokens")

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[int, dict[str, str]]] = []
        self._latest: dict[int, dict[str, str]] = {}

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"include_usage": True, **(request.get("stream_options") or {})}
        return {**super().asked(request), "stream_options": options}

    def way(self, request: Mapping[str, Any], address: str) -> Way:
        wanted: Any = request.get("response_format") or {"type": "text"}
        if not isinstance(wanted, Mapping) or cast("Mapping[str, Any]", wanted).get("type") != "text":
            return "again"
        return "prefix" if _LLAMA_CPP.match(self.fingerprint) or _is_flagged(address) else "quote"

    def prefixed(self, request: Mapping[str, Any], said: str, address: str) -> dict[str, Any]:
        if _is_flagged(address):
            return self._with(request, {"role": "assistant", "content": said, "prefix": True})
        # llama.cpp and vLLM; a server that knows neither continues all the same, or objects.
        flags = {"continue_final_message": True, "add_generation_prompt": False}
        return {
            **super().prefixed(request, said, address),
            "extra_body": {**(request.get("extra_body") or {}), **flags},
        }

    def take(self, event: Any) -> str:
        self.model = event.model or self.model
        self.fingerprint = event.system_fingerprint or self.fingerprint
        if event.usage is not None:
            details = event.usage.prompt_tokens_details
            cached = (details.cached_tokens if details else 0) or 0
            self.used = TokenUsage(event.usage.prompt_tokens, event.usage.completion_tokens, cached)
        choice = next((choice for choice in event.choices if choice.index == 0), None)
        if choice is None:
            return ""
        self.ended = choice.finish_reason or self.ended
        if choice.delta is None:
            return ""
        for part in choice.delta.tool_calls or ():
            call = self._call_of(part)
            if part.function is not None:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
                self.pieces += bool(part.function.arguments)
        return self._said(choice.delta.content or choice.delta.refusal or "")

    def _call_of(self, part: Any) -> dict[str, str]:
        """Return the call that a part belongs to. Some servers never count: another id with a name is a new call."""
        call = self._latest.get(part.index)
        is_named = part.function is not None and part.function.name
        if call is None or (is_named and part.id and call["id"] and part.id != call["id"]):
            call = self._latest[part.index] = {"id": "", "name": "", "arguments": ""}
            self._calls.append((part.index, call))
        call["id"] = call["id"] or part.id or ""
        return call

    def spoken(self, own: Own, whole: str | None) -> tuple[list[Any], list[tuple[str, str, str]]]:
        text = "".join(self.text) if whole is None else whole
        in_order = sorted(self._calls, key=lambda found: found[0])
        calls = [(own(call["id"]), call["name"], call["arguments"]) for _, call in in_order]
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        if calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": spelled}}
                for id, name, spelled in calls
            ]
        return [message], calls


class ResponsesReader(StreamReader):
    """OpenAI's Responses. They raise nothing when a stream breaks: they say so in an event."""

    api = "responses"
    prompt = "input"
    most = ("max_output_tokens",)

    def __init__(self) -> None:
        super().__init__()
        self._output: list[Any] = []
        self._done: list[Any] = []

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("background"):
            raise InvalidInput(
                "A response in the background continues when the client is gone, so that a stop would not stop it. "
                "Leave background=True out: the step itself lasts as long as it takes.",
                field="background",
            )
        return super().asked(request)

    def way(self, request: Mapping[str, Any], address: str) -> Way:
        text = cast("Mapping[str, Any]", request.get("text") or {})
        return "again" if (text.get("format") or {"type": "text"}).get("type") != "text" else "quote"

    def prefixed(self, request: Mapping[str, Any], said: str, address: str) -> dict[str, Any]:
        return self._quoted(request, said)

    def take(self, event: Any) -> str:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._said(event.delta)
            case "response.output_item.done":
                self._done.append(event.item)
            case "response.created" | "response.completed" | "response.incomplete" | "response.failed":
                self._note(event.response)
                if event.type in {"response.completed", "response.incomplete"}:
                    why = event.response.incomplete_details
                    self.ended = (why.reason if why else "") or event.type.removeprefix("response.")
                elif event.type == "response.failed":
                    error = event.response.error
                    why = error.message if error else "it does not say why"
                    raise ModelError(f"{self.model} failed: {why}", error.code if error else None)
            case "error":
                raise ModelError(f"{self.model} broke off: {event.message} ({event.code or 'error'})", event.code)
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
            self.used = TokenUsage(response.usage.input_tokens, response.usage.output_tokens, cached)

    def spoken(self, own: Own, whole: str | None) -> tuple[list[Any], list[tuple[str, str, str]]]:
        calls: list[tuple[str, str, str]] = []
        messages: list[Any] = []
        for item in self._output or self._done:  # some leave it out of the last event
            message = _plain(item)
            if item.type == "function_call":
                message["call_id"] = own(item.call_id)
                calls.append((message["call_id"], item.name, item.arguments))
            messages.append(message)
        return messages if whole is None else _whole_text(messages, whole), calls


class MessagesReader(StreamReader):
    """Anthropic's Messages."""

    api = "messages"

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._spelled: dict[int, str] = {}
        self._reason = ""

    def way(self, request: Mapping[str, Any], address: str) -> Way:
        if request.get("output_format") or request.get("output_config"):
            return "again"  # half an object cannot be quoted
        thinking: Mapping[str, Any] = request.get("thinking") or {"type": "disabled"}
        thinks = thinking.get("type") != "disabled"
        return "prefix" if takes_a_prefix(str(request.get("model", ""))) and not thinks else "quote"

    def take(self, event: Any) -> str:
        match event.type:
            case "message_start":
                self.model = event.message.model or self.model
                self._note(event.message.usage)
            case "content_block_start":
                block = self._blocks[event.index] = _plain(event.content_block)
                if block["type"] != "text":
                    return ""
                block["text"] = self._said(block.get("text") or "")
                return str(block["text"])
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
                text = self._said(delta.text)
                block["text"] += text
                return text
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
            self.used = TokenUsage(fresh + cached + written, self.used.said, cached, written)
        self.used = replace(self.used, said=usage.output_tokens or self.used.said)

    def spoken(self, own: Own, whole: str | None) -> tuple[list[Any], list[tuple[str, str, str]]]:
        calls: list[tuple[str, str, str]] = []
        for index, block in self._blocks.items():
            spelled = self._spelled.get(index) or json.dumps(block.get("input") or {}, ensure_ascii=False)
            if "input" in block:
                block["input"] = _object(spelled)
            if block["type"] == "tool_use":
                block["id"] = own(block["id"])
                calls.append((block["id"], block["name"], spelled))
        blocks = list(self._blocks.values())
        if whole is not None:
            # It continues in a block of its own, which is one with the text before.
            texts = [block for block in blocks if block["type"] == "text"]
            others = [block for block in blocks if block["type"] != "text"]
            blocks = [{**(texts[0] if texts else {"type": "text"}), "text": whole}, *others]
        # A block of no text is streamed, but not taken back.
        kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
        return ([{"role": "assistant", "content": kept}] if kept else []), calls


READERS: Final[Mapping[str, type[StreamReader]]] = {
    "Completions": ChatCompletionsReader,
    "Responses": ResponsesReader,
    "Messages": MessagesReader,
}


def _is_flagged(url: str) -> bool:
    address = urlsplit(url)
    return address.path.startswith(_FLAGGED.get(address.hostname or "", "\0"))


def _whole_text(items: list[Any], text: str) -> list[Any]:
    """Return the items of an answer that continues another, with the text of both."""
    message: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    message |= next((item for item in items if item["type"] == "message"), message)
    message["content"] = [{"type": "output_text", "text": text, "annotations": []}]
    return [message, *(item for item in items if item["type"] != "message")]


def _ids(value: object) -> Iterator[str]:
    """Yield everything in a request that may be the id of a call."""
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[str, object]", value).items():
            if name in {"id", "call_id", "tool_call_id", "tool_use_id"} and isinstance(item, str):
                yield item
            else:
                yield from _ids(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _ids(item)


def _plain(item: Any) -> dict[str, Any]:
    """Return a client's object as it came over the wire."""
    dumped: dict[str, Any] = item.model_dump(mode="json", exclude_unset=True)
    return dumped


def _object(spelled: str) -> object:
    """Arguments as they can be sent back: broken ones are an empty object."""
    try:
        read: object = json.loads(spelled)
    except ValueError:
        return {}
    return cast("object", read) if isinstance(read, dict) else {}
