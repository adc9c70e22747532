"""An agent of Pydantic AI, with one tool.

Prints:
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from pydantic_ai import Agent

agent = Agent("openai:gpt-5-mini", name="weather", instructions="Answer in one sentence.")


@agent.tool_plain
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


async def main() -> None:
    """Ask it."""
    result = await agent.run("How warm is it in Rome?")
    print(result.output)


asyncio.run(main())
