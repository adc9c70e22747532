"""The workers of the soak: agents that tell a ledger whenever a call of theirs runs, in mortal processes."""

import asyncio
import gc
import logging
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import midcourse
from bench import children
from bench.harness import store_in
from midcourse.runtime.driver import Driver
from midcourse.testing.killer import LineLedger

SETTINGS: Final = midcourse.Settings(park_after=3.0, poll=0.5)
WORDS: Final = ("The ", "work ", "goes ", "on, ", "and ", "so ", "does ", "the ", "talk. ")
STEPS: Final = 30
PATIENCE: Final = 15.0
"""Seconds after which an ask answers itself."""


class World:
    """What the bodies of steps touch."""

    def __init__(self) -> None:
        self.ledger: LineLedger | None = None

    def ran(self, session: str) -> None:
        """Tell the ledger that a call runs now."""
        call = midcourse.current_call()
        assert self.ledger is not None
        self.ledger.write(f"{session} {call.step} {call.attempt} {time.time():.6f} {os.getpid()}")


world = World()


@midcourse.tool(effect="idempotent", local=True)
async def work(session: str, number: int) -> int:
    """A tool that takes a while."""
    world.ran(session)
    await asyncio.sleep(random.uniform(0.2, 2.0))
    return number


@midcourse.tool(effect="idempotent", local=True)
def work_in_thread(session: str, number: int) -> int:
    """A tool that cannot be aborted."""
    world.ran(session)
    time.sleep(random.uniform(0.01, 0.1))
    return number


async def talk(session: str) -> AsyncIterator[str]:
    """A model that takes a while."""
    world.ran(session)
    for word in WORDS:
        yield word
        await asyncio.sleep(random.uniform(0.01, 0.1))


@midcourse.agent
async def soak_planner(run: midcourse.Run) -> str:
    """Talks, works and asks; starts at its top in every process."""
    session = run.session_id
    for number in range(STEPS):
        await run.stream("talk", talk, session)
        await run.step("work", work, session, number)
        if number % 6 == 5:
            await run.ask(f"Go on after {number}?", expires=PATIENCE, default="yes")
    return "planned"


@midcourse.agent(mode="state")
async def soak_looper(run: midcourse.Run) -> str:
    """Works from checkpoint to checkpoint."""
    session = run.session_id
    for number in range(run.state.get("done", 0), STEPS):
        await run.step("work", work, session, number)
        await run.step("blocking work", work_in_thread, session, number)
        run.state["done"] = number + 1
        if number % 3 == 2:
            await run.checkpoint()
    run.state["done"] = 0  # for the next turn
    return "looped"


@midcourse.agent
async def soak_parent(run: midcourse.Run) -> list[str]:
    """Two children at the same time, and a step before and after."""
    session = run.session_id
    await run.step("work", work, session, 1)
    results = await asyncio.gather(
        run.spawn(soak_planner, "the first half", key="first"), run.spawn(soak_looper, "the other half", key="second")
    )
    await run.step("work", work, session, 2)
    return list(results)


AGENTS: Final = ("soak_planner", "soak_looper", "soak_planner", "soak_looper", "soak_parent")
"""Who is started, in turn."""


def counts() -> dict[str, float]:
    """What would grow if something were left behind."""
    gc.collect()
    descriptors = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(os.listdir(descriptors)),
        "threads": threading.active_count(),
        "drivers": sum(isinstance(one, Driver) for one in gc.get_objects()),
        "megabytes": children.resident_bytes() / 1e6,
    }


async def drive(folder: str, name: str) -> None:
    """Drive whatever needs driving until the input ends; answer each line of it with the counts."""
    path = Path(folder)
    logging.basicConfig(level=logging.WARNING, format=f"%(levelname)s {name} %(message)s")
    world.ledger = LineLedger(path / f"ledger-{name}")
    async with midcourse.open(store_in(path), settings=SETTINGS, grace=1.0) as mc:
        samples = asyncio.create_task(_sample(path / f"samples-{name}"))
        assert mc.durability == "power"
        await asyncio.sleep(0)
        children.say(**counts())
        while await children.heard():
            children.say(**counts())
        samples.cancel()


async def _sample(path: Path) -> None:
    """The memory of this process, every second."""
    with path.open("a") as file:
        while True:
            file.write(f"{time.time():.3f} {children.resident_bytes()}\n")
            file.flush()
            await asyncio.sleep(1.0)
