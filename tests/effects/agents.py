"""The agents of the effects' tests that other processes must find, too. What they do is told by their goal, as JSON."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import midcourse
from tests.effects.clients import SEND, TOOLS, Kind, let_go


def goal(**wanted: Any) -> str:
    """What an agent is to do."""
    return json.dumps(wanted)


@midcourse.agent(version="1")
async def caller(run: midcourse.Run) -> str:
    """One call of one tool; it wants to be told of a redirect."""
    wanted = json.loads(run.goal)
    tool = TOOLS[wanted["effect"], cast("Kind", wanted["kind"])]
    try:
        result = await run.step("call", tool, wanted["url"], wanted.get("name", "call"), on_redirect="raise")
    except midcourse.Redirected as redirected:
        return f"told: {redirected.instruction}"
    return f"result {result}, told: {', '.join(message.text for message in run.messages[1:])}"


@midcourse.agent(version="1")
async def juggler(run: midcourse.Run) -> list[int]:
    """Three calls at the same time: it looks, puts and sends."""
    wanted = json.loads(run.goal)
    url, kind = wanted["url"], cast("Kind", wanted["kind"])
    called = await asyncio.gather(
        run.step("look", TOOLS["read", kind], url, "look"),
        run.step("put", TOOLS["idempotent", kind], url, "put"),
        run.step("send", SEND[kind], url, "send"),
    )
    return list(called)


@midcourse.agent(version="1")
async def builder(run: midcourse.Run) -> str:
    """Three reversible calls, one after the other; then it asks whether all is well."""
    wanted = json.loads(run.goal)
    for name in ("a", "b", "c"):
        await run.step(name, TOOLS["reversible", "async"], wanted["url"], name)
    return str(await run.ask("Well done?"))


@midcourse.agent(version="1")
async def holder(run: midcourse.Run) -> str:
    """Holds two things, lets go of one, and asks."""
    wanted = json.loads(run.goal)
    for name in ("door", "window", "gate"):
        await run.hold(name, let_go, wanted["url"], name)
    await run.release("window")
    return str(await run.ask("Well done?"))


@midcourse.agent(version="1")
async def parent(run: midcourse.Run) -> str:
    """A reversible call, a child with two of its own, another call; then it asks."""
    wanted = json.loads(run.goal)
    await run.step("before", TOOLS["reversible", "async"], wanted["url"], "before")
    await run.spawn(child, run.goal)
    await run.step("after", TOOLS["reversible", "async"], wanted["url"], "after")
    return str(await run.ask("Well done?"))


@midcourse.agent(version="1")
async def child(run: midcourse.Run) -> None:
    """Two reversible calls; with ``asks`` it does not end."""
    wanted = json.loads(run.goal)
    for name in ("child a", "child b"):
        await run.step(name, TOOLS["reversible", "async"], wanted["url"], name)
    if wanted.get("asks"):
        await run.ask("Go on?")


@midcourse.tool(effect="idempotent", retry=midcourse.Retry(3, first_wait=3600.0, max_wait=3600.0, jitter=0.0))
async def put_later(path: str) -> int:
    """Fails the first time, whatever process it runs in; leaves its key in a file."""
    with Path(path).open("a+", encoding="utf-8") as file:
        file.write(f"{midcourse.current_call().key}\n")
        file.seek(0)
        tried = len(file.readlines())
    if tried == 1:
        raise ConnectionResetError("gone")
    return tried


@midcourse.agent(version="1")
async def retrier(run: midcourse.Run) -> int:
    """One call, which is tried again an hour later."""
    return await run.step("put", put_later, run.goal)
