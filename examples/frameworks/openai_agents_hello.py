"""An agent of the OpenAI Agents SDK, with one tool.

Prints:
    It is 21 degrees in Rome.
"""

import asyncio

import offline  # noqa: F401 - in place of OpenAI
from agents import Agent, Runner, function_tool, set_tracing_disabled


@function_tool
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


agent = Agent(name="weather", model="gpt-5-mini", instructions="Answer in one sentence.", tools=[temperature])
set_tracing_disabled(True)


async def main() -> None:
    """Ask it."""
    result = await Runner.run(agent, "How warm is it in Rome?")
    print(result.final_output)


asyncio.run(main())
