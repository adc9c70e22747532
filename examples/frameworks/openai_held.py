"""A plain function that uses OpenAI's own client, with one tool.

Prints:
    stopped, paused | decided, running
    It is 21 degrees in Rome.
"""

import asyncio
from typing import Any

import offline  # noqa: F401 - in place of OpenAI
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.plain import streamed

client = AsyncOpenAI()


@midcourse.tool(effect="read")
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


def question(goal: str, degrees: int) -> dict[str, Any]:
    """What the model is asked."""
    content = f"{goal} The thermometer says {degrees}. Answer in one sentence."
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": content}]}


@midcourse.agent
async def weather(run: midcourse.Run) -> str:
    """Look at the thermometer, and have the model say what it shows."""
    degrees = await run.step("temperature", temperature, "Rome")
    return await run.stream("answer", lambda: streamed(client.chat.completions.create, **question(run.goal, degrees)))


async def main() -> None:
    """Ask it."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(weather, "How warm is it in Rome?")
        print(await session.pause(until="stopped"), "|", await session.resume())
        print(await session.result())


asyncio.run(main())
