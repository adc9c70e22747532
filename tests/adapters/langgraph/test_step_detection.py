"""Where a held model is found, so that a node that asks it is left open; and what is no reason to."""

import functools
import logging
from collections.abc import Callable
from typing import Any, cast

import langgraph.types as graph_types
import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so

from midcourse.adapters.langgraph import held
from midcourse.adapters.langgraph.step_detection import reaches_steps
from tests.adapters.langgraph.graphs import Says, one_node, task

model = held(Says(answer=lambda _: "hi"))
MODELS = {"fast": [model]}
log = logging.getLogger(__name__)


class Assistant:
    """Called as a node."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked

    async def __call__(self, state: Any) -> Any:
        """Ask."""
        return await self.asked.ainvoke(state)


class Desk:
    """Has an assistant, and nodes."""

    def __init__(self) -> None:
        self.assistant = Assistant(model | StrOutputParser())

    async def node(self, state: Any) -> Any:
        """Ask the assistant."""
        return await self.assistant(state)


def _asking(asked: Any) -> Callable[..., Any]:
    async def node(state: Any) -> Any:
        return await asked.ainvoke(state)

    return node


async def _in_a_dictionary(state: Any) -> Any:
    return await MODELS["fast"][0].ainvoke(state)


async def _in_a_function_in_it(state: Any) -> Any:
    async def inner() -> Any:
        return await model.ainvoke(state)

    return await inner()


async def _in_a_lambda(state: Any) -> Any:
    ask: Callable[[], Any] = lambda: model.ainvoke(state)  # noqa: E731 - what this is about
    return await ask()


async def _by_module(state: Any) -> Any:
    return graph_types.interrupt("?")


async def _imported_inside(state: Any) -> Any:
    from langgraph.types import interrupt as ask

    return ask("?")


async def _made_inside(state: Any) -> Any:
    return await held(Says(answer=lambda _: "hi")).ainvoke(state)


async def _a_task(state: Any) -> Any:
    return await work(state)


@task
async def work(state: Any) -> Any:
    """Work."""


class Assisted:
    """Asks in a method that another one calls, as LangChain's middleware for people does."""

    def after(self, state: Any) -> Any:
        """Asks."""
        return ask_elsewhere(state)

    async def awaited(self, state: Any) -> Any:
        """Has it asked."""
        return self.after(state)


def _of_a_framework(function: Any) -> Any:
    """The function as one whose module is LangChain's."""
    function.__module__ = "langchain.agents.middleware.human_in_the_loop"
    return function


ask_elsewhere = graph_types.interrupt
Assisted.after = _of_a_framework(Assisted.after)


def _plain(state: Any) -> None:
    """Does nothing."""


def _given(state: Any, asked: Any = model) -> Any:
    return asked.invoke(state)


OPEN: dict[str, Any] = {
    "an object that is called": Assistant(model),
    "a method, two objects away": Desk().node,
    "fallbacks": _asking(model.with_fallbacks([model])),
    "a fallback": _asking(cast("Any", RunnableLambda(str)).with_fallbacks([model])),
    "a retry": _asking(model.with_retry()),
    "a config": _asking(model.with_config({})),
    "a chain": _asking(model | StrOutputParser()),
    "a parallel": _asking(RunnableParallel(a=model)),
    "a compiled graph": _asking(one_node(_asking(model), state=MessagesState).compile()),
    "a dictionary of lists": _in_a_dictionary,
    "a nested function": _in_a_function_in_it,
    "a lambda": _in_a_lambda,
    "a partial": functools.partial(_given, asked=model),
    "a default": _given,
    "wrapped": functools.wraps(_given)(_plain),
    "interrupt of a module": _by_module,
    "interrupt imported inside": _imported_inside,
    "interrupt in a framework's middleware": Assisted().after,
    "a method that its object's other one calls": Assisted().awaited,
    "a model made inside": _made_inside,
    "a task": _a_task,
}


@pytest.mark.parametrize("node", OPEN.values(), ids=OPEN)
def test_a_node_that_reaches_a_step_is_seen(node: Any) -> None:
    assert reaches_steps(node)


def test_a_plain_node_is_plain() -> None:
    def node(state: Any) -> Any:
        log.info("%s", functools.reduce(max, state))
        return [str(one) for one in state]

    assert not reaches_steps(node)
    assert not reaches_steps(Assistant(RunnableLambda(node)))


def test_an_attribute_is_not_taken_for_a_global_of_its_name() -> None:
    def node(state: Any) -> Any:
        return state.work, state.model

    assert not reaches_steps(node)


def test_a_large_world_is_not_searched_for_ever() -> None:
    class Part:
        def __init__(self, parts: list[Any]) -> None:
            self.parts = parts

    world: list[Any] = [model]
    for _ in range(5):
        world = [Part([*world]) for _ in range(60)]

    def node(state: Any) -> Any:
        return state, world

    assert not reaches_steps(node)
