"""Turn pydantic's findings about a request into sentences that say what to do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from midcourse.core.choices import did_you_mean, must_be, quoted_value
from midcourse.core.tenants import PATTERN as TENANT
from midcourse.core.terms import LABEL
from midcourse.policy.schema import NAME, REFERENCE
from midcourse.server.schemas import NEW_SESSION, SESSION

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_SHOWN: Final = 5
_TIMES: Final = frozenset({"since"})
"""Fields that are a time: that a number is wanted does not say which."""
_NOT_JSON: Final = "json_invalid"
PATTERNS: Final[Mapping[str, str]] = {
    SESSION: "a session's id (letters, digits, . _ and -, beginning with a letter, a digit or _)",
    NEW_SESSION: "a session's id (letters, digits, _ and -, beginning with a letter, a digit or _)",
    LABEL: "a label (up to 64 letters, digits and . _ : / -, beginning with a letter or digit)",
    TENANT: "a tenant's name (up to 32 small letters, digits and -, beginning with a letter or digit)",
    NAME: "a policy's name (small letters, digits and -, such as standard)",
    REFERENCE: "a policy's name (small letters, digits and -, such as standard), or a version of one (standard@1)",
}
"""The description of each pattern of a request."""


def validation_sentence(
    found: Sequence[Mapping[str, Any]], known: "Mapping[str, FieldInfo] | None" = None, body: object = None
) -> tuple[str, str]:
    """Return one sentence for each mistake, at most five, and the field of the first.

    ``found`` are pydantic's errors, their places without ``body``, ``query`` and the like. ``known`` are the possible
    fields: for a misspelt one the nearest is suggested, for a missing one its values. ``body`` is the text that was no
    JSON.
    """
    fields = known or {}
    lines = [_sentence(one, fields, body) for one in found[:_SHOWN]]
    more = [f"And {len(found) - _SHOWN} more."] if len(found) > _SHOWN else []
    is_json = bool(found) and found[0]["type"] != _NOT_JSON
    return shortened(" ".join([*lines, *more]), 2000), _place(found[0]["loc"]) if is_json else "body"


def _sentence(error: Mapping[str, Any], known: "Mapping[str, FieldInfo]", body: object) -> str:
    field = _place(error["loc"])
    context: Mapping[str, Any] = error.get("ctx") or {}
    match error["type"]:
        case "json_invalid":
            why = shortened(str(context.get("error", "it cannot be read")))
            return f"The body is not JSON: {why}{_where(error['loc'], body)}."
        case "missing":
            return f"'{field}' is missing.{_choices(known.get(field))}"
        case "extra_forbidden":
            return f"There is no field '{field}'.{did_you_mean(field, known)}"
        case "float_parsing" | "float_type" if field in _TIMES:
            return f"'{field}' must be seconds since 1970, such as 1760000000, not {quoted_value(error.get('input'))}."
        case "string_too_short" if context.get("min_length") == 1:
            return f"'{field}' is empty."
        case "string_too_long":
            return f"'{field}' is longer than {context.get('max_length')} characters."
        case "model_attributes_type" | "model_type" | "dict_type":
            return "The body must be a JSON object."
        case _:
            return shortened(f"'{field}' {must_be(error, PATTERNS)}", 600)


def _where(location: Sequence[object], body: object) -> str:
    """Return where a text stops being JSON, if no sentence has it yet."""
    if not isinstance(body, str) or not location or not isinstance(location[-1], int):
        return ""
    before = body[: location[-1]]
    return f" at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def _choices(field: "FieldInfo | None") -> str:
    """Return `` It must be 'step', 'goal' or 'clarify'.``, for one of a few values."""
    wanted: Any = field.annotation if field is not None else None
    if get_origin(wanted) is not Literal:
        return ""
    *several, last = (f"'{one}'" for one in get_args(wanted))
    return f" It must be {', '.join(several)} or {last}." if several else f" It must be {last}."


def _place(location: Sequence[object]) -> str:
    return shortened(".".join(str(part) for part in location) or "body")


def shortened(text: str, most: int = 200) -> str:
    """Return ``text`` for an answer: cut if it is long, and without what UTF-8 cannot write."""
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return shown.encode("utf-8", "replace").decode()
