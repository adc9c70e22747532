"""The clock for tests: it jumps when all is idle, and never while a thread or a store works."""

import asyncio
import time
from math import nextafter
from pathlib import Path

import pytest

import midcourse
from midcourse.core.session import Status
from midcourse.testing import FakeClock
from midcourse.wiring import open_store


def test_hours_pass_in_no_time() -> None:
    clock = FakeClock()

    async def sleeps() -> tuple[float, float]:
        before = clock.now()
        await clock.sleep(3600)
        await asyncio.sleep(3600)  # as an agent or a library would
        return clock.now() - before, clock.monotonic()

    began = time.monotonic()
    assert clock.run(sleeps()) == (7200.0, 7200.0)
    assert time.monotonic() - began < 5


def test_timers_and_timeouts_come_in_their_order() -> None:
    clock = FakeClock()
    told: list[tuple[str, float]] = []

    def tell(what: str) -> None:
        told.append((what, clock.monotonic()))

    async def waits() -> None:
        clock.call_later(30, tell, "later")
        clock.call_at(10, tell, "at")
        clock.call_later(20, tell, "never").cancel()
        with pytest.raises(TimeoutError):
            async with clock.timeout(25):
                await asyncio.Event().wait()
        tell("timeout")
        await clock.sleep(10)

    clock.run(waits())
    assert told == [("at", 10.0), ("timeout", 25.0), ("later", 30.0)]


def test_no_time_passes_while_a_thread_runs() -> None:
    clock = FakeClock()

    async def works() -> float:
        sleeping = asyncio.ensure_future(clock.sleep(1000))
        await asyncio.to_thread(time.sleep, 0.02)
        at = clock.monotonic()
        sleeping.cancel()
        return at

    assert clock.run(works()) == 0.0


def test_a_thread_that_does_not_end_holds_the_clock_only_for_its_patience() -> None:
    clock = FakeClock(patience=0.02)
    ended: list[bool] = []

    def until_asked() -> None:
        while not ended:
            time.sleep(0.001)

    async def works() -> None:
        running = asyncio.ensure_future(asyncio.to_thread(until_asked))
        await clock.sleep(60)
        ended.append(True)
        await running

    clock.run(works())
    assert clock.monotonic() >= 60


def test_the_wall_clock_steps_and_what_is_measured_does_not() -> None:
    clock = FakeClock(start=1000.0)
    clock.step(-500)
    assert (clock.now(), clock.monotonic()) == (500.0, 0.0)


def test_on_another_loop_it_says_so() -> None:
    clock = FakeClock()
    with pytest.raises(RuntimeError, match="clock.run"):
        asyncio.run(clock.sleep(1))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_session_that_is_parked_asked_and_expires_takes_no_real_time(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()

    @midcourse.agent(name="patient")
    async def patient(run: midcourse.Run) -> str:
        await asyncio.sleep(300)
        return str(await run.ask("Go on?", expires=600, default="nobody answered"))

    async def lives() -> None:
        store = await open_store("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/fake.db")
        async with midcourse.open(clock.counted(store), clock=clock) as mc:
            handle = await mc.start(patient, "wait")
            await handle.next_ask()
            assert clock.monotonic() == pytest.approx(300, abs=10)
            assert await handle.result() == "nobody answered"
            assert clock.monotonic() == pytest.approx(900, abs=10)
            assert (await handle.status()) is Status.COMPLETED

    began = time.monotonic()
    clock.run(lives())
    assert time.monotonic() - began < 60


def test_nothing_happens_a_rounding_error_before_its_time() -> None:
    """What looks whether it is time yet, and waits for the rest, would wait for nothing without end."""
    clock = FakeClock()
    early: list[float] = []

    def due(when: float) -> None:
        early.append(when - clock.monotonic())

    async def test() -> None:
        for when in (0.5, nextafter(0.5, 0.0), 5.5, 5.499999999999998):
            clock.call_at(when, due, when)
        await clock.sleep(6)

    clock.run(test())
    assert early == [0.0] * 4
