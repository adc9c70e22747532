"""An agent of Pydantic AI, with one tool.

Prints:
    stopped, paused | decided, running
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap

agent = Agent("openai:gpt-5-mini", name="weather", instructions="Answer in one sentence.")
weather = wrap(agent)


@agent.tool_plain
@midcourse.tool(effect="read")
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


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
