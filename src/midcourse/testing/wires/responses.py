"""OpenAI's Responses."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from midcourse.models.script import Call, Conversation, Piece, Role, Said, Text, Usage, call_of
from midcourse.testing.wires.openai import OpenAI
from midcourse.testing.wires.wire import CREATED, Heard, Objection, Writer, decoded, event


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Item(msgspec.Struct):
    type: str = "message"
    role: str = ""
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[_Part] | None = None


class _Request(msgspec.Struct):
    model: str | None = None
    input: str | list[_Item] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None


class Responses(OpenAI):
    """``POST /v1/responses``. Nothing is stored: the whole conversation comes with each request."""

    path = "/v1/responses"

    def heard(self, body: bytes) -> Heard:
        """Return the request, if its items are in an order that a model can continue."""
        request = decoded(body, _Request)
        if not request.model:
            raise Objection("Missing required parameter: 'model'.", code="missing_required_parameter", param="model")
        if request.previous_response_id:
            raise Objection(
                f"Previous response with id '{request.previous_response_id}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        if not request.input:
            raise Objection(
                'One of "input" or "previous_response_id" or "prompt" or "conversation" must be provided.',
                code="missing_required_parameter",
                param="input",
            )
        written = request.input
        items = [_Item(role="user", content=written)] if isinstance(written, str) else written
        _check(items)
        instructions = (Said("system", request.instructions),) if request.instructions else ()
        return Heard(
            conversation=Conversation((*instructions, *_said(items))),
            model=request.model,
            streams=bool(request.stream),
        )

    def writer(self, heard: Heard, number: int) -> Writer:
        return _Events(heard, number)


_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def _check(items: Sequence[_Item]) -> None:
    """Raise what OpenAI says of roles, of empty messages, and of calls and results that do not belong together."""
    ids: set[str] = set()
    asked: dict[str, bool] = {}
    for at, item in enumerate(items):
        if item.id is not None:
            if item.id in ids:
                raise Objection(
                    f"Duplicate item found with id {item.id}. Remove duplicate items from your input and try again.",
                    param="input",
                )
            ids.add(item.id)
        match item.type:
            case "message":
                _check_message(item, at)
            case "function_call":
                if item.call_id in asked:
                    raise Objection(f"Duplicate function call found with call_id {item.call_id}.", param="input")
                asked[item.call_id] = False
            case "function_call_output":
                if item.call_id not in asked:
                    raise Objection(
                        f"No tool call found for function call output with call_id {item.call_id}.", param="input"
                    )
                if asked[item.call_id]:
                    raise Objection(f"Duplicate function call output found with call_id {item.call_id}.", param="input")
                if item.output is None:
                    raise Objection(
                        f"Missing required parameter: 'input[{at}].output'.", code="missing_required_parameter"
                    )
                asked[item.call_id] = True
            case _:  # reasoning and the like: nothing a script hears
                pass
    for call_id, answered in asked.items():
        if not answered:
            raise Objection(f"No tool output found for function call {call_id}.", param="input")


def _check_message(item: _Item, at: int) -> None:
    if item.role not in _ROLES:
        raise Objection(
            f"Invalid value: '{item.role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
            code="invalid_value",
            param=f"input[{at}]",
        )
    if item.content is None:
        raise Objection(f"Missing required parameter: 'input[{at}].content'.", code="missing_required_parameter")


def _said(items: Sequence[_Item]) -> list[Said]:
    """Return the items as messages: the model's items between two others are one message."""
    made: list[Said] = []
    for item in items:
        match item.type:
            case "message":
                said = Said(_ROLES[item.role], _text(item.content))
            case "function_call":
                said = Said("assistant", "", (call_of(item.name, item.arguments, item.call_id),))
            case "function_call_output":
                said = Said("tool", _text(item.output), call_id=item.call_id)
            case _:
                continue
        if made and made[-1].role == said.role == "assistant":
            before = made.pop()
            said = Said("assistant", before.text + said.text, before.calls + said.calls)
        made.append(said)
    return made


def _text(content: str | Sequence[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content)


class _Events:
    def __init__(self, heard: Heard, number: int) -> None:
        self._heard = heard
        self._number = number
        self._sent = 0
        self._done: list[dict[str, object]] = []
        self._begun: Call | None = None
        self._parts: list[str] | None = None
        """The parts of the item that is being written; None between two items."""

    def begin(self) -> bytes:
        empty = self._response("in_progress", None)
        return self._event("response.created", response=empty) + self._event("response.in_progress", response=empty)

    def text(self, part: str) -> bytes:
        opened = b""
        if self._parts is None or self._begun is not None:
            opened = self._close()
            self._parts = []
            opened += self._event("response.output_item.added", **self._at, item=self._item("in_progress"))
            opened += self._event("response.content_part.added", **self._inside, part=_output_text(""))
        self._parts = [*(self._parts or ()), part]
        return opened + self._event("response.output_text.delta", **self._inside, delta=part, logprobs=[])

    def call(self, call: Call) -> bytes:
        closed = self._close()
        self._begun, self._parts = call, []
        return closed + self._event("response.output_item.added", **self._at, item=self._item("in_progress"))

    def arguments(self, part: str) -> bytes:
        self._parts = [*(self._parts or ()), part]
        return self._event("response.function_call_arguments.delta", **self._at, item_id=self._item_id, delta=part)

    def garbage(self, text: str) -> bytes:
        return f"data: {text}\n\n".encode()

    def end(self, usage: Usage) -> bytes:
        closed = self._close()
        return closed + self._event("response.completed", response=self._response("completed", usage))

    def broken(self, objection: Objection) -> bytes:
        code = objection.code or "server_error"
        return self._event("error", code=code, message=objection.message, param=objection.param)

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> Mapping[str, object]:
        for piece in pieces:  # the same items as in a stream, whose events are not read
            if isinstance(piece, Text):
                self.text(piece.text)
            elif isinstance(piece, Call):
                self.call(piece)
                self.arguments(piece.spelled)
        self._close()
        return self._response("completed", usage)

    def _close(self) -> bytes:
        if self._parts is None:
            return b""
        whole = "".join(self._parts)
        if self._begun is not None:
            done = self._event(
                "response.function_call_arguments.done",
                **self._at,
                item_id=self._item_id,
                name=self._begun.name,
                arguments=whole,
            )
        else:
            done = self._event("response.output_text.done", **self._inside, text=whole, logprobs=[])
            done += self._event("response.content_part.done", **self._inside, part=_output_text(whole))
        item = self._item("completed")
        done += self._event("response.output_item.done", **self._at, item=item)
        self._done.append(item)
        self._begun = self._parts = None
        return done

    @property
    def _item_id(self) -> str:
        return f"{'msg' if self._begun is None else 'fc'}_{self._number}_{len(self._done)}"

    @property
    def _at(self) -> dict[str, object]:
        return {"output_index": len(self._done)}

    @property
    def _inside(self) -> dict[str, object]:
        return {**self._at, "item_id": self._item_id, "content_index": 0}

    def _item(self, status: str) -> dict[str, object]:
        whole = "".join(self._parts or ())
        head: dict[str, object] = {"id": self._item_id, "status": status}
        if self._begun is not None:
            named = {"call_id": self._begun.id, "name": self._begun.name, "arguments": whole}
            return {**head, "type": "function_call", **named}
        content = [_output_text(whole)] if status == "completed" else []
        return {**head, "type": "message", "role": "assistant", "content": content}

    def _response(self, status: str, usage: Usage | None) -> dict[str, object]:
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._heard.model,
            "output": list(self._done),
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": None if usage is None else _usage_json(usage),
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        written = event({"type": kind, "sequence_number": self._sent, **fields}, kind)
        self._sent += 1
        return written


def _output_text(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage_json(usage: Usage) -> Mapping[str, object]:
    return {
        "input_tokens": usage.heard,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.heard + usage.said,
    }
