"""Nodes and tools of a graph as steps. A node that holds steps itself, or asks, is left open and is none."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, update_wrapper
from itertools import count
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor, var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool
from langgraph._internal._runnable import RunnableCallable  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.pregel._read import PregelNode  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import Interrupt

from midcourse.adapters.held_agent import closed, declared, inside, refused
from midcourse.adapters.langgraph.functions import call_as_step, held_call
from midcourse.adapters.langgraph.held_run import as_interrupt, current, raise_as_was
from midcourse.adapters.langgraph.step_detection import graphs_reached, reaches_steps
from midcourse.adapters.langgraph.tasks import tasks_held
from midcourse.adapters.langgraph.threads import in_own_thread
from midcourse.errors import MisusedRun, Redirected, StepError
from midcourse.runtime.calls import current_call
from midcourse.runtime.tools import Tool


def held_nodes(nodes: Mapping[str, PregelNode], open_nodes: Collection[str]) -> dict[str, PregelNode]:
    """Return the nodes of a graph, with tools and plain nodes made steps. The graph's own are left as they are."""
    made: dict[str, PregelNode] = {}
    for name, node in nodes.items():
        bound: Any = node.bound
        if isinstance(bound, ToolNode):
            made[name] = node.copy({"bound": _held_tools(bound, open_nodes)})
        elif isinstance(bound, Pregel):
            subgraph: Any = copy.copy(cast("Any", bound))
            subgraph.nodes = held_nodes(subgraph.nodes, open_nodes)
            made[name] = node.copy({"bound": subgraph, "subgraphs": [subgraph]})
        elif name != "__start__" and name not in open_nodes and _is_plain(bound):
            made[name] = node.copy({"bound": _held_node(name, cast("RunnableCallable", bound))})
        elif type(bound) is RunnableCallable:
            _hold_tools_below(bound, open_nodes)
            made[name] = node.copy({"bound": _open_node(bound, open_nodes)})
        else:
            made[name] = node
    return made


def _hold_tools_below(bound: Any, open_nodes: Collection[str]) -> None:
    """Hold the tools of graphs that a function calls, which only the function can name: steps in held runs alone."""
    for graph in graphs_reached([bound.func, bound.afunc]):
        for name, node in list(graph.nodes.items()):
            if isinstance(node.bound, ToolNode) and not getattr(node.bound, _HELD, False):
                graph.nodes[name] = node.copy({"bound": _held_tools(node.bound, open_nodes)})


def _is_plain(bound: Any) -> bool:
    return _function(bound) is not None and not reaches_steps([bound.func, bound.afunc])


def _function(bound: Any) -> Callable[..., Any] | None:
    """Return the function that LangGraph would run: the awaited half of a node that has two."""
    if type(bound) is not RunnableCallable:
        return None
    return cast("Callable[..., Any] | None", bound.func if _is_lent_a_thread(bound) else bound.afunc)


def _is_lent_a_thread(bound: Any) -> bool:
    """Return True for a function that is only plain, which LangGraph would run in one of the loop's few threads."""
    afunc: object = bound.afunc
    return afunc is None or (isinstance(afunc, partial) and cast("partial[Any]", afunc).func is run_in_executor)


def _open_node(bound: Any, open_nodes: Collection[str]) -> Any:
    """Run a node as LangGraph runs it, with its tasks as steps."""
    function: Any = partial(in_own_thread, bound.func) if _is_lent_a_thread(bound) else bound.afunc

    async def opened(*arguments: Any, **keywords: Any) -> Any:
        with tasks_held(open_nodes):
            return await function(*arguments, **keywords)

    made = copy.copy(bound)
    made.afunc = opened
    return made


def _held_node(name: str, bound: "RunnableCallable") -> "RunnableCallable":
    function = _function(bound)
    assert function is not None

    async def step(*arguments: Any, **keywords: Any) -> Any:
        def given(made: Tool[..., Any]) -> Mapping[str, object]:
            return {"state": arguments[0]} if made.undo or made.probe else {}

        return await call_as_step("Node", name, function, arguments, keywords, given)

    made = copy.copy(bound)
    made.func = None
    made.afunc = step
    return made


# ---- tools


@contextmanager
def _own_interrupts(name: str) -> Generator[None]:
    """Have the ``interrupt()`` of a tool's function be its own.

    LangGraph counts the interrupts of a whole node, and runs all calls of it again for an answer. Here only this call
    is tried again, with the answers that were given to it.
    """
    config = var_child_runnable_config.get() or {}
    settings = config.get("configurable", {})
    scratchpad = settings.get("__pregel_scratchpad")
    if scratchpad is None:
        yield
        return
    mine = replace(
        scratchpad,
        interrupt_counter=count().__next__,
        get_null_resume=lambda consume=False: None,
        resume=list(current_call().answers),
    )
    own: dict[str, Any] = {**settings, "__pregel_scratchpad": mine, "__pregel_send": _drop}
    token = var_child_runnable_config.set(cast("RunnableConfig", {**config, "configurable": own}))
    try:
        yield
    except GraphInterrupt as asked:
        (first, *_) = cast("tuple[Interrupt, ...]", asked.args[0])
        if first.id != Interrupt.from_ns(None, ns=str(settings.get("checkpoint_ns", ""))).id:
            # Its answer belongs to a checkpoint of that graph, which this call alone cannot give it.
            raise MisusedRun(
                f"Tool '{name}' calls a graph that asks with interrupt(), so the call is no step: name it in "
                f"wrap(…, open_nodes=['{name}']).",
                code="node_asks",
            ) from asked
        raise as_interrupt(first.value) from asked
    finally:
        var_child_runnable_config.reset(token)


def _drop(writes: object) -> None:
    """Drop the answers from the node's writes: they are in the journal."""


Execute = Callable[[Any], Awaitable[Any]]
_HELD = "_midcourse_held"


def _held_tools(node: ToolNode, open_nodes: Collection[str]) -> ToolNode:
    """Return the node with each of its calls a step, inside any wrapper it has already."""
    made: Any = copy.copy(node)
    made.func, made.afunc = made._func, made._afunc  # noqa: SLF001 - the copy's, which the original's would pass by
    theirs = cast("Callable[[Any, Execute], Awaitable[Any]] | None", made._awrap_tool_call)  # noqa: SLF001 - its only hook

    async def wrapped(request: Any, execute: Execute) -> Any:
        inner = partial(_call, execute, open_nodes)
        return await (inner(request) if theirs is None else theirs(request, inner))

    made._awrap_tool_call = wrapped  # noqa: SLF001
    setattr(made, _HELD, True)
    return made


async def _call(execute: Execute, open_nodes: Collection[str], request: Any) -> Any:
    held, tool = current(), request.tool
    if held is None or tool is None:
        return await execute(request)
    name, call = str(request.tool_call["name"]), request.tool_call
    held_call.set(name)
    if name in open_nodes:
        with tasks_held(open_nodes):
            return await execute(request)
    await held.stands()
    function = (tool.coroutine or tool.func) if isinstance(tool, StructuredTool) else None
    steps = held.run

    async def step(*arguments: Any, **keywords: Any) -> Any:
        # A tool that is no function of the user's is called as a whole, as LangChain calls it.
        real = function or cast("Any", tool)._arun  # noqa: SLF001 - as BaseTool does
        made = declared(real, name, held.declarations)
        body = made.function if isinstance(real, Tool) else real
        key = held.key(name, call=call["id"] or "")
        try:
            result = await steps.call(
                made,
                dict(call["args"]),
                key=key,
                name=name,
                body=inside(partial(_own_interrupts, name), body, arguments, keywords),
                shape=held.journaled,
                on_redirect="raise",
                heard=steps.state.get("heard", 0),
            )
        except Redirected as redirect:
            return closed(redirect)
        except StepError as error:
            if error.kind == "NotApproved":
                return refused(error.detail)
            held.failed(key)
            raise_as_was(error)
        return held.restored(result)

    # LangChain reads the signature for what it puts in beside the model's arguments.
    own, kind = cast("Any", tool), cast("Any", type(tool))
    named = function or (own._run if kind._arun is cast("Any", BaseTool)._arun else own._arun)  # noqa: SLF001 - as BaseTool does
    update_wrapper(step, inspect.unwrap(getattr(named, "function", named)))

    if function is not None:
        # The innermost function is what becomes a step: reading arguments and telling errors stay LangChain's.
        return await execute(request.override(tool=tool.model_copy(update={"func": None, "coroutine": step})))
    made = copy.copy(tool)
    object.__setattr__(made, "_arun", step)
    return await execute(request.override(tool=made))
