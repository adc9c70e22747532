"""What a model answered, and which tools it wants to use: the same for every API."""

import json
from typing import Any, Literal, TypeAlias, cast

import msgspec

from midcourse.core.codec import encode
from midcourse.errors import StepError

Api: TypeAlias = Literal["chat.completions", "responses", "messages"]


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


class ModelReply(msgspec.Struct, frozen=True):
    """What a model said and which tools it wants to use."""

    text: str
    calls: tuple[ToolCall, ...]
    messages: tuple[Any, ...]
    """The same in the words of its API: put them into the next request, before the results of the calls."""
    ended: str
    """Why the model stopped, in the word of its API: ``stop``, ``end_turn``, ``max_tokens``."""
