"""How long do 1,000 sessions take, 5 steps each, each step a tool of 20 ms?"""

import asyncio
import time
from typing import Final

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, store_in

QUESTION: Final = "1,000 sessions × 5 steps × 20 ms"
SESSIONS: Final = 1000
STEPS: Final = 5
TOOL: Final = 0.02
REPEATS: Final = 3


@midcourse.tool(effect="idempotent", local=True)
async def tool(number: int) -> int:
    """A tool that takes 20 ms."""
    await asyncio.sleep(TOOL)
    return number


@midcourse.agent
async def many_five_steps(run: midcourse.Run) -> int:
    """Five tool calls in a row."""
    total = 0
    for number in range(STEPS):
        total += await run.step("tool", tool, number)
    return total


async def thousand() -> list[Result]:
    """All of them at once, until the last one has ended."""
    ours: list[float] = []
    floor: list[float] = []
    our_cpu: list[float] = []
    floor_cpu: list[float] = []
    for _ in range(REPEATS):
        with folder() as path:
            began = time.process_time()
            floor.append(await floors.group_commit_s(path / "floor.db", sessions=SESSIONS, steps=STEPS, pause=TOOL))
            floor_cpu.append(time.process_time() - began)
            async with midcourse.open(store_in(path)) as mc:
                start, began = time.perf_counter(), time.process_time()
                sessions = await asyncio.gather(*(mc.start(many_five_steps, "bench") for _ in range(SESSIONS)))
                results = await asyncio.gather(*(session.result() for session in sessions))
                ours.append(time.perf_counter() - start)
                our_cpu.append(time.process_time() - began)
                assert results == [10] * SESSIONS
    bare = "a bare group commit, two appends a step"
    until = "until the last has ended, median"
    return [
        Result(QUESTION, until, median(ours), "s", REPEATS, floor=median(floor), floor_is=bare, must=5, aim=1),
        Result(QUESTION, "CPU meanwhile", median(our_cpu), "s", REPEATS, floor=median(floor_cpu), floor_is=bare),
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(thousand)
