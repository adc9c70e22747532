"""The agents of the effects' tests that other processes must find, too. What they do is told by their goal, as JSON."""

import asyncio
import json
from typing import Any, cast

import midcourse
from tests.effects.clients import SEND, TOOLS, Kind


def goal(**wanted: Any) -> str:
    """What an agent is to do."""
    return json.dumps(wanted)


@midcourse.agent(version="1")
async def caller(run: midcourse.Run) -> str:
    """One call of one tool; it wants to be told of a redirect."""
    wanted = json.loads(run.goal)
    tool = TOOLS[wanted["effect"], cast("Kind", wanted["kind"])]
    try:
        result = await run.step("call", tool, wanted["url"], "call", on_redirect="raise")
    except midcourse.Redirected as redirected:
        return f"told: {redirected.instruction}"
    return f"result {result}, told: {', '.join(message.text for message in run.messages[1:])}"


@midcourse.agent(version="1")
async def juggler(run: midcourse.Run) -> list[int]:
    """Three calls at the same time: it looks, puts and sends."""
    wanted = json.loads(run.goal)
    url, kind = wanted["url"], cast("Kind", wanted["kind"])
    return await asyncio.gather(
        run.step("look", TOOLS["read", kind], url, "look"),
        run.step("put", TOOLS["idempotent", kind], url, "put"),
        run.step("send", SEND[kind], url, "send"),
    )
