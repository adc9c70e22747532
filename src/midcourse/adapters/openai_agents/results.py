"""Journal the results of tools, and restore them as the OpenAI Agents SDK takes them."""

import json
from collections.abc import Callable
from typing import Any, Final, cast, get_type_hints

from agents import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

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
