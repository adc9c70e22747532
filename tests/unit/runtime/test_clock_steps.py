"""A wall clock that is set, back or forward, moves no deadline by more than the duration itself."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import midcourse
from midcourse.core.session import Status
from midcourse.runtime.settings import Settings
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock

DAY = 86_400.0
STEPS = [-DAY, -5.0, DAY]
sent: list[str] = []
undone: list[str] = []


async def _unsend(args: Mapping[str, Any], result: object, key: str) -> None:
    undone.append(args["text"])


@midcourse.tool(effect="write", undo=_unsend, settle=30.0)
async def send(text: str) -> str:
    sent.append(text)
    await asyncio.sleep(1000)
    return text


@midcourse.tool(effect="read")
async def look() -> str:
    return "seen"


@midcourse.agent(name="clock-sender")
async def sender(run: midcourse.Run) -> str:
    return await run.step("send", send, "hello")


@midcourse.agent(name="clock-asker")
async def asker(run: midcourse.Run) -> str:
    return str(await run.ask("Go on?", expires=60, default="no answer"))


@midcourse.agent(name="clock-worker")
async def worker(run: midcourse.Run) -> str:
    await asyncio.sleep(5)
    await run.step("look", look)
    return "done"


@asynccontextmanager
async def opened(memory: SharedMemory, clock: FakeClock, **numbers: float) -> AsyncGenerator[midcourse.Midcourse]:
    settings = Settings(**numbers)  # pyright: ignore[reportArgumentType]
    async with midcourse.open(MemoryStore(memory), clock=clock, settings=settings) as mc:
        yield mc


@pytest.mark.parametrize("step", STEPS)
def test_an_ask_expires_after_its_time_although_the_wall_clock_was_set(step: float) -> None:
    clock = FakeClock()

    async def test() -> None:
        async with opened(SharedMemory(), clock) as mc:
            session = await mc.start(asker, "ask")
            await session.next_ask()
            began = clock.monotonic()
            clock.step(step)
            assert await session.result(timeout=200) == "no answer"
            assert clock.monotonic() - began == pytest.approx(60, abs=2)

    clock.run(test())


@pytest.mark.parametrize("step", [-DAY, -5.0])
def test_a_parked_ask_expires_although_the_wall_clock_was_set_back(step: float) -> None:
    clock = FakeClock()

    async def test() -> None:
        async with opened(SharedMemory(), clock, park_after=1.0) as mc:
            session = await mc.start(asker, "ask")
            await session.next_ask()
            began = clock.monotonic()
            await clock.sleep(10)  # parked
            clock.step(step)
            assert await session.result(timeout=200) == "no answer"
            assert clock.monotonic() - began <= 10 + 60 + 2

    clock.run(test())


@pytest.mark.parametrize("step", STEPS)
def test_a_pause_lapses_after_its_time_although_the_wall_clock_was_set(step: float) -> None:
    clock = FakeClock()

    async def test() -> None:
        async with opened(SharedMemory(), clock) as mc:
            session = await mc.start(worker, "work")
            await session.pause(lapses=60)
            began = clock.monotonic()
            clock.step(step)
            assert await session.result(timeout=200) == "done"
            assert clock.monotonic() - began == pytest.approx(60, abs=8)

    clock.run(test())


@pytest.mark.parametrize("step", STEPS)
def test_settle_is_waited_for_in_full_and_no_longer_although_the_wall_clock_was_set(step: float) -> None:
    clock = FakeClock()
    sent.clear()
    undone.clear()

    async def test() -> None:
        async with opened(SharedMemory(), clock) as mc:
            session = await mc.start(sender, "send")
            await clock.sleep(2)
            assert sent == ["hello"]
            await session.cancel(grace=0, wait=0.1)
            began = clock.monotonic()
            clock.step(step)
            while await session.status() is not Status.CANCELLED:
                assert clock.monotonic() - began < 100
                await clock.sleep(0.5)
            assert clock.monotonic() - began == pytest.approx(30, abs=3)

    clock.run(test())
    assert undone == ["hello"]


@pytest.mark.parametrize("step", [-DAY, -5.0, 0.0])
def test_the_next_process_waits_for_settle_once_more_at_most_after_a_step_back(step: float) -> None:
    """It knows the wall clock of the one before, and no more; a step forward cuts the wait, as the docs say."""
    clock = FakeClock()
    undone.clear()

    async def test() -> None:
        memory = SharedMemory()
        async with opened(memory, clock) as mc:
            session = await mc.start(sender, "send")
            await clock.sleep(2)
            await session.cancel(grace=0, wait=0.1)
        began = clock.monotonic()
        clock.step(step)
        async with opened(memory, clock) as mc:
            again = await mc.get(session.id)
            assert undone == []
            while await again.status() is not Status.CANCELLED:
                assert clock.monotonic() - began < 100
                await clock.sleep(0.5)
        assert 25 <= clock.monotonic() - began <= 30 + 6

    clock.run(test())
    assert undone == ["hello"]


@pytest.mark.parametrize("status", ["waiting", "paused"])
def test_the_next_process_waits_no_longer_than_the_duration_after_a_step_back(status: str) -> None:
    clock = FakeClock()

    async def test() -> None:
        memory = SharedMemory()
        async with opened(memory, clock) as mc:
            session = await mc.start(asker if status == "waiting" else worker, "wait")
            if status == "waiting":
                await session.next_ask()
            else:
                await session.pause(lapses=60)
            await clock.sleep(10)
        clock.step(-DAY)
        began = clock.monotonic()
        async with opened(memory, clock) as mc:
            session = await mc.get(session.id)
            assert await session.result(timeout=300) == ("no answer" if status == "waiting" else "done")
            assert clock.monotonic() - began <= 60 + 8

    clock.run(test())


def test_the_journal_never_goes_back_in_time() -> None:
    clock = FakeClock()

    async def test() -> None:
        async with opened(SharedMemory(), clock) as mc:
            session = await mc.start(worker, "work")
            clock.step(-DAY)
            await session.result()
            times = [event.at async for event in session.watch()]
            assert times == sorted(times)

    clock.run(test())
