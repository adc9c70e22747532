"""Ready tools: sets that are found again by their parameters, and the call that one of them runs in."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

from midcourse.clock import SystemClock
from midcourse.runtime.calls import current_call, in_a_step
from midcourse.runtime.tools import Tool, declared_tool, register

P = ParamSpec("P")
T = TypeVar("T")


class Toolset:
    """The tools that ``maker`` makes of these parameters. Another process calls it again to find them."""

    def __init__(self, maker: Callable[..., object], **parameters: object) -> None:
        spelled = msgspec.json.encode(parameters).decode()
        self._origin = f"{maker.__module__}:{maker.__name__}({spelled})"
        self._tools: list[Tool[..., Any]] = []

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        return tuple(self._tools)

    def _tool(self, function: Callable[P, T], attribute: str, name: str, **declared: Any) -> Tool[P, T]:
        """Declare a method as the tool that is kept as ``attribute``."""
        made = declared_tool(function, name=name, origin=f"{self._origin}.{attribute}", **declared)
        register(made)
        self._tools.append(made)
        return made


def key_of_this_call() -> str:
    """Return the key of the step that this code runs in; a fresh one outside any step."""
    return (current_call().key if in_a_step() else "") or SystemClock().fresh_id()


def end_if_asked() -> None:
    """Leave the call here if a stop wants it to end. Outside a step nothing does."""
    if in_a_step():
        current_call().raise_if_cancelled()
