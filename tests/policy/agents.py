"""Agents small enough to read: for each cause to ask of its own accord one that has it, and one that has not.

They work on a clock that they move themselves, and end when the test lets them.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import midcourse
from tests.checkpoints.programs import Skipping
from tests.policy.runs import GOAL

WATCHED: Final = midcourse.Terms(policy="standard")
ON_A_BUDGET: Final = midcourse.Terms(policy="standard", budget=1.0)
VAGUE: Final = "fix it"
CLEAR: Final = GOAL


class World:
    """What the agents of one test work in. ``at_the_end`` is set when only their last call is left."""

    def __init__(self) -> None:
        self.clock = Skipping()
        self.at_the_end = asyncio.Event()
        self.may_end = asyncio.Event()
        self.distance: float | None = None
        """Of what they do from their goal."""
        self.calls = 0


class Box:
    """Holds the world of the test that runs."""

    world: World


class Wobble(Exception):
    """An error of a kind that nobody knows."""


async def work(number: int) -> int:
    """A call that works."""
    Box.world.calls += 1
    return number


async def take(minutes: float) -> None:
    """A call that takes its time."""
    Box.world.clock.skipped += 60 * minutes


async def fail(kind: str, words: str) -> None:
    """A call that does not work."""
    raise {"wobble": Wobble, "value": ValueError, "permission": PermissionError, "key": KeyError}[kind](words)


async def think(cost: float) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model, at a price."""
    yield "Hm."
    yield midcourse.StreamEnd(cost=cost, tokens=3)


async def finish() -> None:
    """The last call."""
    Box.world.at_the_end.set()
    await Box.world.may_end.wait()


async def failing(run: midcourse.Run, kind: str, words: str) -> None:
    """One call that fails, which the agent can live with."""
    try:
        await run.step("crm", fail, kind, words)
    except midcourse.StepError:
        return


async def settle(run: midcourse.Run) -> None:
    """Old enough to be judged."""
    await run.step("take", take, 3.0)
    for number in range(3):
        await run.step("work", work, number)


async def rest(run: midcourse.Run) -> str:
    """Finish, and say what it was told last."""
    await run.step("finish", finish)
    await run.step("work", work, 99)  # where a pause that came meanwhile finds it
    return run.messages[-1].text


@midcourse.agent(name="policy-plain", terms=WATCHED)
async def plain(run: midcourse.Run) -> str:
    """Does nothing of note: what it asks is about its goal."""
    return await rest(run)


@midcourse.agent(name="policy-locked-out", terms=WATCHED)
async def locked_out(run: midcourse.Run) -> str:
    """Is not let in."""
    await failing(run, "permission", "no API key for the CRM")
    return await rest(run)


@midcourse.agent(name="policy-mistyped", terms=WATCHED)
async def mistyped(run: midcourse.Run) -> str:
    """Fails in a way that has nothing to do with being let in."""
    await failing(run, "key", "invoices")
    return await rest(run)


@midcourse.agent(name="policy-wobbling", terms=WATCHED)
async def wobbling(run: midcourse.Run) -> str:
    """Meets an error that nobody knows."""
    await failing(run, "wobble", "flux is 3")
    return await rest(run)


@midcourse.agent(name="policy-stumbling", terms=WATCHED)
async def stumbling(run: midcourse.Run) -> str:
    """Meets an error that every program meets."""
    await failing(run, "value", "not a number")
    return await rest(run)


@midcourse.agent(name="policy-wandering", terms=WATCHED)
async def wandering(run: midcourse.Run) -> str:
    """Works on; how far from its goal, the test says."""
    await settle(run)
    return await rest(run)


@midcourse.agent(name="policy-spending", terms=ON_A_BUDGET)
async def spending(run: midcourse.Run) -> str:
    """Has spent 93 % of its budget."""
    await settle(run)
    for _ in range(3):
        await run.stream("think", think, 0.31)
    return await rest(run)


@midcourse.agent(name="policy-thrifty", terms=ON_A_BUDGET)
async def thrifty(run: midcourse.Run) -> str:
    """Has spent 60 % of it."""
    await settle(run)
    for _ in range(3):
        await run.stream("think", think, 0.2)
    return await rest(run)
