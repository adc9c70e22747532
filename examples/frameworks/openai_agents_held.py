"""An agent of the OpenAI Agents SDK, with one tool.

Prints:
    stopped, paused | decided, running
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from agents import Agent, function_tool

import midcourse
from midcourse.adapters.openai_agents import wrap


@function_tool
@midcourse.tool(effect="read")
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


agent = Agent(name="weather", model="gpt-5-mini", instructions="Answer in one sentence.", tools=[temperature])
weather = wrap(agent)


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
