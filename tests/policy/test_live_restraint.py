"""Live sessions under a policy, on a clock that nobody waits for: whom restraint holds back, and whom it must not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core import events as ev
from midcourse.handle import Midcourse, SessionHandle
from midcourse.policy import versions
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from tests.policy.runs import GOAL
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.harness import Place, history

ADA: Final = "ada"
SELDOM: Final = Settings(poll=2.0)
"""Looks for lost wake-ups cost a test that lasts hours."""


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


def live(work: Callable[[Midcourse, FakeClock], Awaitable[None]], *agents: Any, policy: Policy | None = None) -> None:
    """Do ``work`` with a program that has these agents, on a fake clock."""
    clock = FakeClock()

    async def main() -> None:
        store = MemoryStore(SharedMemory())
        if policy is not None:
            await versions.save(store, policy, by=ADA, why="a test", now=clock.now())
        async with opened(Place("memory", Path()), *agents, clock=clock, store=store, settings=SELDOM) as mc:
            await work(mc, clock)

    clock.run(main())


async def minutes(count: float) -> str:
    """A call that takes its time."""
    await asyncio.sleep(60 * count)
    return "done"


async def look() -> str:
    """A call that is always the same."""
    await asyncio.sleep(1)
    return "the same as before"


async def think(cost: float) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model, at a price."""
    await asyncio.sleep(1)
    yield "Hm."
    yield midcourse.StreamEnd(cost=cost, tokens=3)


async def made(session: SessionHandle[Any]) -> list[tuple[str, str, float]]:
    """What a policy did: level, the signal that led to it, and when."""
    return [
        (one.event.decision.level, one.event.decision.reasons[0].signal, one.at)
        for one in await history(session)
        if isinstance(one.event, ev.InterventionMade)
    ]


async def paused(session: SessionHandle[Any]) -> None:
    """Wait until it is."""
    while await session.status() != "paused":
        assert await session.status() not in ("completed", "failed")
        await asyncio.sleep(1)


# ---- a spender with milestones


def test_a_spender_is_paused_at_each_milestone_at_once_and_stopped_at_the_limit() -> None:
    async def spend(run: midcourse.Run) -> None:
        for _ in range(100):
            await run.stream("think", think, 0.9)

    async def work(mc: Midcourse, clock: FakeClock) -> None:
        del clock
        session = await mc.start(spender, GOAL, by=ADA)
        for milestone in (10.0, 25.0, 50.0):
            await paused(session)
            state = await session.state()
            assert milestone <= state.cost < milestone + 0.9, await made(session)
            (ask,) = state.asks
            assert ask.reason == "review"
            await session.resume()
        stepped_in = [one for one in await made(session) if one[1] == "cost" and one[0] != "notify"]
        assert [level for level, _, _ in stepped_in] == ["pause", "pause", "stop"]
        # In the second in which the call that reached it ended, and not with the batch of an hour.
        ends = [one.at for one in await history(session) if isinstance(one.event, ev.StepFinished)]
        assert all(at in ends for _, _, at in stepped_in)
        await session.cancel(grace=0)

    spender = under(spend, name="spender")
    live(work, spender)


# ---- one noisy run beside quiet ones


def test_runs_that_were_asked_for_their_plan_disarm_no_later_run_of_their_person() -> None:
    async def circle(run: midcourse.Run) -> None:
        await run.step("begin", minutes, 3)
        while True:
            await run.step("look", look)

    async def work(mc: Midcourse, clock: FakeClock) -> None:
        del clock
        for _ in range(7):  # more than the five an hour that a person bears
            session = await mc.start(circling, GOAL, by=ADA)
            while "ask_plan" not in [level for level, _, _ in await made(session)]:
                await asyncio.sleep(1)
            await session.cancel(grace=0, until="stopped")
        quiet = await mc.start(circling, GOAL, by=ADA)
        await paused(quiet)
        assert [level for level, _, _ in await made(quiet) if level != "notify"] == ["ask_plan", "pause"]
        await quiet.cancel(grace=0)

    circling = under(circle, name="circling")
    live(work, circling)


def test_one_noisy_run_disarms_no_quiet_one_beside_it() -> None:
    async def circle(run: midcourse.Run) -> None:
        await run.step("begin", minutes, 3)
        while True:
            await run.step("look", look)

    async def work(mc: Midcourse, clock: FakeClock) -> None:
        noisy = await mc.start(circling, GOAL, by=ADA)
        began = clock.now()
        for _ in range(3):
            await paused(noisy)
            await noisy.resume()
        # Its share of the hour is used up: of the rest people are told.
        while [level for level, _, _ in await made(noisy)].count("pause") == 3:
            if any(level == "notify" and signal == "loops" for level, signal, _ in (await made(noisy))[-1:]):
                break
            await asyncio.sleep(1)
        quiet = await mc.start(circling, GOAL, by=ADA)
        await paused(quiet)
        assert clock.now() - began < 3600
        assert [level for level, _, _ in await made(noisy)].count("pause") == 3
        assert [level for level, _, _ in await made(quiet)][-1] == "pause"
        for one in (noisy, quiet):
            await one.cancel(grace=0)

    often = replace(
        STANDARD,
        name="often",
        extends="standard",
        restraint=replace(STANDARD.restraint, requests_per_intervention=0, patience=0),
    )
    circling = under(circle, "often", name="circling")
    live(work, circling, policy=often)
