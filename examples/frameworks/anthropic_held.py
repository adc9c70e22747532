"""A plain function that uses Anthropic's own client, with one tool.

Prints:
    stopped, paused | decided, running
    It is 21 degrees in Rome.
"""

import asyncio
from typing import Any

import offline  # noqa: F401 - in place of Anthropic
from anthropic import AsyncAnthropic

import midcourse
from midcourse.adapters.plain import streamed

client = AsyncAnthropic()


@midcourse.tool(effect="read")
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


def question(goal: str, degrees: int) -> dict[str, Any]:
    """What the model is asked."""
    content = f"{goal} The thermometer says {degrees}. Answer in one sentence."
    return {"model": "claude-haiku-4-5", "messages": [{"role": "user", "content": content}], "max_tokens": 500}


@midcourse.agent
async def weather(run: midcourse.Run) -> str:
    """Look at the thermometer, and have the model say what it shows."""
    degrees = await run.step("temperature", temperature, "Rome")
    return await run.stream("answer", lambda: streamed(client.messages.create, **question(run.goal, degrees)))


async def main() -> None:
    """Ask it."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(weather, "How warm is it in Rome?")
        print(await session.pause(until="stopped"), "|", await session.resume())
        print(await session.result())


asyncio.run(main())
