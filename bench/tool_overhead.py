"""What does a call of a declared tool cost beyond the bare function, and beyond a bare commit where it needs one?"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, store_in

QUESTION: Final = "a tool call, median"
CALLS: Final = 1000


async def add(number: int) -> int:
    """A function that does nearly nothing."""
    return number + 1


def add_plainly(number: int) -> int:
    """The same, without async."""
    return number + 1


def take_back(_arguments: object, _result: object, _key: str) -> None:
    """An undo, which is not called here."""


TOOLS: Final[dict[str, tuple[Callable[[int], Any], int]]] = {
    "`read`": (midcourse.tool(effect="read")(add), 0),
    "`idempotent`": (midcourse.tool(effect="idempotent")(add), 1),
    "`write` with undo": (midcourse.tool(effect="write", undo=take_back, local=True)(add), 1),
    "undeclared": (add, 1),
    "`read`, in a thread": (midcourse.tool(effect="read")(add_plainly), 0),
    "`read`, in a process": (midcourse.tool(effect="read", run_in="process")(add_plainly), 0),
}
"""The tools, and how many commits a call of each has to wait for."""


@midcourse.agent
async def overhead_calls(run: midcourse.Run) -> list[float]:
    """One call after the other; how long each took, in milliseconds."""
    body, _ = TOOLS[run.goal]
    taken: list[float] = []
    for number in range(CALLS):
        start = time.perf_counter()
        await run.step("call", body, number)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def calls(kind: str) -> list[Result]:
    """Calls of one kind."""
    _, commits = TOOLS[kind]
    with folder() as path:
        floor = commits * floors.commit_ms(path / "floor.db") + await _bare_ms()
        async with midcourse.open(store_in(path)) as mc:
            session = await mc.start(overhead_calls, kind)
            taken = await session.result()
    floor_is = "the bare function" + (", and a bare commit" if commits else "")
    return [Result(QUESTION, kind, median(taken), "ms", CALLS, floor=floor, floor_is=floor_is)]


async def _bare_ms() -> float:
    taken: list[float] = []
    for number in range(CALLS):
        start = time.perf_counter()
        await asyncio.create_task(add(number))
        taken.append((time.perf_counter() - start) * 1000)
    return median(taken)


def answers() -> list[Result]:
    """The table's lines."""
    return ask(*(lambda kind=kind: calls(kind) for kind in TOOLS))
