"""A program whose tool does not end when it is asked to, and leaves a trace of what becomes of it."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import midcourse
from midcourse.runtime.settings import Settings

SETTLE = 3600.0


def unmake(arguments: Mapping[str, str], _result: object, _key: str) -> None:
    """Take back what ``make`` made."""
    Path(arguments["traces"], "undone").touch()


@midcourse.tool(effect="write", undo=unmake, settle=SETTLE)
async def make(traces: str) -> str:
    """Begin, and the first time live on through every cancel."""
    if midcourse.current_call().attempt > 1:
        return "made"
    Path(traces, "begun").touch()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            Path(traces, "asked").touch()


@midcourse.agent
async def maker(run: midcourse.Run) -> str:
    """Make it."""
    return await run.step("make", make, run.goal)


async def main(url: str, traces: str) -> None:
    """Work until a signal comes."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    async with midcourse.open(url, durability="process", settings=Settings(cleanup=0.1)) as mc:
        await mc.start(maker, traces, session_id="s")
        await mc.work(grace=0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
