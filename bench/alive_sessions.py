"""What do 10,000 sessions cost that are alive in one process and wait for a person, and how fast is one paused?"""

import asyncio
import random
import time
from pathlib import Path
from typing import Any, Final

import midcourse
from bench import children, floors
from bench.harness import Result, ask, folder, median, p99, store_in

QUESTION: Final = "10,000 sessions waiting at an ask"
SESSIONS: Final = 10_000
AT_ONCE: Final = 500
PAUSES: Final = 200
SETTINGS: Final = midcourse.Settings(park_after=3600.0)


@midcourse.agent
async def alive_asks(run: midcourse.Run) -> object:
    """One question to a person."""
    return await run.ask("May I?")


def name(number: int) -> str:
    """The id of the session of that number."""
    return f"sess_{number}"


async def wait_in_tasks() -> None:
    """The floor's child: as many tasks that wait, and nothing else."""
    loop = asyncio.get_running_loop()
    before = children.resident_bytes()
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(SESSIONS)]
    tasks = [asyncio.create_task(_wait(future)) for future in futures]
    await asyncio.sleep(0.1)
    children.say(bytes=(children.resident_bytes() - before) / len(tasks))


async def _wait(future: "asyncio.Future[None]") -> None:
    await future


async def drive(path: str) -> None:
    """The child: all of them, alive."""
    async with midcourse.open(store_in(Path(path)), settings=SETTINGS) as mc:
        before = children.resident_bytes()
        start = time.perf_counter()
        handles: list[midcourse.SessionHandle[object]] = []
        for first in range(0, SESSIONS, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            handles += await asyncio.gather(*(mc.start(alive_asks, session_id=name(number)) for number in numbers))
        for handle in reversed(handles):
            while await handle.status() != "waiting":
                await asyncio.sleep(0.01)
        children.say(bytes=(children.resident_bytes() - before) / SESSIONS, seconds=time.perf_counter() - start)
        await children.heard()
        children.say(pauses=[await pause_ms(handle) for handle in random.sample(handles, PAUSES)])
        await children.heard()


async def pause_ms(session: midcourse.SessionHandle[Any]) -> float:
    """From the click to the answer, which for a session that waits is that it is stopped."""
    click = time.perf_counter()
    reply = await session.pause()
    taken = (time.perf_counter() - click) * 1000
    assert reply.level == "stopped", reply
    await session.resume(reply.pause)
    return taken


async def ten_thousand() -> list[Result]:
    """Their memory, and pauses from inside and from outside."""
    async with children.child("alive_sessions:wait_in_tasks") as bare:
        floor = (await bare.hear())["bytes"]
    with folder() as path:
        commits = floors.commits_ms(path / "floor.db")
        # Killed at the end: that they are let go one by one is not the question.
        async with children.child("alive_sessions:drive", path) as driver:
            alive = await driver.hear()
            async with midcourse.open(store_in(path), drive=False) as mc:
                handles = [await mc.get(name(number)) for number in random.sample(range(SESSIONS), PAUSES)]
                outside = [await pause_ms(handle) for handle in handles]
            driver.tell("pause some yourself")
            inside: list[float] = (await driver.hear())["pauses"]
    return [
        Result(
            QUESTION,
            "memory of one",
            alive["bytes"] / 1024,
            "KB",
            SESSIONS,
            floor=floor / 1024,
            floor_is="memory: a bare task",
        ),
        Result(QUESTION, "starting them all", alive["seconds"], "s", SESSIONS),
        _pauses("pause of one in-process, p99", inside, commits, 50, 5),
        _pauses("pause of one from another process, p99", outside, commits, 100, 10),
    ]


def _pauses(case: str, ours: list[float], commits: list[float], must: float, aim: float) -> Result:
    return Result(
        QUESTION,
        case,
        p99(ours),
        "ms",
        len(ours),
        median=median(ours),
        floor=p99(commits),
        floor_is="pause: a bare commit",
        must=must,
        aim=aim,
    )


def answers() -> list[Result]:
    """The table's lines."""
    return ask(ten_thousand)
