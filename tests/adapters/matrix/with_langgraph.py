"""The agent of the story in LangGraph: a model, a node of tools, and a way back."""

import os
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt
from openai import DefaultAsyncHttpxClient
from pydantic import SecretStr

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.matrix import courses


async def pay(amount: int) -> str:
    """Pay, if a person allows it."""
    answer = interrupt({"reason": "need_approval", "prompt": f"Pay {amount}?", "options": ["yes", "no"]})
    if answer != "yes":
        return f"The call was not made: {answer}"
    return await courses.pay(amount)


TOOLS = [
    StructuredTool.from_function(coroutine=pay),
    *(StructuredTool.from_function(coroutine=function, name=name) for name, function in courses.ASYNC.items()),
    *(StructuredTool.from_function(function, name=name) for name, function in courses.SYNC.items()),
]


def build() -> midcourse.Agent[Any]:
    """The agent, for the server that the environment names."""
    # A client of its own: the one that LangChain would share outlives the loop of a test.
    client = DefaultAsyncHttpxClient()
    url = os.environ[courses.URL]
    model = held(ChatOpenAI(model="m", base_url=url, api_key=SecretStr("any"), http_async_client=client))
    bound = model.bind_tools(TOOLS)

    async def chat(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke([SystemMessage(courses.INSTRUCTIONS), *state["messages"]])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("chat", chat)
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_edge(START, "chat")
    graph.add_conditional_edges("chat", tools_condition)
    graph.add_edge("tools", "chat")
    return wrap(graph, name="matrix-langgraph")
