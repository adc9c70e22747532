"""A graph that a function calls: a node or a tool, awaited or in a thread."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import interrupt

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph.graphs import Says, State, after, calls, one_node, result, steps_of, with_tools
from tests.promises.harness import NEVER


def _researcher() -> Any:
    model = held(Says(answer=lambda said: f"found {said[-1].text}"))

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    return one_node(think, state=MessagesState).compile()


async def test_a_plain_node_may_invoke_a_graph() -> None:
    researcher = _researcher()

    def delegate(state: MessagesState) -> dict[str, Any]:
        return {"messages": [researcher.invoke(state)["messages"][-1]]}

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(one_node(delegate, state=MessagesState), name="delegates"), "cats")
        assert await session.result(NEVER) == "found cats"
        assert await steps_of(session) == ["model"]


async def test_a_plain_tool_may_invoke_a_graph() -> None:
    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [HumanMessage(f"found {state['messages'][-1].text}")]}

    researcher: Any = one_node(think, state=MessagesState).compile()

    @tool
    def research(topic: str) -> str:
        """Ask the researcher."""
        return researcher.invoke({"messages": [("user", topic)]})["messages"][-1].text

    model = held(Says(answer=after(calls("research", topic="dogs"))))
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(with_tools(model, [research]), name="delegates-by-tool"), "go")
        assert await session.result(NEVER) == "found dogs"
        assert await steps_of(session) == ["model", "research", "model"]


async def test_on_the_event_loop_a_graph_is_not_invoked_but_awaited() -> None:
    researcher = _researcher()

    async def delegate(state: MessagesState) -> dict[str, Any]:
        return {"messages": [researcher.invoke(state)["messages"][-1]]}

    with pytest.raises(midcourse.SessionEnded, match="async_only.*Await aget_tuple"):
        await result(wrap(one_node(delegate, state=MessagesState), name="blocks"))


async def _asks_twice(state: State) -> State:
    return {"x": f"{state['x']}: {interrupt('Sure?')}, {interrupt('Really?')}"}


def _asking_tool() -> Any:
    inner: Any = one_node(_asks_twice).compile()

    @tool
    async def research(topic: str) -> str:
        """Ask a graph, which asks a person."""
        return (await inner.ainvoke({"x": topic}))["x"]

    return with_tools(held(Says(answer=after(calls("research", topic="dogs")))), [research])


async def test_a_tool_whose_graph_asks_says_that_it_is_to_be_named() -> None:
    with pytest.raises(midcourse.SessionEnded, match=r"open_nodes=\['research'\]"):
        await result(wrap(_asking_tool(), name="asks-below"))


async def test_a_tool_that_is_named_is_left_open_and_its_graph_may_ask() -> None:
    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(_asking_tool(), name="asks-openly", open_nodes=["research"]), "go")
        for question in ("Sure?", "Really?"):
            ask = await session.next_ask()
            assert ask.prompt == question
            await session.answer(f"{question[:-1]} yes", ask=ask.id)
        assert await session.result(NEVER) == "dogs: Sure yes, Really yes"
        assert await steps_of(session) == ["model", "model"]
