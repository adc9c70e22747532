"""A session whose journal cannot be written is released, whatever was on its way when the first write failed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import midcourse
from midcourse.errors import StoreUnavailable
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing import FakeClock
from midcourse.testing.wrapped_store import WrappedStore

T = TypeVar("T")


class Full(WrappedStore):
    """Full for a while: the first write that fails is heard of at once, the next one a moment later."""

    is_full = False
    _heard_after = 0.0

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        if not self.is_full:
            return make()
        wait, self._heard_after = self._heard_after, 0.05
        return asyncio.ensure_future(_fail(wait))


async def _fail(seconds: float) -> T:  # pyright: ignore[reportInvalidTypeVarUse]
    await asyncio.sleep(seconds)
    raise StoreUnavailable("full", code="store_full")


@midcourse.tool(effect="idempotent", local=True)
async def put(number: int) -> int:
    return number


@midcourse.agent(name="two-starts")
async def two_starts(run: midcourse.Run) -> list[int]:
    await asyncio.sleep(1)
    return list(await asyncio.gather(*(run.step("put", put, number, key=str(number)) for number in range(2))))


def test_a_session_goes_on_after_two_starts_could_not_be_written() -> None:
    clock = FakeClock()
    store = Full(MemoryStore())

    async def test() -> None:
        async with midcourse.open(store, clock=clock) as mc:
            session = await mc.start(two_starts, "put")
            await clock.sleep(0.5)
            store.is_full = True
            await clock.sleep(2)
            store.is_full = False
            assert await session.result(timeout=60) == [0, 1]

    clock.run(test())
