"""How long after the click is a stop answered, and how long after it is the last thing done to the world?

One session's tool does something every half millisecond until it is aborted; the others each work in calls of about a
second. The click is a pause with grace 0.
"""

import asyncio
import random
import time
from pathlib import Path
from typing import Any, Final

import midcourse
from bench import children, effects, floors
from bench.harness import Result, ask, folder, median, p99, store_in

QUESTION: Final = "stop latency, p99"
SESSIONS: Final = (1, 100, 1000)
CLICKS: Final = 300
CLICKED: Final = "sess_clicked"
act: Final = midcourse.tool(effect="idempotent", local=True)(effects.go_on)
work: Final = midcourse.tool(effect="idempotent", local=True)(floors.work)


@midcourse.agent
async def stop_acts(run: midcourse.Run) -> None:
    """One call that does things until it is aborted; its goal is the file they are done to."""
    await run.step("act", act, run.goal)


@midcourse.agent
async def stop_works(run: midcourse.Run) -> None:
    """One call after the other."""
    while True:
        await run.step("work", work)


async def start_sessions(mc: midcourse.Midcourse, number: int, path: Path) -> None:
    """All of them, running."""
    await mc.start(stop_acts, str(path), session_id=CLICKED)
    await asyncio.gather(*(mc.start(stop_works) for _ in range(number - 1)))
    await asyncio.sleep(1.0)  # until their calls have spread


async def drive(url: str, number: str, path: str) -> None:
    """The child: the sessions run here, and are stopped from elsewhere."""
    async with midcourse.open(url, grace=0) as mc:
        await start_sessions(mc, int(number), Path(path))
        children.say(ready=True)
        await children.heard()


async def click(session: midcourse.SessionHandle[Any], path: Path) -> tuple[list[float], list[float]]:
    """Pause and resume, again and again: to the answer, and to the last effect."""
    answered: list[float] = []
    ended: list[float] = []
    before = 0
    for _ in range(CLICKS):
        await effects.until_more_than(path, before)
        await asyncio.sleep(random.uniform(0.0, 0.002))
        moment = time.perf_counter()
        reply = await session.pause(grace=0)
        answered.append((time.perf_counter() - moment) * 1000)
        assert reply.level in ("stopping", "stopped"), reply
        reply = await session.pause(grace=0, until="stopped")
        assert reply.level == "stopped", reply
        before = effects.count(path)
        ended.append(max(0.0, effects.last(path).moment - moment) * 1000)
        await session.resume(reply.pause)
    return answered, ended


async def in_process(number: int) -> list[Result]:
    """The click comes from the program that runs the sessions."""
    with folder() as path:
        commits = floors.commits_ms(path / "floor.db")
        cancels = await floors.cancel_ms(path / "floor-effects", sessions=number, repeats=CLICKS)
        async with midcourse.open(store_in(path), grace=0) as mc:
            await start_sessions(mc, number, path / "effects")
            answered, ended = await click(await mc.get(CLICKED), path / "effects")
    must, aim = 50, 5
    return [
        _result(f"in-process, {number:,} running: → answered", answered, commits, "a bare commit", must, aim),
        _result(f"in-process, {number:,} running: → last effect", ended, cancels, "a bare task cancel", must, aim),
    ]


async def from_another_process(number: int) -> list[Result]:
    """The click comes from a program that runs none of the sessions."""
    with folder() as path:
        bare_answers, bare_ends = await floors.cancel_elsewhere_ms(path, sessions=number, repeats=CLICKS)
        async with children.child("stop_latency:drive", store_in(path), number, path / "effects") as driver:
            await driver.hear()
            async with midcourse.open(store_in(path), drive=False) as mc:
                answered, ended = await click(await mc.get(CLICKED), path / "effects")
    floor = "a bare commit, then a message to a process that cancels a task"
    return [
        _result(f"other process, {number:,} running: → answered", answered, bare_answers, floor, 100, 10),
        _result(f"other process, {number:,} running: → last effect", ended, bare_ends, floor, 100, 10),
    ]


def _result(case: str, ours: list[float], floor: list[float], floor_is: str, must: float, aim: float) -> Result:
    return Result(
        QUESTION,
        case,
        p99(ours),
        "ms",
        len(ours),
        median=median(ours),
        floor=p99(floor),
        floor_is=floor_is,
        must=must,
        aim=aim,
    )


def answers() -> list[Result]:
    """The table's lines."""
    here = [lambda number=number: in_process(number) for number in SESSIONS]
    elsewhere = [lambda number=number: from_another_process(number) for number in SESSIONS]
    return ask(*here, *elsewhere)
