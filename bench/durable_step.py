"""What does one durable step (a model call and a tool call) cost, and does it cost more in a long session?"""

from typing import Final

import midcourse
from bench import floors, loops
from bench.harness import Result, ask, folder, mean, median, store_in

QUESTION: Final = "durable step, median"
SHORT: Final = 200
LONG: Final = 2000


async def durable_steps(agent: midcourse.Agent[None], number: int, kind: str) -> list[Result]:
    """The last 200 of so many steps."""
    with folder() as path:
        floor = 2 * floors.commit_ms(path / "floor.db", size=600, repeats=2 * SHORT)
        taken = await loops.run_loop(store_in(path), agent, number)
    last = taken[-SHORT:]
    results = [_result(f"{kind}, the last {SHORT} of {number:,} steps", median(last), len(last), floor)]
    if number > SHORT:
        case = f"{kind}, {number:,} steps, mean with checkpoints and snapshots"
        results.append(_result(case, mean(taken), len(taken), floor))
    return results


def _result(case: str, ours: float, repeats: int, floor: float) -> Result:
    return Result(QUESTION, case, ours, "ms", repeats, floor=floor, floor_is="two bare commits", must=1.5, aim=0.5)


def answers() -> list[Result]:
    """The table's lines."""
    return ask(
        lambda: durable_steps(loops.loop_checkpointing, SHORT, "`state`"),
        lambda: durable_steps(loops.loop_checkpointing, LONG, "`state`"),
        lambda: durable_steps(loops.loop_replaying, LONG, "`replay`"),
        lambda: durable_steps(loops.loop_streaming, SHORT, "`state`, 100 streamed tokens"),
    )
