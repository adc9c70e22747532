"""A caller who waits for a stop is answered from its driver's memory, but never ahead of the disk."""

import asyncio
from collections.abc import Sequence

import midcourse
from midcourse.core.fold import Row
from midcourse.core.ids import Position, SessionId
from midcourse.core.session import Status
from midcourse.stores.sqlite.memory import MemoryStore

ends = asyncio.Event()


@midcourse.tool(effect="read")
async def work() -> None:
    await ends.wait()


@midcourse.agent(name="waited-for")
async def agent(run: midcourse.Run) -> None:
    """Works once, and again."""
    await run.step("work", work)
    await run.step("work", work)


class Counting(MemoryStore):
    """Counts the reads of journals."""

    reads = 0

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        self.reads += 1
        return await super().read(session_id, after, limit)


async def test_a_stop_that_is_waited_for_here_does_not_read_the_journal() -> None:
    ends.clear()
    store = Counting()
    async with midcourse.open(store) as mc:
        session = await mc.start(agent)
        while not (await session.state()).calls:
            await asyncio.sleep(0)
        stopping = asyncio.ensure_future(session.pause(until="stopped", wait=60))
        while await session.status() != Status.PAUSING:
            await asyncio.sleep(0)
        before = store.reads
        ends.set()
        reply = await stopping
        assert (reply.level, reply.status) == ("stopped", Status.PAUSED)
        assert store.reads == before


async def test_a_look_at_a_session_that_is_driven_here_does_not_read_the_journal() -> None:
    """Its fold is what the journal says, as far as the digest in the head is that of the fold."""
    may_end = asyncio.Event()

    @midcourse.agent(name="looked-at")
    async def looked_at(run: midcourse.Run) -> None:
        await run.step("wait", may_end.wait)

    store = Counting()
    async with midcourse.open(store) as mc:
        session = await mc.start(looked_at)
        while not (await session.state()).calls:
            await asyncio.sleep(0)
        before = store.reads
        for number in range(5):
            await session.message(f"message {number}")
            assert len((await session.state()).queue) == number + 1
        assert store.reads == before
        may_end.set()
