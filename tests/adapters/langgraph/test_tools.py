"""Calls of a ``ToolNode`` are steps, and the tools do not notice."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.langgraph.graphs import Says, after, calls, one_node, result, with_tools


@tool
def with_config(x: str, config: RunnableConfig) -> str:
    """Wants the config."""
    return f"{x} {'thread_id' in config.get('configurable', {})}"


@tool
@midcourse.tool(effect="read")
async def declared(x: str, config: RunnableConfig) -> str:
    """Wants it too, and says what it does."""
    return f"{x} {'thread_id' in config.get('configurable', {})}"


@tool
def with_runtime(x: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Wants the runtime."""
    return f"{x} {runtime.tool_call_id == 'call_1'}"


class Own(BaseTool):
    """A tool that is a class, with a run of its own."""

    name: str = "own"
    description: str = "Wants the config."

    def _run(self, x: str) -> str:
        raise NotImplementedError

    async def _arun(self, x: str, config: RunnableConfig, run_manager: Any = None) -> str:
        return f"{x} {'thread_id' in config.get('configurable', {}) and run_manager is not None}"


@pytest.mark.parametrize("wanted", [with_config, declared, with_runtime, Own()], ids=lambda one: one.name)
async def test_a_tool_is_given_what_langchain_gives_it_by_its_signature(wanted: BaseTool) -> None:
    model = held(Says(answer=after(calls(wanted.name, x="a"))))
    assert await result(wrap(with_tools(model, [wanted]), name=f"signature-{wanted.name}")) == "a True"


async def test_a_tool_may_return_content_and_artifact() -> None:
    @tool(response_format="content_and_artifact")
    async def find(x: str) -> tuple[str, dict[str, Any]]:
        """Finds something big."""
        return f"found {x}", {"big": (1, 2), "name": x}

    model = held(Says(answer=after(calls("find", x="it"))))

    def output(values: Any) -> Any:
        return [values["messages"][-2].artifact["name"], values["messages"][-1].text]

    assert await result(wrap(with_tools(model, [find]), name="artifacts", to_output=output)) == ["it", "found it"]


async def test_a_result_that_looks_like_ours_survives() -> None:
    async def node(state: Any) -> Any:
        return {"langgraph": ["msgpack", "00"]}

    graph = one_node(node, state=dict)
    agent = wrap(graph, name="looks-like-ours", to_input=lambda text: {}, to_output=lambda values: values)
    assert await result(agent) == {"langgraph": ["msgpack", "00"]}
