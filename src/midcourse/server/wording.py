"""What pydantic finds wrong with a request, as sentences that say what to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from midcourse.core.allowed import did_you_mean, must_be
from midcourse.core.tenants import PATTERN as TENANT
from midcourse.core.terms import LABEL
from midcourse.policies.schema import NAME, REFERENCE
from midcourse.server.schemas import NEW_SESSION, SESSION

_SHOWN: Final = 5
_NOT_JSON: Final = "json_invalid"
PATTERNS: Final[Mapping[str, str]] = {
    SESSION: "a session's id (letters, digits, . _ and -, beginning with a letter, a digit or _)",
    NEW_SESSION: "a session's id (letters, digits, _ and -, beginning with a letter, a digit or _)",
    LABEL: "a label (up to 64 letters, digits and . _ : / -, beginning with a letter or digit)",
    TENANT: "a tenant's name (up to 32 small letters, digits and -, beginning with a letter or digit)",
    NAME: "a policy's name (small letters, digits and -, such as standard)",
    REFERENCE: "a policy's name (small letters, digits and -, such as standard), or a version of one (standard@1)",
}
"""What each pattern of a request wants."""


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
            return f"There is no field '{field}'.{did_you_mean(field, known)}"
        case "string_too_short" if context.get("min_length") == 1:
            return f"'{field}' is empty."
        case "string_too_long":
            return f"'{field}' is longer than {context.get('max_length')} characters."
        case "model_attributes_type" | "model_type" | "dict_type":
            return "The body must be a JSON object."
        case _:
            return shortened(f"'{field}' {must_be(error, PATTERNS)}", 600)


def _place(location: Sequence[object]) -> str:
    return shortened(".".join(str(part) for part in location) or "body")


def shortened(text: str, most: int = 200) -> str:
    """``text`` as an answer may repeat it: not all of it if it is long, and without what UTF-8 cannot write."""
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return shown.encode("utf-8", "replace").decode()
