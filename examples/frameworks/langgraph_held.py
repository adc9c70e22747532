"""A graph of LangGraph, with a model and one tool.

Prints:
    stopped, paused | decided, running
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import midcourse
from midcourse.adapters.langgraph import held, wrap


@tool
@midcourse.tool(effect="read")
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


model = held(ChatOpenAI(model="gpt-5-mini")).bind_tools([temperature])


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
weather = wrap(graph)


async def main() -> None:
    """Ask it."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(weather, "How warm is it in Rome?")
        async for seen in session.watch(deltas=True):
            if isinstance(seen, midcourse.Delta):  # it has begun to write
                print(await session.pause(until="stopped"), "|", await session.resume())
                break
        print(await session.result())


asyncio.run(main())
