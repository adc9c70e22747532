"""What a tool returned, as it can be journaled, and back as the OpenAI Agents SDK takes it."""

from typing import Any, Final, cast

from agents import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

_TAG: Final = "openai-agents:output"
_KINDS: Final[dict[str, type[BaseModel]]] = {
    kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
}


def journaled(result: Any) -> object:
    """A result as it can be journaled."""
    if isinstance(result, list | tuple):
        return [journaled(one) for one in cast("list[Any]", result)]
    if isinstance(result, BaseModel) and type(result).__name__ in _KINDS:
        return {_TAG: type(result).__name__, "is": result.model_dump(mode="json", exclude_unset=True)}
    try:
        return to_jsonable_python(result)
    except PydanticSerializationError:
        return cast("object", result)  # the journal says what is wrong with it


def restored(result: Any) -> Any:
    """A journaled result as the SDK takes it."""
    if isinstance(result, list):
        return [restored(one) for one in cast("list[Any]", result)]
    if isinstance(result, dict) and _TAG in result:
        found = cast("dict[str, Any]", result)
        return _KINDS[found[_TAG]].model_validate(found["is"])
    return cast("Any", result)
