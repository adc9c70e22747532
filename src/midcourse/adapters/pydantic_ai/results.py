"""Journal the results of tools: JSON, except for values that have classes of Pydantic AI."""

from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import UserContent, is_multi_modal_content
from pydantic_core import PydanticSerializationError, to_jsonable_python

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
