"""The agents and tools of the sessions in the fixture stores.

The stores were written with this file. Add to it, but never change what is there: a changed step name is a divergence.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import midcourse

EFFECTS: Final = "MIDCOURSE_REPLAY_EFFECTS"
"""The environment variable that names the file in which each effect leaves a line."""
HANGS: Final = "MIDCOURSE_REPLAY_HANGS"
"""Set while a store is written: calls marked with ``!`` never end."""


def leave(line: str) -> None:
    """Leave one line in the file of effects; whole, or not at all."""
    descriptor = os.open(Path(os.environ[EFFECTS]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


async def act(effect: str, text: str) -> str:
    """Leave a line, and hang if the text asks for it while a store is written."""
    leave(f"{effect} {text}")
    if text.endswith("!") and os.environ.get(HANGS):
        await asyncio.Event().wait()
    return text


async def unmake(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """Undo a call of :func:`build`."""
    del result, key
    leave(f"undo {arguments['text']}")


async def happened(arguments: Mapping[str, Any], key: str) -> object:
    """Say that a lost call of :func:`send` did happen."""
    del key
    return midcourse.Happened(arguments["text"])


@midcourse.tool(effect="read")
async def look(text: str) -> str:
    """Change nothing."""
    return await act("read", text)


@midcourse.tool(effect="idempotent", local=True)
async def put(text: str) -> str:
    """Do the same under one key."""
    return await act("put", text)


@midcourse.tool(undo=unmake, local=True)
async def build(text: str) -> str:
    """Make something that can be undone."""
    return await act("build", text)


@midcourse.tool(local=True)
async def pay(text: str) -> str:
    """Do what cannot be undone."""
    return await act("pay", text)


@midcourse.tool(probe=happened, settle=0)
async def send(text: str) -> str:
    """Do what cannot be undone, and can be asked about."""
    return await act("send", text)


@midcourse.tool(effect="read")
async def fetch_much(text: str) -> dict[str, str]:
    """Return more than a journal row holds."""
    return {"text": text, "body": "tide " * 20_000}


TOOLS: Final = {"look": look, "put": put, "build": build, "pay": pay, "send": send}


async def words(count: int, hangs: bool) -> AsyncIterator[str]:
    """A model that speaks, and falls silent while a store is written."""
    for number in range(count):
        yield f"word{number} "
    if hangs and os.environ.get(HANGS):
        await asyncio.Event().wait()


@midcourse.agent(name="replay-worker", version="1")
async def worker(run: midcourse.Run) -> list[str]:
    """Call the tools that the goal names: ``put build pay!``."""
    run.plan.set("call the tools")
    run.plan.start("call the tools")
    found: list[str] = []
    for name in run.goal.split():
        found.append(await run.step(name.strip("!"), TOOLS[name.strip("!")], name))
    run.plan.done("call the tools")
    run.report("done", progress=1.0, hypothesis="all went well", artifact="list", documentation="what was called")
    return found


@midcourse.agent(name="replay-failing", version="1")
async def failing(run: midcourse.Run) -> str:
    """Fail at the first attempt, and complete when tried again."""
    await run.step("look", look, "before")
    if os.environ.get(HANGS):
        raise RuntimeError("as planned")
    return "tried again"


@midcourse.agent(name="replay-straying", version="1")
async def straying(run: midcourse.Run) -> str:
    """Ask for other arguments than the journal holds."""
    await run.step("put", put, "first" if os.environ.get(HANGS) else "other")
    return await run.step("wait", look, "wait!")


@midcourse.agent(name="replay-asking", version="1")
async def asking(run: midcourse.Run) -> object:
    """Ask a person, twice if the goal says so, and call a tool with the answer."""
    answer = await run.ask("Confirm delete?", reason="need_approval", options=("yes", "no"))
    await run.step("put", put, str(answer))
    return await run.ask("Which one?", key="which") if run.goal == "twice" else answer


@midcourse.agent(name="replay-speaking", version="1")
async def speaking(run: midcourse.Run) -> int:
    """Speak, and be cut in the middle."""
    text = await run.stream("draft", lambda: words(320, hangs=True))
    return len(text.split())


@midcourse.agent(name="replay-looping", version="1", mode="state")
async def looping(run: midcourse.Run) -> int:
    """Count in a state of its own, with a checkpoint for each number; ask half-way."""
    run.state.setdefault("number", 0)
    while run.state["number"] < 40:
        await run.step("put", put, f"{run.state['number']}{'!' if run.state['number'] == 30 else ''}")
        run.state["number"] += 1
        await run.checkpoint()
    await run.ask("Enough?")
    return int(run.state["number"])


@midcourse.agent(name="replay-holding", version="1")
async def holding(run: midcourse.Run) -> str:
    """Hold a lock, and hang."""
    await run.hold("lock", leave, "released lock")
    return await run.step("build", build, "house!")


@midcourse.agent(name="replay-parent", version="1")
async def parent(run: midcourse.Run) -> list[object]:
    """Wait for two children: one asks, one calls tools."""
    both = await asyncio.gather(
        run.spawn(asking, "once", key="asking"), run.spawn(worker, "put build! put", key="working")
    )
    return list(both)


@midcourse.agent(name="replay-large", version="1")
async def large(run: midcourse.Run) -> int:
    """Fetch what lies outside the journal."""
    return len((await run.step("fetch", fetch_much, "moon"))["body"])


@midcourse.agent(
    name="replay-protected", version="1", terms=midcourse.Terms(task_class="protected", budget=5.0, labels=("money",))
)
async def protected(run: midcourse.Run) -> str:
    """Finish first, whatever a person presses."""
    await run.step("look", look, f"{run.now():%Y}"[:2])
    return await run.step("put", put, "trade!")
