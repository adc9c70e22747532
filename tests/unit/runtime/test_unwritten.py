"""A session whose journal could not be written goes on soon after the store works again, and does not try for ever."""

import asyncio
from collections.abc import Awaitable

import midcourse
from midcourse.core.ids import Epoch, SessionId
from midcourse.core.session import Status
from midcourse.errors import StoreFull
from midcourse.ports.store import Append
from midcourse.runtime.failed_writes import FailedWrites
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing import FakeClock
from tests.promises.faults import Faulty

_calls: list[str] = []


class Cramped(Faulty):
    """Has room for no append with blobs while it is ``cramped``."""

    cramped = True

    def append(self, append: Append) -> Awaitable[None]:
        """See the port."""
        self.fails = lambda _: bool(append.blobs) and self.cramped
        return super().append(append)


@midcourse.tool(effect="read")
async def look(name: str) -> str:
    _calls.append(name)
    await asyncio.sleep(1)
    return name


@midcourse.tool(effect="read")
async def look_for_much(name: str) -> str:
    _calls.append(name)
    await asyncio.sleep(1)
    return "much" * 100_000


@midcourse.agent(name="looks-often")
async def looks_often(run: midcourse.Run) -> int:
    for number in range(600):
        await run.step("look", look, "often", key=str(number))
    return 600


@midcourse.agent(name="looks-for-much")
async def looks_for_much(run: midcourse.Run) -> str:
    return await run.step("look", look_for_much, "much")


def test_sessions_go_on_within_seconds_of_a_long_failure_of_the_store_although_no_command_comes() -> None:
    clock = FakeClock()
    store = Faulty(MemoryStore())

    async def test() -> None:
        async with midcourse.open(store, clock=clock, grace=0.0) as mc:
            sessions = [await mc.start(looks_often, str(number)) for number in range(3)]
            await clock.sleep(5)
            store.fails = lambda _: True
            await clock.sleep(30)
            tried = len(_calls)
            await clock.sleep(300)
            assert len(_calls) == tried  # nothing that could not be written down is done meanwhile
            before = [(await session.state()).finished_steps for session in sessions]
            store.work_again()
            await clock.sleep(8)
            after = [(await session.state()).finished_steps for session in sessions]
            assert all(late > early for early, late in zip(before, after, strict=True)), (before, after)

    clock.run(test())


def test_a_result_that_one_session_keeps_makes_those_that_failed_with_it_due_at_once() -> None:
    clock = FakeClock()

    async def test() -> None:
        unwritten = FailedWrites(MemoryStore(), clock)
        session, epoch = SessionId("sess_1"), Epoch(1)
        for _ in range(10):
            unwritten.add(session, epoch, StoreFull("full"))
            await clock.sleep(1)
        assert unwritten.waits(session)
        unwritten.kept(SessionId("sess_2"))
        assert not unwritten.waits(session)
        assert unwritten.due(clock.monotonic()) == [session]

    clock.run(test())


def test_commands_that_wait_for_an_answer_meanwhile_make_their_session_wait_no_longer() -> None:
    clock = FakeClock()

    async def test() -> None:
        unwritten = FailedWrites(MemoryStore(), clock)
        session, epoch = SessionId("sess_1"), Epoch(1)
        for _ in range(100):
            unwritten.add(session, epoch, StoreFull("full"))
            unwritten.try_soon(session)
            assert unwritten.waits(session)
            await clock.sleep(0.5)
            assert not unwritten.waits(session)
        unwritten.add(session, epoch, StoreFull("full"))
        await clock.sleep(5)
        assert not unwritten.waits(session)

    clock.run(test())


def test_a_store_that_fails_again_and_again_does_not_make_its_sessions_wait_longer_each_time() -> None:
    clock = FakeClock()
    store = Faulty(MemoryStore())

    async def test() -> None:
        async with midcourse.open(store, clock=clock, grace=0.0) as mc:
            session = await mc.start(looks_often, "on")
            for _ in range(10):
                await clock.sleep(15)
                store.fails = lambda _: True
                await clock.sleep(3)
                store.work_again()
                before = (await session.state()).finished_steps
                await clock.sleep(6)
                assert (await session.state()).finished_steps > before

    clock.run(test())


def test_a_session_that_alone_cannot_be_written_is_tried_again_more_and_more_seldom() -> None:
    clock = FakeClock()
    store = Cramped(MemoryStore())

    async def test() -> None:
        _calls.clear()
        async with midcourse.open(store, clock=clock, grace=0.0) as mc:
            other = await mc.start(looks_often, "beside it")
            session = await mc.start(looks_for_much, "too much")
            await clock.sleep(300)
            assert await session.status() is Status.RUNNING
            assert await other.status() is Status.RUNNING
            assert 5 < _calls.count("much") < 15
            store.cramped = False
            await clock.sleep(65)
            assert await session.status() is Status.COMPLETED

    clock.run(test())
