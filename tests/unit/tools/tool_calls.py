"""Calls tools as a step would: under a key."""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from midcourse.core.ids import StepId
from midcourse.runtime.calls import CurrentCall, enter
from midcourse.runtime.tools import Tool

P = ParamSpec("P")
T = TypeVar("T")


def under(key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function`` returns in the body of a step whose call has that key."""

    def body() -> T:
        enter(CurrentCall(StepId("step"), "step", 1, key))
        return function(*args, **kwargs)

    return copy_context().run(body)


def undo(made: Tool[..., Any], key: str) -> None:
    """Undo the call of that key, which may have died before it returned."""
    assert made.undo is not None
    made.undo({}, None, key)
