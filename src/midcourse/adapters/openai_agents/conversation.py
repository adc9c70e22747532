"""The input items of an OpenAI agent in ``run.history``, and the results of its tools: read back as they were."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast, get_type_hints

import msgspec
from agents import (
    Agent,
    ItemHelpers,
    ModelResponse,
    ModelSettings,
    RunItem,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    Usage,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from midcourse.adapters.continuation import ModelAnswer
from midcourse.adapters.conversation_history import OwnIds, SavedHistory
from midcourse.adapters.held_agent import MODEL, became, step_key
from midcourse.runtime.run import Run

Item: TypeAlias = dict[str, Any]
NESTED_MODEL: Final = "nested model"
"""The name, among the steps, of a request of an agent that runs as a tool."""
LEFT: Final = "It was begun and did not end. What it had done until then stays done."
_REFUSED: Final = "refused"
"""The key of ``run.state`` that has the response that a guardrail refused."""

_outputs: Final[TypeAdapter[list[ResponseOutputItem]]] = TypeAdapter(list[ResponseOutputItem])
_usage: Final = TypeAdapter(Usage)


class ItemHistory(SavedHistory[Item]):
    """The messages of the model and the agent, as the next request would send them."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, msgspec.json.Decoder(list[Item]).decode, lambda items: [dict(item) for item in items])
        self._run = run
        self.ids = OwnIds(item["call_id"] for item in self._messages if item.get("type") == "function_call")

    async def close_turn_before(self, declared: Callable[[str], TypeAdapter[Any] | None]) -> None:
        """Take in what the turn before had said and done after its last checkpoint, if it failed or was cancelled.

        ``declared`` knows the type of a tool's results, by the name of the tool.
        """
        refused = self._run.state.pop(_REFUSED, None)
        if refused is not None and refused["turn"] != self._run.turn:  # in that turn itself, the model is asked again
            self.add(*refused["items"])
        last = await self._run.earlier(MODEL)
        if last is None:
            return
        if last.outcome != "finished":
            if last.text:
                self.add(said(last.text))
            return
        response = load_response(last.value)
        self.ids.take(call.call_id for call in calls_of(response))
        results = [await self._result(call, declared(call.name)) for call in calls_of(response)]
        self.add(*_sent(response.to_input_items()), *results)

    def refuse(self, response: ModelResponse) -> None:
        """Leave a response out, so that a resume asks for another. A later turn is told what it was."""
        self._run.state[_REFUSED] = {"turn": self._run.turn, "items": _sent(response.to_input_items())}

    async def _result(self, call: ResponseFunctionToolCall, declared: TypeAdapter[Any] | None) -> Item:
        key = step_key(call.call_id)
        step = await self._run.earlier(call.name, key)
        # An agent that is a tool is no step, but what it asks its model is one.
        is_left = step is None and await self._run.earlier(NESTED_MODEL, nested_key(call.call_id, 1)) is not None
        output = LEFT if is_left else became(step, lambda value: restored(value, declared))
        return cast("Item", ItemHelpers.tool_call_output_item(call, output))


def nested_key(outer: str, ordinal: int) -> str:
    """Return the key of the n-th model request of an agent that runs as the tool call ``outer``."""
    return step_key(f"{outer}:{ordinal}")


def said(text: str) -> Item:
    """Return the model's text when it was cut, as an item."""
    return {"role": "assistant", "content": text}


def told(text: str) -> Item:
    """Return a person's message, as an item."""
    return {"role": "user", "content": text}


def as_given(items: list[Item]) -> str | list[Item]:
    """Return the input of a run: the words of a person if there is nothing else, as the SDK's own users give them."""
    match items:
        case [{"role": "user", "content": str(text), **rest}] if not rest:
            return text
        case _:
            return items


def continued(given: dict[str, Any], answer: ModelAnswer) -> dict[str, Any]:
    """Return the request as it is, or with what an earlier attempt said, to be continued."""
    if not answer.said:
        return given
    before = given["input"]
    items: list[Any] = [told(before)] if isinstance(before, str) else list(before)
    return {**given, "input": answer.continued(items, said, told)}


def whole(response: ModelResponse, text: str) -> ModelResponse:
    """Return a response that continues another, with the text of both."""
    own = next((item for item in response.output if isinstance(item, ResponseOutputMessage)), None)
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    message = ResponseOutputMessage(
        id=own.id if own else "msg", type="message", role="assistant", status="completed", content=[content]
    )
    others = [item for item in response.output if not isinstance(item, ResponseOutputMessage)]
    return replace(response, output=[message, *others])


def grown(asked: Sequence[Item], response: ModelResponse, made: Iterable[RunItem]) -> list[Item]:
    """Return the conversation after a response: the request, the response, and the results of its calls."""
    wanted = {call.call_id for call in calls_of(response)}
    results = [item.to_input_item() for item in made if item.type in ("tool_call_output_item", "handoff_output_item")]
    given = [result for result in _sent(results) if result.get("call_id") in wanted]
    return [*asked, *_sent(response.to_input_items()), *given]


def with_own_ids(response: ModelResponse, ids: OwnIds) -> ModelResponse:
    """Return the response with a call id of its own for each call."""
    output = list(response.output)
    for index, item in enumerate(output):
        if isinstance(item, ResponseFunctionToolCall):
            own = ids.own(item.call_id)
            output[index] = item if own == item.call_id else item.model_copy(update={"call_id": own})
    return replace(response, output=output)


def calls_of(response: ModelResponse) -> list[ResponseFunctionToolCall]:
    """Return the function calls of a response, handoffs among them."""
    return [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]


def uses_tools(response: ModelResponse) -> bool:
    """Return True if this response has used a tool, as the SDK counts: a search for tools is no use of one."""
    return any(item.type.endswith("_call") and item.type != "tool_search_call" for item in response.output)


def text_of(response: ModelResponse) -> str:
    return "".join(filter(None, map(ItemHelpers.extract_text, response.output)))


def dump_response(response: ModelResponse) -> Mapping[str, Any]:
    """Return a response as JSON. Unset fields stay out, as they do in the SDK's own requests."""
    output = [item.model_dump(mode="json", exclude_unset=True, warnings=False) for item in response.output]
    usage = _usage.dump_python(response.usage, mode="json")
    return {"output": output, "usage": usage, "response_id": response.response_id, "request_id": response.request_id}


def load_response(content: Any) -> ModelResponse:
    return ModelResponse(
        output=_outputs.validate_python(content["output"]),
        usage=_usage.validate_python(content["usage"]),
        response_id=content["response_id"],
        request_id=content["request_id"],
    )


def _sent(items: Iterable[Any]) -> list[Item]:
    return [cast("Item", item) for item in items]


# ---- the results of tools

_TAG: Final = "openai-agents:output"
_KINDS: Final[dict[str, type[BaseModel]]] = {
    kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
}


def journaled(result: Any) -> object:
    """Return a result in a form that can be journaled."""
    if isinstance(result, list | tuple):
        return [journaled(one) for one in cast("list[Any]", result)]
    if isinstance(result, BaseModel) and type(result).__name__ in _KINDS:
        return {_TAG: type(result).__name__, "is": result.model_dump(mode="json", exclude_unset=True)}
    try:
        return to_jsonable_python(result)
    except PydanticSerializationError:
        return cast("object", result)  # the journal says what is wrong with it


def restored(result: Any, declared: TypeAdapter[Any] | None = None) -> Any:
    """Return a journaled result as the SDK takes it, in the type that its function declares."""
    if isinstance(result, list):
        several = cast("list[Any]", result)
        found = [restored(one) for one in several]
        return _in_type(several, declared) if found == several else found
    if isinstance(result, dict) and _TAG in result:
        tagged = cast("dict[str, Any]", result)
        return _KINDS[tagged[_TAG]].model_validate(tagged["is"])
    return _in_type(result, declared)


def type_of_result(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    """Return the type that a function declares for its result; None if it declares none that Pydantic knows."""
    try:
        hint = get_type_hints(function, include_extras=True).get("return", Any)
        return None if hint is Any else TypeAdapter(hint)
    except (NameError, TypeError, PydanticUserError, PydanticUndefinedAnnotation):
        return None


def _in_type(result: Any, declared: TypeAdapter[Any] | None) -> Any:
    if declared is None:
        return result
    spelled = _as_text(result)
    try:
        found = declared.validate_json(spelled)
        # A declaration that is not true, of a float for an int or of a wider class, changes nothing.
        return found if _as_text(to_jsonable_python(found)) == spelled else result
    except (ValidationError, PydanticSerializationError):
        return result


def _as_text(result: Any) -> str:
    return json.dumps(result, sort_keys=True)


# ---- who has used one

_USED: Final = "used"
"""The key of ``run.state`` that has the names of the agents, and their turn."""


class UsedTools:
    """The SDK knows this of each run of its own, and a turn has several: another for each redirect and cold resume."""

    def __init__(self, run: Run) -> None:
        self._run = run
        known = run.state.get(_USED)
        self._names: set[str] = set(known["agents"]) if known is not None and known["turn"] == run.turn else set()
        self._name = ""
        self._resets = False

    def by(self, name: str, agent: Agent[Any]) -> None:
        """Note that the next request is this agent's."""
        self._name = name
        self._resets = agent.reset_tool_choice

    def settings(self, given: ModelSettings) -> ModelSettings:
        """Return the settings of that request."""
        return replace(given, tool_choice=None) if self._resets and self._name in self._names else given

    def take(self, response: ModelResponse) -> None:
        """Take in what that request gave."""
        if uses_tools(response):
            self._names.add(self._name)

    def keep(self) -> None:
        """Have ``run.state`` hold them."""
        if self._names:
            self._run.state[_USED] = {"turn": self._run.turn, "agents": sorted(self._names)}

    def forget(self) -> None:
        """End the turn."""
        self._run.state.pop(_USED, None)
