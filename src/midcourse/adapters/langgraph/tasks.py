"""Tasks of the functional API (``@task``) as steps: none is silently done again."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from pydantic_core import to_jsonable_python

from midcourse.adapters.langgraph.functions import call_as_step
from midcourse.adapters.langgraph.held_run import current
from midcourse.adapters.langgraph.step_detection import reaches_steps
from midcourse.adapters.langgraph.threads import in_own_thread, keep
from midcourse.runtime.calls import in_a_step
from midcourse.runtime.tools import Tool

_CALL = "__pregel_call"
"""The key of a node's config under which LangGraph has its scheduler of tasks."""

_known: WeakKeyDictionary[Callable[..., Any], bool] = WeakKeyDictionary()

Given = tuple[tuple[Any, ...], dict[str, Any]]


@contextmanager
def tasks_held(open_nodes: Collection[str]) -> Generator[None]:
    """Turn each ``@task`` called in this block into a step, unless this is part of one already."""
    config = var_child_runnable_config.get() or {}
    settings = config.get("configurable", {})
    schedule = settings.get(_CALL)
    if schedule is None or current() is None or in_a_step():
        yield
        return

    def call(function: Callable[..., Any], given: Given, **options: Any) -> Any:
        scheduled: object = schedule(_held_task(function, given, open_nodes), given, **options)
        if isinstance(scheduled, Future):  # called by a thread, which shall not wait for it longer than its node does
            keep(cast("Future[Any]", scheduled))
        elif isinstance(scheduled, asyncio.Future):  # what a stop makes of one that is not awaited is no news
            cast("asyncio.Future[Any]", scheduled).add_done_callback(_seen)
        return cast("Any", scheduled)

    own: dict[str, Any] = {**settings, _CALL: call}
    token = var_child_runnable_config.set(cast("RunnableConfig", {**config, "configurable": own}))
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _seen(ended: "asyncio.Future[Any]") -> None:
    if not ended.cancelled():
        ended.exception()


def _held_task(function: Callable[..., Any], given: Given, open_nodes: Collection[str]) -> Callable[..., Any]:
    """Return the task for LangGraph to run, under its original name, of which its id is made."""
    inner = getattr(function, "func", None)
    name = str(getattr(function, "__name__", getattr(inner, "__name__", type(function).__name__)))
    is_open = name in open_nodes or _reaches_steps(function)

    async def run(*arguments: Any, **keywords: Any) -> Any:
        if not is_open:
            return await call_as_step("Task", name, function, arguments, keywords, functools.partial(_named, given))
        with tasks_held(open_nodes):
            if inspect.iscoroutinefunction(function):
                return await function(*arguments, **keywords)
            return await in_own_thread(function, *arguments, **keywords)

    made = functools.update_wrapper(run, function)
    made.__name__ = name
    return made


def _reaches_steps(function: Callable[..., Any]) -> bool:
    known = _known.get(function)
    if known is None:
        known = _known[function] = reaches_steps(function)
    return known


def _named(given: Given, tool: Tool[..., Any]) -> Mapping[str, object]:
    """Return the arguments by name, as far as they are JSON."""
    arguments, keywords = given
    bound = inspect.signature(tool.function).bind_partial(*arguments, **keywords)
    return cast("dict[str, object]", to_jsonable_python(bound.arguments, fallback=str))
