"""A plain function that uses Anthropic's own client, with one tool.

Prints:
    It is 21 degrees in Rome.
"""

import asyncio
from typing import Any

import offline  # noqa: F401 - in place of Anthropic
from anthropic import AsyncAnthropic

client = AsyncAnthropic()


def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


def question(goal: str, degrees: int) -> dict[str, Any]:
    """What the model is asked."""
    content = f"{goal} The thermometer says {degrees}. Answer in one sentence."
    return {"model": "claude-haiku-4-5", "messages": [{"role": "user", "content": content}], "max_tokens": 500}


async def weather(goal: str) -> str:
    """Look at the thermometer, and have the model say what it shows."""
    degrees = temperature("Rome")
    answer = await client.messages.create(**question(goal, degrees))
    return answer.content[0].text


async def main() -> None:
    """Ask it."""
    print(await weather("How warm is it in Rome?"))


asyncio.run(main())
