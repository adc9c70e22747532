"""A function of the user's, be it a node or a ``@task``, as a step. One that holds steps itself, or asks, is none."""

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from langgraph.errors import GraphBubbleUp

from midcourse.adapters.held_agent import declared, inside
from midcourse.adapters.langgraph.held_run import current, raise_as_was
from midcourse.errors import MisusedRun, StepError
from midcourse.runtime.tools import Tool

held_call: ContextVar[str] = ContextVar("midcourse_langgraph_tool", default="")
"""The tool that a node of tools calls here."""
_running: ContextVar[str] = ContextVar("midcourse_langgraph_function", default="")


def running() -> str:
    """Return the name of the function that runs as a step here; empty in a tool, an open node, or anywhere else."""
    return _running.get()


async def call_as_step(
    kind: str,
    name: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    given: Callable[[Tool[..., Any]], Mapping[str, object]],
) -> Any:
    """Call it as a step, or plainly where no run is held. ``given`` is what people, its undo and its probe see."""
    held = current()
    if held is None:
        result = function(*arguments, **keywords)
        return await result if inspect.isawaitable(result) else result
    await held.stands()
    made = declared(function, name, held.declarations)
    if made.run_in == "process":
        raise MisusedRun(
            f"{kind} '{name}' cannot run in a process: it is given the graph's state. Make what is slow in it a "
            "tool with run_in='process'.",
            code="node_in_process",
        )
    body = made.function if isinstance(function, Tool) else function
    key = held.key(name)
    try:
        result = await held.run.call(
            made,
            given(made),
            key=key,
            name=name,
            body=inside(partial(_without_asking, kind, name), body, arguments, keywords),
            shape=held.journaled,
            on_redirect="again",
        )
    except StepError as error:
        held.failed(key)
        raise_as_was(error)
    return held.restored(result)


@contextmanager
def _without_asking(kind: str, name: str) -> Generator[None]:
    """Explain what to do if the function asks after all, deeper than could be seen."""
    token = _running.set(name)
    try:
        yield
    except GraphBubbleUp as error:
        raise MisusedRun(
            f"{kind} '{name}' asks with interrupt(), so it is no step: name it in wrap(…, open_nodes=['{name}']).",
            code="node_asks",
        ) from error
    finally:
        _running.reset(token)
