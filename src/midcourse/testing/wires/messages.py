"""Anthropic's Messages."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from midcourse.adapters.continuation import takes_a_prefix
from midcourse.models.script import Call, Conversation, Piece, Role, Said, Text, Usage, call_of, usage
from midcourse.testing.wires.wire import Heard, Objection, Writer, decoded, event

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: "str | list[_Block] | None" = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Block]


class _Request(msgspec.Struct):
    model: str | None = None
    messages: list[_Message] | None = None
    max_tokens: int | None = None
    system: str | list[_Block] | None = None
    stream: bool | None = None


class _Turn(msgspec.Struct):
    """Messages of one role that follow each other, which count as one."""

    at: int
    role: str
    blocks: list[_Block]


class Messages:
    """``POST /v1/messages``."""

    path = "/v1/messages"

    def key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ") or None

    def wrong_key(self, key: str | None) -> Objection:
        return Objection("x-api-key header is required" if key is None else "invalid x-api-key", status=401)

    def heard(self, body: bytes) -> Heard:
        """Return the request, if its messages are in an order that a model can continue."""
        request = decoded(body, _Request)
        for field in ("model", "max_tokens", "messages"):
            if getattr(request, field) is None:
                raise Objection(f"{field}: Field required")
        turns = _turns(request.messages or [])
        _check(turns, request.model or "")
        instructions = (Said("system", _text(request.system)),) if request.system else ()
        return Heard(
            conversation=Conversation((*instructions, *(said for turn in turns for said in _said(turn)))),
            model=request.model or "",
            streams=bool(request.stream),
        )

    def error(self, objection: Objection) -> Mapping[str, object]:
        return _error(objection)

    def writer(self, heard: Heard, number: int) -> Writer:
        return _Events(heard, number)


def _turns(messages: Sequence[_Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    for at, message in enumerate(messages):
        if message.role not in {"user", "assistant"}:
            raise Objection(f"messages.{at}.role: Input should be 'user' or 'assistant'")
        written = message.content
        blocks = ([_Block("text", written)] if written else []) if isinstance(written, str) else written
        if not blocks:
            raise Objection(
                f"messages.{at}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
        for block in blocks:
            _check_block(block, at)
        if turns and turns[-1].role == message.role:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(_Turn(at, message.role, list(blocks)))
    return turns


def _check_block(block: _Block, at: int) -> None:
    if block.type == "text" and not block.text:
        raise Objection("messages: text content blocks must be non-empty")
    if block.type == "text" and not block.text.strip():
        raise Objection("messages: text content blocks must contain non-whitespace text")
    if block.type == "tool_use" and not _ID.fullmatch(block.id):
        raise Objection(f"messages.{at}.content.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if block.type == "tool_use" and not isinstance(block.input, dict):
        raise Objection(f"messages.{at}.content.tool_use.input: Input should be a valid dictionary")


def _check(turns: Sequence[_Turn], model: str) -> None:
    """Raise what Anthropic says of the order of messages, and of calls and results that do not belong together."""
    if not turns:
        raise Objection("messages: at least one message is required")
    if turns[0].role != "user":
        raise Objection('messages: first message must use the "user" role')
    seen: set[str] = set()
    asked: list[str] = []
    before = turns[0].at
    for turn in turns:
        if turn.role == "user":
            _check_results(turn, asked, before)
            asked = []
        else:
            asked = [block.id for block in turn.blocks if block.type == "tool_use"]
            if len(set(asked)) < len(asked) or seen.intersection(asked):
                raise Objection("messages: `tool_use` ids must be unique")
            seen.update(asked)
        before = turn.at
    if asked:
        raise _unanswered(turns[-1].at, asked)
    if turns[-1].role != "user":
        if not takes_a_prefix(model):
            raise Objection(
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )
        if turns[-1].blocks[-1].text != turns[-1].blocks[-1].text.rstrip():
            raise Objection("messages: final assistant content cannot end with trailing whitespace")


def _check_results(turn: _Turn, asked: Sequence[str], before: int) -> None:
    answered: set[str] = set()
    first = True
    for at, block in enumerate(turn.blocks):
        if block.type != "tool_result":
            first = False
            continue
        where = f"messages.{turn.at}.content.{at}"
        if block.tool_use_id not in asked:
            raise Objection(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {block.tool_use_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if block.tool_use_id in answered:
            raise Objection(
                f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{block.tool_use_id}"
            )
        if first:  # results that come after other content are not "immediately after"
            answered.add(block.tool_use_id)
    missing = [id for id in asked if id not in answered]
    if missing:
        raise _unanswered(before, missing)


def _unanswered(at: int, ids: Sequence[str]) -> Objection:
    return Objection(
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _said(turn: _Turn) -> Iterator[Said]:
    role: Role = "assistant" if turn.role == "assistant" else "user"
    for block in turn.blocks:
        if block.type == "tool_result":
            yield Said("tool", _text(block.content), call_id=block.tool_use_id)
    calls = tuple(
        call_of(block.name, json.dumps(block.input, ensure_ascii=False), block.id)
        for block in turn.blocks
        if block.type == "tool_use"
    )
    others = [block for block in turn.blocks if block.type not in {"tool_result", "tool_use"}]
    if others or calls:
        yield Said(role, _text(others), calls)


def _text(content: str | Sequence[_Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block.text for block in content if block.type == "text")


_KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _error(objection: Objection) -> dict[str, object]:
    usual = "api_error" if objection.status >= 500 else "invalid_request_error"
    kind = _KINDS.get(objection.status, usual)
    return {"type": "error", "error": {"type": kind, "message": objection.message}, "request_id": None}


class _Events:
    def __init__(self, heard: Heard, number: int) -> None:
        self._heard = heard
        self._id = f"msg_{number}"
        self._block = -1
        self._open = ""
        self._calls = 0

    def begin(self) -> bytes:
        empty = self._message([], None, usage(self._heard.conversation, ()))
        return self._event("message_start", message=empty) + self._event("ping")

    def text(self, part: str) -> bytes:
        opened = b"" if self._open == "text" else self._next("text", {"type": "text", "text": ""})
        return opened + self._delta({"type": "text_delta", "text": part})

    def call(self, call: Call) -> bytes:
        self._calls += 1
        return self._next("call", {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})

    def arguments(self, part: str) -> bytes:
        return self._delta({"type": "input_json_delta", "partial_json": part})

    def garbage(self, text: str) -> bytes:
        # Of an event without a name that it knows, Anthropic's client takes no notice.
        return f"event: content_block_delta\ndata: {text}\n\n".encode()

    def end(self, usage: Usage) -> bytes:
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        ending = self._event("message_delta", delta=delta, usage=_usage_json(usage))
        return self._close() + ending + self._event("message_stop")

    def broken(self, objection: Objection) -> bytes:
        return event(_error(objection), "error")

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> Mapping[str, object]:
        blocks: list[dict[str, object]] = []
        for piece in pieces:
            if isinstance(piece, Text) and blocks and blocks[-1]["type"] == "text":
                blocks[-1] = {"type": "text", "text": f"{blocks[-1]['text']}{piece.text}"}
            elif isinstance(piece, Text):
                blocks.append({"type": "text", "text": piece.text})
            elif isinstance(piece, Call):
                self._calls += 1
                # Arguments that are no JSON have no place in this answer: they are a string where an object should be.
                given = dict(piece.arguments) if piece.raw is None else piece.raw
                blocks.append({"type": "tool_use", "id": piece.id, "name": piece.name, "input": given})
        return self._message(blocks, self._reason, usage)

    @property
    def _reason(self) -> str:
        return "tool_use" if self._calls else "end_turn"

    def _message(self, content: list[dict[str, object]], reason: str | None, usage: Usage) -> dict[str, object]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._heard.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": _usage_json(usage),
        }

    def _next(self, kind: str, block: Mapping[str, object]) -> bytes:
        closed = self._close()
        self._block += 1
        self._open = kind
        return closed + self._event("content_block_start", index=self._block, content_block=block)

    def _close(self) -> bytes:
        closing = self._event("content_block_stop", index=self._block) if self._open else b""
        self._open = ""
        return closing

    def _delta(self, delta: Mapping[str, object]) -> bytes:
        return self._event("content_block_delta", index=self._block, delta=delta)

    @staticmethod
    def _event(kind: str, **fields: object) -> bytes:
        return event({"type": kind, **fields}, kind)


def _usage_json(usage: Usage) -> Mapping[str, object]:
    return {"input_tokens": usage.heard, "output_tokens": usage.said}
