"""A graph of LangGraph, with a model and one tool.

Prints:
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


model = ChatOpenAI(model="gpt-5-mini").bind_tools([temperature])


async def think(state: MessagesState) -> MessagesState:
    """A node: the model says something, or calls the tool."""
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("think", think)
builder.add_node("tools", ToolNode([temperature]))
builder.add_edge(START, "think")
builder.add_conditional_edges("think", tools_condition)
builder.add_edge("tools", "think")
graph = builder.compile(name="weather")


async def main() -> None:
    """Ask it."""
    state = await graph.ainvoke({"messages": [("user", "How warm is it in Rome?")]})
    print(state["messages"][-1].text)


asyncio.run(main())
