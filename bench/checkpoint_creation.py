"""How long does a checkpoint take, from the call until it is durable?"""

import time
from typing import Final

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, p99, store_in

QUESTION: Final = "checkpoint creation, p99"
SIZES: Final = ((1_000, None, None), (100_000, 50, 5), (1_000_000, None, None))
REPEATS: Final = 100

taken: list[float] = []


@midcourse.agent(mode="state")
async def checkpoint_saves(run: midcourse.Run) -> None:
    """A state of so many bytes, different each time."""
    lines = [f"line {number}: " + "x" * 85 for number in range(int(run.goal) // 100)]
    for number in range(REPEATS):
        lines[0] = f"{number:>95}"
        run.state = {"lines": lines}
        start = time.perf_counter()
        await run.checkpoint()
        taken.append((time.perf_counter() - start) * 1000)


async def checkpoint(size: int, must: float | None, aim: float | None) -> list[Result]:
    """Again and again, awaited."""
    taken.clear()
    with folder() as path:
        commits = floors.commits_ms(path / "floor.db", size=size, repeats=REPEATS)
        async with midcourse.open(store_in(path)) as mc:
            session = await mc.start(checkpoint_saves, str(size))
            await session.result()
    result = Result(
        QUESTION,
        f"a state of {size // 1000:,} KB",
        p99(taken),
        "ms",
        len(taken),
        median=median(taken),
        floor=p99(commits),
        floor_is="a bare commit of so many bytes",
        must=must,
        aim=aim,
    )
    return [result]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(*(lambda size=size, must=must, aim=aim: checkpoint(size, must, aim) for size, must, aim in SIZES))
