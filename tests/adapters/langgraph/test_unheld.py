"""A model that is not held, or whose request is no step, is said so in the log."""

import logging
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph.graphs import Says, after, calls, one_node, result, steps_of, with_tools
from tests.promises.harness import NEVER


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [one for one in said if "Node '" in one or "Tool '" in one]


async def _text(model: Says, asked: Any) -> str:
    return str((await model.ainvoke(asked)).text)


async def test_a_model_made_inside_a_node_is_held() -> None:
    async def think(state: MessagesState) -> dict[str, Any]:
        model = held(Says(answer=lambda _: "hi"))
        return {"messages": [await model.ainvoke(state["messages"])]}

    async with midcourse.open("memory://") as mc:
        session = await mc.start(wrap(one_node(think, state=MessagesState), name="makes-its-model"), "go")
        assert await session.result(NEVER) == "hi"
        assert await steps_of(session) == ["model"]


@pytest.mark.parametrize("is_open", [False, True], ids=["plain", "open"])
async def test_a_model_that_a_node_makes_and_does_not_hold_is_said_so(
    caplog: pytest.LogCaptureFixture, *, is_open: bool
) -> None:
    async def think(state: MessagesState) -> dict[str, Any]:
        model = Says(answer=lambda _: "hi")
        await _text(model, "once")
        return {"messages": [await _text(model, state["messages"])]}

    graph = one_node(think, state=MessagesState)
    agent = wrap(graph, name="makes-another", open_nodes=["n"] if is_open else [])
    assert await result(agent) == "hi"
    (warning,) = _warnings(caplog)
    assert "Node 'n' asks a model that is not held (says)" in warning


async def test_a_held_model_that_could_not_be_seen_is_said_so(caplog: pytest.LogCaptureFixture) -> None:
    class Registry:
        __slots__ = ("model",)
        model: Any

    registry = Registry()
    registry.model = held(Says(answer=lambda _: "hi"))

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await registry.model.ainvoke(state["messages"])]}

    assert await result(wrap(one_node(think, state=MessagesState), name="registry")) == "hi"
    (warning,) = _warnings(caplog)
    assert "open_nodes=['n']" in warning


async def test_held_models_and_models_of_tools_are_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def summarise(text: str) -> str:
        """Ask a model."""
        return await _text(Says(answer=lambda said: said[-1].text), text)

    model = held(Says(answer=after(calls("summarise", text="short"))))
    assert await result(wrap(with_tools(model, [summarise]), name="summarises")) == "short"
    assert not _warnings(caplog)


async def test_a_tool_in_a_graph_that_a_function_invokes_is_said_to_be_no_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def send(to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"

    model = held(Says(answer=after(calls("send", to="Ann"))))

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = with_tools(model, [send])
    graph.nodes["think"] = one_node(think, state=MessagesState).nodes["n"]
    inner: Any = graph.compile()

    def delegate(state: MessagesState) -> dict[str, Any]:
        return {"messages": [inner.invoke(state)["messages"][-1]]}

    assert await result(wrap(one_node(delegate, state=MessagesState), name="calls-a-graph")) == "sent to Ann"
    (warning,) = _warnings(caplog)
    assert "Tool 'send' is called by a graph" in warning
