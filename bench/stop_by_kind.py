"""How long after the click has a call of each kind stopped, when nothing else is running and beside 200 busy sessions?

The call writes a time stamp every two milliseconds until it is stopped. The click is a pause with grace 0, answered
when nothing runs any more: → stopped is that answer, → last effect the last stamp that was written.
"""

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Final

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, p99, store_in
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.shell_commands import run_command

QUESTION: Final = "stop latency by kind of tool, p99"
KINDS: Final = ("async", "thread that polls", "process", "shell with grandchildren")
BUSY: Final = (1, 200)
CLICKS: Final = 60
EVERY: Final = 0.002
STAMPING: Final = f"""
import sys, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write(f"{{time.time()}}\\n")
    time.sleep({EVERY})
"""


def stamp(path: str) -> None:
    """Something done to the world, with its moment."""
    with Path(path).open("a") as file:
        file.write(f"{time.time()}\n")


@midcourse.tool(effect="read")
async def stamp_as_task(path: str) -> None:
    """As a task of the event loop."""
    while True:
        stamp(path)
        await asyncio.sleep(EVERY)


@midcourse.tool(effect="read")
def stamp_in_thread(path: str) -> None:
    """In a thread that looks whether it should end."""
    while True:
        midcourse.current_call().raise_if_cancelled()
        stamp(path)
        time.sleep(EVERY)


@midcourse.tool(effect="read", run_in="process")
def stamp_in_process(path: str) -> None:
    """In a process, without looking."""
    while True:
        stamp(path)
        time.sleep(EVERY)


@midcourse.tool(effect="read")
async def stamp_in_shell(path: str) -> None:
    """By a shell command whose grandchild does it."""
    command = f"{sys.executable} -S -c '{STAMPING}' {path} & wait"
    await run_command(command, reaper=process_group_reaper())


TOOLS: Final = dict(zip(KINDS, (stamp_as_task, stamp_in_thread, stamp_in_process, stamp_in_shell), strict=True))


@midcourse.agent
async def stop_kind_stamps(run: midcourse.Run) -> None:
    """One call that stamps until it is stopped; its goal names the kind and the file."""
    kind, path = run.goal.split(":", 1)
    await run.step("stamp", TOOLS[kind], path)


@midcourse.tool(effect="read")
async def work() -> None:
    """A call of about a second."""
    await floors.work()


@midcourse.agent
async def stop_kind_works(run: midcourse.Run) -> None:
    """One call after the other."""
    while True:
        await run.step("work", work)


def _stamps(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def stops(kind: str, number: int) -> list[Result]:
    """Pause and resume, again and again."""
    stopped: list[float] = []
    ended: list[float] = []
    with folder() as path:
        commits = floors.commits_ms(path / "floor.db")
        stamps = path / "stamps"
        async with midcourse.open(store_in(path), grace=0) as mc:
            session = await mc.start(stop_kind_stamps, f"{kind}:{stamps}")
            await asyncio.gather(*(mc.start(stop_kind_works) for _ in range(number - 1)))
            await asyncio.sleep(0.5)
            for _ in range(CLICKS):
                before = len(_stamps(stamps))
                while len(_stamps(stamps)) < before + 2:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(random.uniform(0.0, 0.005))
                click, moment = time.time(), time.perf_counter()
                reply = await session.pause(grace=0, until="stopped")
                stopped.append((time.perf_counter() - moment) * 1000)
                assert reply.level == "stopped", reply
                count = len(_stamps(stamps))
                ended.append(max(0.0, float(_stamps(stamps)[-1]) - click) * 1000)
                await asyncio.sleep(0.01)
                assert len(_stamps(stamps)) == count, "something was done after `stopped` was answered"
                await session.resume(reply.pause)
    case = f"{kind}, {number:,} running"
    return [
        _result(f"{case}: → stopped", stopped, p99(commits), "a bare commit"),
        _result(f"{case}: → last effect", ended, None, ""),
    ]


def _result(case: str, ours: list[float], floor: float | None, floor_is: str) -> Result:
    return Result(
        QUESTION, case, p99(ours), "ms", len(ours), median=median(ours), floor=floor, floor_is=floor_is, must=50, aim=5
    )


def answers() -> list[Result]:
    """The table's lines."""
    return ask(*(lambda kind=kind, number=number: stops(kind, number) for number in BUSY for kind in KINDS))
