"""What pydantic finds wrong with a request, as sentences that say what to do."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

_SHOWN: Final = 5
_NOT_JSON: Final = "json_invalid"


def in_words(found: Sequence[Mapping[str, Any]], known: Iterable[str] = ()) -> tuple[str, str]:
    """One sentence for each thing that is wrong, at most five, and the field of the first.

    ``found`` are pydantic's errors, their places without ``body``, ``query`` and the like. ``known`` are the names of
    the fields that there are: a misspelt one is told what it may have been.
    """
    names = list(known)
    lines = [_sentence(one, names) for one in found[:_SHOWN]]
    more = [f"And {len(found) - _SHOWN} more."] if len(found) > _SHOWN else []
    is_json = bool(found) and found[0]["type"] != _NOT_JSON
    return shortened(" ".join([*lines, *more]), 2000), _place(found[0]["loc"]) if is_json else "body"


def _sentence(error: Mapping[str, Any], known: Sequence[str]) -> str:
    field = _place(error["loc"])
    context: Mapping[str, Any] = error.get("ctx") or {}
    match error["type"]:
        case "json_invalid":
            return f"The body is not JSON: {shortened(str(context.get('error', 'it cannot be read')))}."
        case "missing":
            return f"'{field}' is missing."
        case "extra_forbidden":
            near = get_close_matches(field, known, n=1)
            return f"There is no field '{field}'." + (f" Did you mean '{near[0]}'?" if near else "")
        case "string_too_short" if context.get("min_length") == 1:
            return f"'{field}' is empty."
        case "string_too_long":
            return f"'{field}' is longer than {context.get('max_length')} characters."
        case "literal_error" | "enum":
            return f"'{field}' must be {context.get('expected')}."
        case "model_attributes_type" | "model_type" | "dict_type":
            return "The body must be a JSON object."
        case _:
            words = shortened(str(error["msg"])).rstrip(".").removeprefix("Input ").removeprefix("Value ")
            return f"'{field}': {words[:1].lower()}{words[1:]}."


def _place(location: Sequence[object]) -> str:
    return shortened(".".join(str(part) for part in location) or "body")


def shortened(text: str, most: int = 200) -> str:
    """``text`` as an answer may repeat it: not all of it if it is long, and without what UTF-8 cannot write."""
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return shown.encode("utf-8", "replace").decode()
