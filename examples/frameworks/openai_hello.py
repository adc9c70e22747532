"""A plain function that uses OpenAI's own client, with one tool.

Prints:
    It is 21 degrees in Rome.
"""

import asyncio
from typing import Any

import offline  # noqa: F401 - in place of OpenAI
from openai import AsyncOpenAI

client = AsyncOpenAI()


def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {"Rome": 21, "Oslo": 4}[city]


def question(goal: str, degrees: int) -> dict[str, Any]:
    """What the model is asked."""
    content = f"{goal} The thermometer says {degrees}. Answer in one sentence."
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": content}]}


async def weather(goal: str) -> str:
    """Look at the thermometer, and have the model say what it shows."""
    degrees = temperature("Rome")
    answer = await client.chat.completions.create(**question(goal, degrees))
    return answer.choices[0].message.content


async def main() -> None:
    """Ask it."""
    print(await weather("How warm is it in Rome?"))


asyncio.run(main())
