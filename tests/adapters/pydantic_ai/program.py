"""A program with an agent whose tools enqueue and change their deps, to be killed: it starts or continues it."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, RunContext

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.models.script import Call, Conversation, Piece, Text

_, STORE, EFFECTS, DO = sys.argv


class Desk(BaseModel):
    """The agent's dependencies."""

    notes: list[str] = []


def script(heard: Conversation, /) -> Sequence[Piece]:
    """Make both calls, look at the notes, and say what was heard."""
    if not heard.calls:
        return [Call("note"), Call("listen")]
    if not heard.results("look"):
        return [Call("look")]
    return [Text(" | ".join(said.text for said in heard if said.role in ("user", "tool")))]


agent = Agent(scripted(script), name="office", deps_type=Desk)


@agent.tool
@midcourse.tool(effect="read")
def note(ctx: RunContext[Desk]) -> str:
    """Note something, for the model and for later."""
    with Path(EFFECTS).open("a", encoding="utf-8") as effects:
        effects.write("note\n")
    ctx.deps.notes.append("step")
    ctx.enqueue("Mind the step.")
    return "noted"


@agent.tool_plain
@midcourse.tool(effect="read")
async def listen() -> str:
    """Listen, the first time for long."""
    if DO == "start":
        await asyncio.sleep(600)
    return "a bell"


@agent.tool
@midcourse.tool(effect="read")
def look(ctx: RunContext[Desk]) -> str:
    """Look at the notes."""
    return f"notes: {', '.join(ctx.deps.notes)}"


async def main() -> None:
    held = wrap(agent, deps=lambda run: Desk())
    async with midcourse.open(STORE) as mc:
        session = await (mc.start(held, "Go.", session_id="sess_it") if DO == "start" else mc.get("sess_it"))
        if DO == "start":
            finished = 0
            async for seen in session.watch(follow=True):
                finished += seen.type == "step.finished"
                if finished == 2:
                    print("noted", flush=True)
                    break
        print(await session.result(60), flush=True)


asyncio.run(main())
