"""A program with two agents, one the other's, to be killed: it starts the session or goes on with it."""

import asyncio
import sys
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, function_tool
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.openai_agents import wrap

_, STORE, URL, EFFECTS, DO = sys.argv


@function_tool
@midcourse.tool(effect="idempotent")
async def post(letter: str) -> str:
    """Post a letter: a line for each time, and it takes its time the first time."""
    key = midcourse.current_call().key
    with Path(EFFECTS).open("a", encoding="utf-8") as effects:
        effects.write(f"{letter} {key}\n")
    if DO == "start":
        await asyncio.sleep(600)
    return f"posted {letter}"


async def main() -> None:
    async with AsyncOpenAI(base_url=URL, api_key="any") as client, midcourse.open(STORE) as mc:
        model = OpenAIResponsesModel("m", client)
        scribe = Agent(name="scribe", instructions="scribe", model=model, tools=[post])
        porter = Agent(
            name="porter", instructions="porter", model=model, tools=[scribe.as_tool("have_written", ""), post]
        )
        clerk = Agent(name="clerk", instructions="clerk", model=model, handoffs=[porter])
        agent = wrap(clerk, name="office")
        session = await (mc.start(agent, "Go.", session_id="sess_it") if DO == "start" else mc.get("sess_it"))
        print(await session.result(60), flush=True)


asyncio.run(main())
