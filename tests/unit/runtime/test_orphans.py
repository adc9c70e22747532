"""A child that had not begun when its parent ended is begun, or cancelled with it: it does not wait for ever."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import midcourse
from midcourse.core.session import Status
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock


@midcourse.tool(effect="read")
async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@midcourse.agent(name="orphan")
async def orphan(run: midcourse.Run) -> str:
    await run.step("nap", nap, 1.0)
    return "begun after all"


@midcourse.agent(name="parent-of-orphan")
async def parent(run: midcourse.Run) -> str:
    spawned = asyncio.ensure_future(run.spawn(orphan, "nap"))
    await run.step("nap", nap, 1.0)
    return "did not wait" if not spawned.done() else "waited"


@asynccontextmanager
async def opened(memory: SharedMemory, clock: FakeClock) -> AsyncGenerator[midcourse.Midcourse]:
    async with midcourse.open(MemoryStore(memory), clock=clock, grace=0.0) as mc:
        yield mc


def test_a_child_that_was_halted_before_it_began_begins_although_its_parent_has_ended() -> None:
    clock = FakeClock()

    async def test() -> None:
        memory = SharedMemory()
        async with opened(memory, clock) as mc:
            thrown = await mc.kill_switch.throw(midcourse.Scope("agent", "orphan"), "not yet")
            session = await mc.start(parent, "spawn")
            await clock.sleep(3)
            child = next(head.id for head in await mc.list() if head.parent == session.id)
        async with opened(memory, clock) as mc:
            await clock.sleep(3)
            assert await (await mc.get(session.id)).status() is Status.COMPLETED
            assert await (await mc.get(child)).status() is Status.HALTED
            await mc.kill_switch.lift(str(thrown.switch.id), "now")
            await mc.kill_switch.release(str(thrown.switch.id), [child])
            assert await (await mc.get(child)).result(timeout=60) == "begun after all"

    clock.run(test())


@midcourse.agent(name="parent-of-two-turns")
async def two_turns(run: midcourse.Run) -> str:
    spawned = asyncio.ensure_future(run.spawn(orphan, "nap")) if run.turn == 1 else None
    await run.step("nap", nap, 1.0 if spawned else 1000.0)
    return "did not wait"


def test_a_child_that_had_not_begun_in_the_turn_before_begins_while_its_parent_works_on_another() -> None:
    clock = FakeClock()

    async def test() -> None:
        memory = SharedMemory()
        async with opened(memory, clock) as mc:
            thrown = await mc.kill_switch.throw(midcourse.Scope("agent", "orphan"), "not yet")
            session = await mc.start(two_turns, "spawn")
            await clock.sleep(3)
            child = next(head.id for head in await mc.list() if head.parent == session.id)
        async with opened(memory, clock) as mc:
            await clock.sleep(3)
            parent = await mc.get(session.id)
            assert await parent.status() is Status.COMPLETED
            await parent.redirect("something else", level="goal")
            await mc.kill_switch.lift(str(thrown.switch.id), "now")
            await mc.kill_switch.release(str(thrown.switch.id), [child])
            await clock.sleep(60)
            assert await (await mc.get(child)).status() is Status.COMPLETED
            assert await parent.status() is Status.RUNNING

    clock.run(test())


@midcourse.agent(name="halted-parent")
async def halted_parent(run: midcourse.Run) -> str:
    await run.spawn(orphan, "nap")
    await run.step("nap", nap, 1000.0)
    return "ended"


def test_a_new_turn_of_a_child_that_had_ended_runs_although_its_parent_is_halted() -> None:
    clock = FakeClock()

    async def test() -> None:
        memory = SharedMemory()
        async with opened(memory, clock) as mc:
            session = await mc.start(halted_parent, "spawn")
            await clock.sleep(3)
            child = next(head.id for head in await mc.list() if head.parent == session.id)
            await mc.kill_switch.throw(midcourse.Scope("agent", "halted-parent"), "stop it")
            async with midcourse.open(MemoryStore(memory), clock=clock, drive=False) as other:
                await (await other.get(child)).redirect("once more", level="goal")
            await clock.sleep(10)
            assert await session.status() is Status.HALTED
            state = await (await mc.get(child)).state()
            assert (state.status, state.turn) == (Status.COMPLETED, 2)

    clock.run(test())


def test_a_pause_of_the_parent_lists_a_halted_child_as_not_reached() -> None:
    clock = FakeClock()

    async def test() -> None:
        async with opened(SharedMemory(), clock) as mc:
            session = await mc.start(halted_parent, "spawn")
            await clock.sleep(0.5)
            await mc.kill_switch.throw(midcourse.Scope("agent", "orphan"), "stop it")
            child = next(head.id for head in await mc.list() if head.parent == session.id)
            assert await (await mc.get(child)).status() is Status.HALTED
            await session.pause(until="stopped")
            assert (await session.state()).unreached == (child,)

    clock.run(test())
