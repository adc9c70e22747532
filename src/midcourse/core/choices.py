"""Describe the values that a field may have: pydantic's findings, in sentences for a terminal or HTTP. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

_SHOWN: Final = 60
"""Signs of what was given that are repeated."""
_LONGEST_WORD: Final = 100
"""Signs of a word that is compared with others: what is longer is near none, and comparing takes its time."""
_LISTED: Final = 20
"""Names that are listed where none is near."""
_BITS: Final = 200
"""Bits of the largest whole number that is repeated: to write out one of thousands of digits Python refuses."""
_KINDS: Final[Mapping[str, str]] = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text in UTF-8",
    "list_type": "a list",
    "tuple_type": "a list",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def must_be(finding: Mapping[str, Any], patterns: Mapping[str, str]) -> str:
    """Return the rest of a sentence that begins with the value's name: ``must be a whole number, not 'x'.``

    ``finding`` is one of pydantic's errors; ``patterns`` describes what a pattern wants.
    """
    context: Mapping[str, Any] = finding.get("ctx") or {}
    kind, value = str(finding["type"]), finding.get("input")
    match kind:
        case "literal_error" | "enum":
            expected = str(context.get("expected", ""))
            return f"must be {expected}, not {quoted_value(value)}.{did_you_mean(value, expected.split(chr(39))[1::2])}"
        case "string_pattern_mismatch" if (pattern := str(context.get("pattern"))) in patterns:
            return f"must be {patterns[pattern]}, not {quoted_value(value)}."
        case "too_long" | "too_short":
            how = "at most" if kind == "too_long" else "at least"
            number = context.get("max_length" if kind == "too_long" else "min_length")
            return f"must have {how} {number} {'part' if number == 1 else 'parts'}, not {context.get('actual_length')}."
        case _ if kind in _BOUNDS:
            name, how = _BOUNDS[kind]
            bound = context[name]
            shown = f"{bound:,.15g}" if isinstance(bound, int | float) else str(bound)
            return f"must be {how} {shown}, not {quoted_value(value)}."
        case _ if kind in _KINDS:
            return f"must be {_KINDS[kind]}, not {quoted_value(value)}."
        case _:
            words = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
            return f"cannot be used: {words[:1].lower()}{words[1:]}."


def quoted_value(value: object) -> str:
    """Quote a value for a sentence: in quotes if it is text, and cut if it is long."""
    match value:
        case str():
            return f"'{value}'" if len(value) <= _SHOWN else f"'{value[: _SHOWN - 1]}…'"
        case int() if value.bit_length() > _BITS:
            return "a number that is far too large"
        case None | bool() | int() | float():
            return json.dumps(value)
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return `` Did you mean 'paused'?`` for the end of a sentence, if a known word is near."""
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        return ""
    names = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), names, n=1)
    return f" Did you mean '{names[near[0]]}'?" if near else ""


def suggestion(word: object, known: Sequence[str]) -> str:
    """Return a sentence with the probable word, or else with all of them."""
    if not known:
        return "There is none."
    rest = ", …" if len(known) > _LISTED else ""
    listed = f"There {'is' if len(known) == 1 else 'are'}: {', '.join(known[:_LISTED])}{rest}."
    return did_you_mean(word, known).lstrip() or listed
