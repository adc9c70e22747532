"""A graph that a function calls: a node or a tool, awaited or in a thread."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph.graphs import Says, after, calls, one_node, result, steps_of, with_tools
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
