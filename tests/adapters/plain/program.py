"""A program with one agent, to be killed: it starts the session, or goes on with it, and prints the result."""

import asyncio
import sys

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.plain import streamed

_, STORE, API, URL, DO = sys.argv


@midcourse.agent
async def writer(run: midcourse.Run) -> str:
    said = [{"role": "user", "content": message.text} for message in run.messages]
    if API == "messages":
        async with AsyncAnthropic(base_url=URL, api_key="any") as claude:
            return await run.stream(
                "draft", lambda: streamed(claude.messages.create, model="m", max_tokens=900, messages=said)
            )
    async with AsyncOpenAI(base_url=URL, api_key="any") as gpt:
        if API == "responses":
            return await run.stream("draft", lambda: streamed(gpt.responses.create, model="m", input=said))
        return await run.stream("draft", lambda: streamed(gpt.chat.completions.create, model="m", messages=said))


async def main() -> None:
    async with midcourse.open(STORE) as mc:
        session = await (mc.start(writer, goal="Go.", session_id="sess_it") if DO == "start" else mc.get("sess_it"))
        print(await session.result(), flush=True)


asyncio.run(main())
