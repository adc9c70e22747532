"""How long from resume to the first new thing: for a session in memory, and for one that lies in the store alone?"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, store_in

QUESTION: Final = "resume, median"
WARM: Final = 200
COLD: Final = 15
LENGTHS: Final = ((10, None, None), (1000, 20, 3), (10_000, 200, 30))
EVERY: Final = 50
SESSION: Final = "sess_cold"

moments: list[float] = []
"""When a call that waits for its abort has begun."""


@midcourse.tool(effect="idempotent", local=True)
async def wait_for_abort() -> None:
    """A tool that begins, and goes on until it is aborted."""
    moments.append(time.perf_counter())
    await asyncio.get_running_loop().create_future()


async def speak_and_wait() -> AsyncIterator[str]:
    """A model that says one word, and goes on until it is cut."""
    moments.append(time.perf_counter())
    yield "word "
    await asyncio.get_running_loop().create_future()


@midcourse.tool(effect="idempotent", local=True)
async def tool(number: int) -> str:
    """A tool that answers at once."""
    return f"{number:>100}"


@midcourse.agent
async def resume_calls(run: midcourse.Run) -> None:
    """One tool call that does not end."""
    await run.step("wait", wait_for_abort)


@midcourse.agent
async def resume_speaks(run: midcourse.Run) -> None:
    """One model call that does not end."""
    await run.stream("speak", speak_and_wait)


@midcourse.agent
async def resume_replaying(run: midcourse.Run) -> None:
    """So many steps, and then one that does not end."""
    for number in range(int(run.goal)):
        await run.step("act", tool, number)
    await run.step("wait", wait_for_abort)


@midcourse.agent(mode="state")
async def resume_checkpointing(run: midcourse.Run) -> None:
    """The same, from checkpoint to checkpoint; the last is as far back as it can be."""
    for number in range(run.state.get("done", 0), int(run.goal)):
        await run.step("act", tool, number)
        run.state["done"] = number + 1
        if run.state["done"] % EVERY == 1:
            await run.checkpoint()
    await run.step("wait", wait_for_abort)


async def _until_begun(number: int) -> float:
    async with asyncio.timeout(120):
        while len(moments) < number:
            await asyncio.sleep(0.0005)
    return moments[-1]


async def _stop(session: midcourse.SessionHandle[Any]) -> str:
    reply = await session.pause(grace=0, until="stopped")
    assert reply.level == "stopped", reply
    assert reply.pause is not None
    return reply.pause


async def warm(agent: midcourse.Agent[None], what: str, commits: int) -> list[Result]:
    """Paused, in memory, resumed."""
    moments.clear()
    taken: list[float] = []
    with folder() as path:
        floor = floors.commit_ms(path / "floor.db")
        async with midcourse.open(store_in(path), grace=0) as mc:
            session = await mc.start(agent)
            await _until_begun(1)
            for number in range(WARM):
                pause = await _stop(session)
                click = time.perf_counter()
                await session.resume(pause)
                taken.append((await _until_begun(number + 2) - click) * 1000)
    floor_is = "a bare commit" if commits == 1 else "two bare commits: the resume, the call's start"
    case = f"warm, {what}"
    return [
        Result(
            QUESTION, case, median(taken), "ms", WARM, floor=commits * floor, floor_is=floor_is, must=10, aim=1
        )
    ]  # fmt: skip


async def cold(
    agent: midcourse.Agent[None], kind: str, length: int, must: float | None, aim: float | None
) -> list[Result]:
    """Paused and parked, found by a store object that has never seen it, resumed."""
    moments.clear()
    taken: list[float] = []
    with folder() as path:
        rows = floors.read_ms(path / "floor.db", rows=length if kind == "replay" else EVERY)
        floor = rows + floors.commit_ms(path / "floor.db")
        # Made without waiting for the disk: how it came to be so long is not the question.
        async with midcourse.open(store_in(path), durability="process", grace=0) as mc:
            session = await mc.start(agent, str(length), session_id=SESSION)
            await _until_begun(1)
            pause = await _stop(session)
        for number in range(COLD):
            async with midcourse.open(store_in(path), grace=0) as mc:
                session = await mc.get(SESSION)
                click = time.perf_counter()
                await session.resume(pause)
                taken.append((await _until_begun(number + 2) - click) * 1000)
                pause = await _stop(session)
    return [
        Result(
            QUESTION,
            f"cold, `{kind}`, {length:,} steps",
            median(taken),
            "ms",
            COLD,
            floor=floor,
            floor_is="the bare rows it needs, and a bare commit",
            must=must,
            aim=aim,
        )
    ]


async def opening() -> list[Result]:
    """What a fresh store object costs before anything can be resumed."""
    taken: list[float] = []
    with folder() as path:
        floor = floors.read_ms(path / "floor.db", rows=1)
        for _ in range(COLD):
            start = time.perf_counter()
            async with midcourse.open(store_in(path)):
                taken.append((time.perf_counter() - start) * 1000)
    case = "cold, opening the store before it"
    return [Result(QUESTION, case, median(taken), "ms", COLD, floor=floor, floor_is="a bare open and read")]


def answers() -> list[Result]:
    """The table's lines."""
    modes = ((resume_checkpointing, "state"), (resume_replaying, "replay"))
    return ask(
        lambda: warm(resume_speaks, "→ the model's first word", 1),
        lambda: warm(resume_calls, "→ the tool begins", 2),
        *(
            lambda agent=agent, kind=kind, length=length, must=must, aim=aim: cold(agent, kind, length, must, aim)
            for agent, kind in modes
            for length, must, aim in LENGTHS
        ),
        opening,
    )
