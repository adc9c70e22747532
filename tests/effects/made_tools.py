"""Tools that a test makes for itself, and that a later process of the test finds again."""

import itertools
from collections.abc import Callable
from typing import Any

import midcourse
from midcourse.runtime.tools import declared_tool, register

_numbers = itertools.count(1)


def made(function: Callable[..., Any], **declared: Any) -> midcourse.Tool[..., Any]:
    """A declared tool of its own; settled at once unless the test says otherwise."""
    declared.setdefault("settle", 0.0)
    tool = declared_tool(function, origin=f"{__name__}:tool{next(_numbers)}", **declared)
    register(tool)
    return tool
