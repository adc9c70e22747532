"""How much of a core does a program need that does nothing but hold 100 stopped sessions?"""

import asyncio
import resource
from pathlib import Path
from typing import Any, Final

import midcourse
from bench import children
from bench.harness import Result, ask, folder, store_in
from midcourse.core.events import SessionParked

QUESTION: Final = "idle CPU, share of a core"
SESSIONS: Final = 100
SECONDS: Final = 10.0
SETTLE: Final = 1.5


@midcourse.tool(effect="read")
async def work() -> None:
    """A tool that would take an hour."""
    await asyncio.sleep(3600)


@midcourse.agent
async def idle_works(run: midcourse.Run) -> None:
    """One long call."""
    await run.step("work", work)


async def hold(path: str, parked: str) -> None:
    """The child: 100 sessions, paused; then, if so wished, parked."""
    settings = midcourse.Settings(park_after=0.1 if parked == "parked" else 3600.0)
    async with midcourse.open(store_in(Path(path)), settings=settings, grace=0) as mc:
        sessions = await asyncio.gather(*(mc.start(idle_works) for _ in range(SESSIONS)))
        replies = await asyncio.gather(*(session.pause(grace=0, until="stopped") for session in sessions))
        assert all(reply.level == "stopped" for reply in replies)
        if parked == "parked":
            await asyncio.gather(*map(_until_parked, sessions))
        await _measure()


async def _until_parked(session: midcourse.SessionHandle[Any]) -> None:
    async for one in session.watch(follow=True):
        if isinstance(one.event, SessionParked):
            return


async def sleep() -> None:
    """The floor's child: a loop that sleeps."""
    await _measure()


async def _measure() -> None:
    await asyncio.sleep(SETTLE)
    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(SECONDS)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    children.say(percent=100 * seconds / SECONDS)


async def idle() -> list[Result]:
    """All three at once: each counts its own CPU time."""
    with folder() as warm, folder() as parked:
        async with (
            children.child("idle_cpu:hold", warm, "warm") as one,
            children.child("idle_cpu:hold", parked, "parked") as two,
            children.child("idle_cpu:sleep") as bare,
        ):
            shares = [(await child.hear())["percent"] for child in (one, two, bare)]
    return [
        Result(
            QUESTION,
            case,
            share,
            "%",
            1,
            floor=shares[2],
            floor_is="a bare Python that sleeps",
            must=1,
        )
        for case, share in zip((f"{SESSIONS} paused, warm", f"{SESSIONS} parked"), shares, strict=False)
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(idle)
