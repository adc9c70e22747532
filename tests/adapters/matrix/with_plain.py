"""The agent of the story without a framework: a loop of one's own around OpenAI's client."""

import asyncio
import os
from functools import partial
from typing import Any

import msgspec
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.plain import ModelReply, ToolCall, model_reply, streamed
from midcourse.runtime.tools import tool_of
from tests.adapters.matrix import courses

TOOLS = {tool.name: tool for tool in map(tool_of, (*courses.TOOLS, courses.pay))}
SCHEMAS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in TOOLS
]


async def called(run: midcourse.Run, call: ToolCall) -> Any:
    """What a call gives, in words for the model."""
    if call.name not in TOOLS:
        return call.result(f"There is no tool '{call.name}'. There are: {', '.join(TOOLS)}.")
    try:
        if call.name == "pay":
            said = await run.ask(f"Pay {call.arguments}?", reason="need_approval", key=call.key, on_redirect="raise")
            if said != "yes":
                return call.result(f"The call was not made: {said}")
        return call.result(await run.call(TOOLS[call.name], call.arguments, key=call.key, on_redirect="raise"))
    except midcourse.StepError as error:
        return call.result(str(error))
    except midcourse.Redirected as redirect:
        return call.result(
            f"Interrupted by the user. What is known of this call: {redirect.truth or 'it was not made'}."
        )


async def left_over(run: midcourse.Run) -> list[Any]:
    """What the turn before had said and done after its last checkpoint, if it failed or was cancelled."""
    last = await run.earlier("model")
    if last is None:
        return []
    if last.outcome != "finished":
        return [{"role": "assistant", "content": last.text}] if last.text else []
    reply = msgspec.convert(last.value, ModelReply)
    steps = [(call, await run.earlier(call.name, call.key)) for call in reply.calls]
    results = [
        call.result(step.value if step and step.outcome == "finished" else "It did not end: it may have happened.")
        for call, step in steps
    ]
    return [*reply.messages, *results]


@midcourse.agent(name="matrix-plain", mode="state")
async def traveller(run: midcourse.Run) -> str:
    """Ask the model, do what it wants, and ask again, until it wants nothing more."""
    client = AsyncOpenAI(base_url=os.environ[courses.URL], api_key="any")
    messages: list[Any] = run.state.setdefault("messages", [{"role": "system", "content": courses.INSTRUCTIONS}])
    messages += await left_over(run)
    while True:
        said = run.messages
        messages += [{"role": "user", "content": message.text} for message in said[run.state.get("heard", 0) :]]
        run.state["heard"] = len(said)
        await run.checkpoint()
        try:
            reply = await model_reply(
                run,
                "model",
                partial(streamed, client.chat.completions.create, model="m", messages=list(messages), tools=SCHEMAS),
                on_redirect="raise",
            )
        except midcourse.Redirected as redirect:
            if redirect.partial:
                messages.append({"role": "assistant", "content": redirect.partial})
            continue
        if not reply.calls:
            messages += reply.messages
            return reply.text
        results = await asyncio.gather(*(called(run, call) for call in reply.calls))
        messages += [*reply.messages, *results]


def build() -> midcourse.Agent[Any]:
    """The agent; it looks up the server that the environment names when it runs."""
    return traveller
