"""The messages of a Pydantic AI agent in ``run.history``, and the results of its tools: read back as they were."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    is_multi_modal_content,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from midcourse.adapters.conversation_history import OwnIds, SavedHistory
from midcourse.adapters.held_agent import MODEL, NOT_YET, became, step_key
from midcourse.runtime.run import Run


class MessageHistory(SavedHistory[ModelMessage]):
    """The messages of the model and the agent, and the ids of the calls the model has made."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, ModelMessagesTypeAdapter.validate_json, dump)
        self._run = run
        self._ids = OwnIds(part.tool_call_id for message in self._messages for part in _calls(message))
        self.names: dict[str, str] = {}
        """The model's names for the tools of its last calls, by their ids: prefixes and new names included."""

    def with_own_ids(self, response: ModelResponse) -> ModelResponse:
        """Return the response with a call id of its own for each call."""
        parts = list(response.parts)
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                own = self._ids.own(part.tool_call_id)
                parts[index] = part if own == part.tool_call_id else replace(part, tool_call_id=own)
        return replace(response, parts=parts)

    def taken_in(self, response: ModelResponse) -> ModelResponse:
        """Return the same response; from now on its calls' ids are in use, and their names known."""
        self.names = {part.tool_call_id: part.tool_name for part in _calls(response)}
        self._ids.take(self.names)
        return response

    async def close_turn_before(self) -> None:
        """Take in what the turn before had said and done after its last checkpoint, if it failed or was cancelled."""
        last = await self._run.earlier(MODEL)
        if last is None:
            return
        if last.outcome != "finished":
            if last.text:
                self.add(interrupted(last.text))
            return
        response = self.taken_in(load_response(last.value))
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self.add(response)
        if calls:
            closed = [part for call in calls for part in await self._result(call)]
            # Results first: nothing may come between a call and its result.
            closed.sort(key=lambda part: isinstance(part, UserPromptPart))
            self.add(ModelRequest(parts=closed))

    async def _result(self, call: ToolCallPart) -> list[ToolReturnPart | UserPromptPart]:
        name, key = call.tool_name, step_key(call.tool_call_id)
        step = await self._run.earlier(name, f"{key}:approved") or await self._run.earlier(name, key)
        is_wish = step is not None and step.outcome == "failed" and step.detail.startswith(NOT_YET)
        content = "It was not begun." if is_wish else became(step, restored)
        if not isinstance(content, ToolReturn):
            return [ToolReturnPart(name, content, tool_call_id=call.tool_call_id)]
        rich = cast("ToolReturn[Any]", content)
        told = ToolReturnPart(name, rich.return_value, tool_call_id=call.tool_call_id, metadata=rich.metadata)
        return [told, UserPromptPart(rich.content)] if rich.content else [told]


def retries_in(messages: Sequence[ModelMessage]) -> dict[str, int]:
    """Count how often each tool was retried without success since, as a run counts that over its steps."""
    retries: dict[str, int] = {}
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        results = [one for one in message.parts if isinstance(one, ToolReturnPart)]
        failed = {one.tool_name for one in results if one.outcome == "retried"}
        ended = {one.tool_name for one in results} - failed
        again = {name: retries.get(name, 0) + 1 for name in failed}
        retries = {name: often for name, often in retries.items() if name not in ended} | again
    return retries


def interrupted(text: str) -> ModelResponse:
    """Return the model's text when it was cut."""
    return ModelResponse(parts=[TextPart(text)], state="interrupted")


def dump(messages: list[ModelMessage]) -> list[Any]:
    """Messages as JSON has them."""
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def load_response(content: Any) -> ModelResponse:
    (response,) = ModelMessagesTypeAdapter.validate_python([content])
    assert isinstance(response, ModelResponse)
    return response


def _calls(message: ModelMessage) -> list[ToolCallPart]:
    return [part for part in message.parts if isinstance(part, ToolCallPart)] if message.kind == "response" else []


# ---- the results of tools

_RETURN: Final = "pydantic-ai:tool-return"
_CONTENT: Final = "pydantic-ai:content"
_returns: Final[TypeAdapter[ToolReturn[Any]]] = TypeAdapter(ToolReturn[Any])
_contents: Final[TypeAdapter[Any]] = TypeAdapter(list[UserContent])


def journaled(result: Any) -> object:
    """Return a result in a form that can be journaled."""
    try:
        if isinstance(result, ToolReturn):
            return {_RETURN: _returns.dump_python(cast("ToolReturn[Any]", result), mode="json")}
        several = cast("list[Any]", result if isinstance(result, list) else [result])
        if any(is_multi_modal_content(one) for one in several):
            return {_CONTENT: _contents.dump_python(several, mode="json"), "list": isinstance(result, list)}
        return to_jsonable_python(result)
    except PydanticSerializationError:
        return cast("object", result)  # the journal says what is wrong with it


def restored(result: Any) -> Any:
    """Return the journaled result in its original form."""
    if isinstance(result, dict):
        found = cast("dict[str, Any]", result)
        if _RETURN in found:
            return _returns.validate_python(found[_RETURN])
        if _CONTENT in found:
            several = _contents.validate_python(found[_CONTENT])
            return several if found["list"] else several[0]
    return cast("Any", result)
