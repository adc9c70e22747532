"""A model's answer and its tool calls, in one form for every API."""

import json
from typing import Any, Literal, TypeAlias, cast

import msgspec

from midcourse.core.codec import encode
from midcourse.errors import StepError

Api: TypeAlias = Literal["chat.completions", "responses", "messages"]


class ToolCall(msgspec.Struct, frozen=True):
    """A model's request to use a tool: ``await run.call(tool, call.arguments, key=call.key)``."""

    id: str
    name: str
    spelled: str
    """The arguments as the model wrote them."""
    key: str
    """The key of this call's step. Not ``id``: some servers use one id again and again."""
    api: Api

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name.

        Raises:
            StepError: the model wrote something else than a JSON object. Report it to the model:
                ``call.result(str(error))``.
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
        """Return the result of the call as a message for the model's next request."""
        text = value if isinstance(value, str) else encode(value, what=f"The result of call '{self.name}'").decode()
        match self.api:
            case "chat.completions":
                return {"role": "tool", "tool_call_id": self.id, "content": text}
            case "responses":
                return {"type": "function_call_output", "call_id": self.id, "output": text}
            case "messages":
                return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": self.id, "content": text}]}


class ModelReply(msgspec.Struct, frozen=True):
    """A model's text and the tools it wants to use."""

    text: str
    calls: tuple[ToolCall, ...]
    messages: tuple[Any, ...]
    """The answer in the form of its API: put it into the next request, before the results of the calls."""
    ended: str
    """Why the model stopped, in the word of its API: ``stop``, ``end_turn``, ``max_tokens``."""
