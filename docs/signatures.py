"""The signatures of docs/reference/api.md, as they are in the code. The sentences beside them are written by hand."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_overloads

import midcourse

PAGE: Final = Path(__file__).parent / "reference" / "api.md"
METHODS: Final[dict[str, type]] = {
    "Midcourse": midcourse.Midcourse,
    "SessionHandle": midcourse.SessionHandle,
    "Run": midcourse.Run,
}
"""Sections with a table whose first column has the methods of a class."""
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "open": midcourse.open,
    "connect": midcourse.connect,
    "Terms": midcourse.Terms,
    "agent": get_overloads(midcourse.agent)[-1],
    "tool": get_overloads(midcourse.tool)[-1],
}
"""Sections that begin with one call."""
_HIDDEN: Final = frozenset({"self", "clock"})
"""Parameters that a call does not name, or that only tests do."""


def api_page() -> str:
    """The page, with the signatures that are true now."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(?=### )", text)
    return "".join(_mended(part) for part in parts)


def _mended(part: str) -> str:
    found = re.match(r"### `(\w+)`", part)
    name = found[1] if found else ""
    if name in METHODS:
        return re.sub(r"(?m)^\| (`[^|]*?) \|", lambda row: f"| {_cell(METHODS[name], row[1])} |", part)
    if name in FUNCTIONS:
        written = _parameters(FUNCTIONS[name])
        return re.sub(
            rf"(`(?:async with |@)?(?:midcourse\.)?{name})\((?:[^()`]|\([^()]*\))+\)",
            lambda call: f"{call[1]}({written})",
            part,
            count=1,
        )
    return part


def _cell(owner: type, cell: str) -> str:
    def written(span: "re.Match[str]") -> str:
        method = inspect.getattr_static(owner, span[2], None)
        return f"`{span[1] or ''}{span[2]}({_parameters(method)})`" if inspect.isfunction(method) else span[0]

    return re.sub(r"`(await )?(\w+)\([^`]*\)`", written, cell)


def _parameters(function: Callable[..., Any]) -> str:
    words: list[str] = []
    is_named = False
    for one in inspect.signature(function).parameters.values():
        if one.name in _HIDDEN:
            continue
        if one.kind is one.KEYWORD_ONLY and not is_named:
            is_named = True
            words.append("*")
        if one.kind is one.VAR_POSITIONAL:
            is_named = True
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        words.append(f"{star}{one.name}{_default(one.default)}")
    return ", ".join(words)


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, str):
        return f"={json.dumps(value, ensure_ascii=False)}"
    is_plain = value is None or isinstance(value, bool | int | float | tuple)
    return f"={value!r}" if is_plain else "=..."
