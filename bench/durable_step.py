"""What does one durable step (a model call and a tool call) cost, on SQLite, safe against power loss?"""

import time
from collections.abc import AsyncIterator

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median

STEPS = 300
TEXT = "word " * 20


async def model() -> AsyncIterator[str]:
    """A model that answers at once."""
    yield TEXT


async def tool(number: int) -> str:
    """A tool that answers at once."""
    return f"{number}: {TEXT}"


@midcourse.agent(mode="state")
async def loop_agent(run: midcourse.Run) -> list[float]:
    """Model, tool, model, tool, with a checkpoint every fifty steps."""
    taken: list[float] = []
    for number in range(STEPS):
        start = time.perf_counter()
        await run.stream("think", model)
        await run.step("act", tool, number)
        taken.append((time.perf_counter() - start) * 1000)
        if number % 50 == 49:
            await run.checkpoint()
    return taken


async def one_session() -> list[Result]:
    """A loop of a model call and a tool call, each durable."""
    with folder() as path:
        floor = 2 * floors.commit_ms(path / "floor.db")
        async with midcourse.open(f"sqlite:///{path}/runs.db") as mc:
            session = await mc.start(loop_agent, "bench")
            taken = await session.result()
    return [
        Result(
            "durable step", "model + tool, median", median(taken), "ms", STEPS, floor, "two bare commits", must=1.5, aim=0.5
        )
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(one_session)
