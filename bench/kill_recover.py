"""How long after kill -9 does a session go on: in a new process, and in one that stood by?"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

import midcourse
from bench import children, effects
from bench.harness import Result, ask, folder, median, store_in

QUESTION: Final = "kill -9 → first effect, median"
REPEATS: Final = 7


@midcourse.tool(effect="idempotent", local=True)
async def tool(path: str) -> None:
    """One effect, and 5 ms."""
    effects.do(path)
    await asyncio.sleep(0.005)


@midcourse.agent
async def recover_acts(run: midcourse.Run) -> None:
    """One effect after the other; its goal is the file they are done to."""
    while True:
        await run.step("act", tool, run.goal)


async def drive(path: str, begins: str) -> None:
    """A worker. The first one starts the session; the others find it."""
    async with midcourse.open(store_in(Path(path)), grace=0) as mc:
        if begins == "begins":
            await mc.start(recover_acts, str(Path(path) / "effects"))
        children.say(ready=True)
        await children.heard()


BARE: Final = """
import sqlite3, sys
sqlite3.connect(sys.argv[1]).execute("SELECT * FROM sqlite_master").fetchall()
"""


async def bare_start_s(path: Path) -> float:
    """The floor: a Python that imports sqlite3, opens a file and reads."""
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", BARE, str(path))
    await process.wait()
    return time.perf_counter() - start


async def _first_effect_s(path: Path, since: float, of: int) -> float:
    """The first effect of process ``of``."""
    async with asyncio.timeout(30):
        while True:
            moments = [effect.moment for effect in effects.seen(path) if effect.pid == of]
            if moments:
                return moments[0] - since
            await asyncio.sleep(0.005)


async def new_process() -> list[Result]:
    """Somebody starts the program again at once."""
    taken: list[float] = []
    floor: list[float] = []
    for _ in range(REPEATS):
        with folder() as path:
            floor.append(await bare_start_s(path / "floor.db"))
            async with children.child("kill_recover:drive", path, "begins") as first:
                await first.hear()
                await effects.until_more_than(path / "effects", 20)
                killed = time.perf_counter()
                await first.kill()
            async with children.child("kill_recover:drive", path, "finds") as second:
                taken.append(await _first_effect_s(path / "effects", killed, second.pid))
    floor_is = "a bare Python that opens SQLite and reads"
    case = "a new process is started at once"
    return [
        Result(
            QUESTION, case, median(taken), "s", REPEATS, floor=median(floor), floor_is=floor_is, must=3, aim=1
        )
    ]  # fmt: skip


async def standing_by() -> list[Result]:
    """Another worker of the store was there all the time."""
    taken: list[float] = []
    for _ in range(REPEATS):
        with folder() as path:
            async with (
                children.child("kill_recover:drive", path, "begins") as first,
                children.child("kill_recover:drive", path, "finds") as second,
            ):
                await asyncio.gather(first.hear(), second.hear())
                await effects.until_more_than(path / "effects", 20)
                killed = time.perf_counter()
                await first.kill()
                taken.append(await _first_effect_s(path / "effects", killed, second.pid))
    return [Result(QUESTION, "another worker stood by", median(taken), "s", REPEATS, must=10, aim=2)]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(new_process, standing_by)
