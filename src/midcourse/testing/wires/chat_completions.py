"""OpenAI's Chat Completions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from midcourse.models.script import Call, Conversation, Piece, Said, Text, Usage, call_of
from midcourse.testing.wires.openai import OpenAI, error_body
from midcourse.testing.wires.wire import CREATED, Heard, Objection, Writer, decoded, event


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _ToolCall(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Request(msgspec.Struct):
    model: str | None = None
    messages: list[_Message] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


class ChatCompletions(OpenAI):
    """``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"

    def heard(self, body: bytes) -> Heard:
        """Return the request, if its messages are in an order that a model can continue."""
        request = decoded(body, _Request)
        if not request.model:
            raise Objection("you must provide a model parameter")
        if request.messages is None:
            raise Objection("Missing required parameter: 'messages'.", code="missing_required_parameter")
        if not request.messages:
            raise _empty("messages")
        _check(request.messages)
        return Heard(
            conversation=Conversation(tuple(_said(message) for message in request.messages)),
            model=request.model,
            streams=bool(request.stream),
            wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        )

    def writer(self, heard: Heard, number: int) -> Writer:
        return _Chunks(heard, number)


_ROLES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def _check(messages: Sequence[_Message]) -> None:
    """Raise what OpenAI says of roles, of empty messages, and of calls and results that do not belong together."""
    seen: set[str] = set()
    asked: dict[str, bool] | None = None
    """The calls of the assistant's message that tool messages may follow now, and whether each has its result."""
    for at, message in enumerate(messages):
        if message.role not in _ROLES:
            raise Objection(
                f"Invalid value: '{message.role}'. Supported values are: "
                "'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
                code="invalid_value",
                param=f"messages[{at}].role",
            )
        if message.role == "tool":
            _check_result(message, at, asked)
            continue
        _check_answered(asked)
        asked = None
        if message.tool_calls is not None and message.role == "assistant":
            if not message.tool_calls:
                raise _empty(f"messages[{at}].tool_calls")
            asked = {}
            for call in message.tool_calls:
                if call.id in seen:
                    raise Objection(
                        f"Duplicate value for 'tool_call_id' of '{call.id}' in message[{at}].",
                        param=f"messages.[{at}].tool_calls",
                    )
                seen.add(call.id)
                asked[call.id] = False
        elif message.content is None:
            raise Objection(
                "Invalid value for 'content': expected a string, got null.", param=f"messages.[{at}].content"
            )
        elif message.content == []:
            raise _empty(f"messages[{at}].content")
    _check_answered(asked)


def _check_result(message: _Message, at: int, asked: dict[str, bool] | None) -> None:
    if asked is None:
        raise Objection(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            param=f"messages.[{at}].role",
        )
    if message.tool_call_id is None:
        raise Objection(
            f"Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'. (message[{at}])",
            param=f"messages.[{at}].tool_call_id",
        )
    if message.tool_call_id not in asked:
        raise Objection(
            f"Invalid parameter: 'tool_call_id' of '{message.tool_call_id}' not found in 'tool_calls' of previous "
            "message.",
            param=f"messages.[{at}].tool_call_id",
        )
    if asked[message.tool_call_id]:
        raise Objection(
            f"Duplicate value for 'tool_call_id' of '{message.tool_call_id}' in message[{at}].",
            param=f"messages.[{at}].tool_call_id",
        )
    if message.content is None:
        raise Objection("Invalid value for 'content': expected a string, got null.", param=f"messages.[{at}].content")
    asked[message.tool_call_id] = True


def _check_answered(asked: dict[str, bool] | None) -> None:
    missing = [] if asked is None else [id for id, answered in asked.items() if not answered]
    if missing:
        raise Objection(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
            param="messages",
        )


def _empty(what: str) -> Objection:
    return Objection(
        f"Invalid '{what}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param=what,
    )


def _said(message: _Message) -> Said:
    content = message.content or ""
    text = content if isinstance(content, str) else "\n".join(part.text for part in content)
    match _ROLES[message.role]:
        case "tool":
            return Said("tool", text, call_id=message.tool_call_id or "")
        case "assistant":
            calls = message.tool_calls or ()
            return Said(
                "assistant",
                text,
                tuple(call_of(call.function.name, call.function.arguments, call.id) for call in calls),
            )
        case "user":
            return Said("user", text)
        case _:
            return Said("system", text)


class _Chunks:
    def __init__(self, heard: Heard, number: int) -> None:
        self._heard = heard
        self._id = f"chatcmpl-{number}"
        self._calls = 0

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, part: str) -> bytes:
        return self._chunk({"content": part})

    def call(self, call: Call) -> bytes:
        function = {"name": call.name, "arguments": ""}
        begun = {"index": self._calls, "id": call.id, "type": "function", "function": function}
        self._calls += 1
        return self._chunk({"tool_calls": [begun]})

    def arguments(self, part: str) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._calls - 1, "function": {"arguments": part}}]})

    def garbage(self, text: str) -> bytes:
        return f"data: {text}\n\n".encode()

    def end(self, usage: Usage) -> bytes:
        return b"".join(self._ending(usage))

    def _ending(self, usage: Usage) -> Iterator[bytes]:
        yield self._chunk({}, "tool_calls" if self._calls else "stop")
        if self._heard.wants_usage:
            yield event({**self._head("chat.completion.chunk"), "choices": [], "usage": _usage_json(usage)})
        yield b"data: [DONE]\n\n"

    def broken(self, objection: Objection) -> bytes:
        return event(error_body(objection))

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> Mapping[str, object]:
        calls = [piece for piece in pieces if isinstance(piece, Call)]
        text = "".join(piece.text for piece in pieces if isinstance(piece, Text))
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.spelled}}
                for call in calls
            ]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": _usage_json(usage)}

    def _chunk(self, delta: Mapping[str, object], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        more = {"usage": None} if self._heard.wants_usage else {}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self._id, "object": kind, "created": CREATED, "model": self._heard.model}


def _usage_json(usage: Usage) -> Mapping[str, object]:
    return {
        "prompt_tokens": usage.heard,
        "completion_tokens": usage.said,
        "total_tokens": usage.heard + usage.said,
    }
