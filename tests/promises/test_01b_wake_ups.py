"""Promise 1: who waits elsewhere for a stop is woken by what happened, and by no poll. Counted, not timed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from midcourse.bus.memory import MemoryBus
from midcourse.core.ids import SessionId
from midcourse.ports.bus import Delta, Grown, Note, Wake
from midcourse.ports.store import Store
from midcourse.runtime import fanout
from midcourse.testing.wrapped_store import WrappedStore
from tests.fake_time import counted
from tests.promises.harness import Place, Tool, resumable, turns, until_status, until_true

pytestmark = pytest.mark.fake_time
T = TypeVar("T")


class LateAnswer(WrappedStore):
    """Holds the first answer about a command back: it says that it is undecided, and comes after the stop is over."""

    def __init__(self, inner: Store) -> None:
        super().__init__(counted(inner))
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        answer = await make()
        if call == "row":
            self.asked.set()
            await self.may_answer.wait()
        return answer


async def test_one_wake_up_for_a_decision_and_the_end_of_its_stop_is_enough(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both came while the sender was looking, and were one wake-up: it looks before it waits for another one."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("slow", tool.run))
    expired: list[float] = []
    wait = fanout.Watcher.wait

    async def counting(watcher: fanout.Watcher, seconds: float) -> None:
        before = watcher._clock.monotonic()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await wait(watcher, seconds)
        if watcher._clock.monotonic() >= before + seconds:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            expired.append(seconds)

    store = LateAnswer(await memory.store())
    async with memory.open(one) as mc, memory.open(drive=False, store=store) as elsewhere:
        session = await mc.start(one)
        await tool.entered.wait()
        heard: list[Note] = []
        hear = elsewhere._control.worker.fanout.hear  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        def hearing(note: Grown | Delta) -> list[tuple[str, bool]]:
            heard.append(note)
            return hear(note)

        elsewhere._control.worker.fanout.hear = hearing  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        pausing = asyncio.create_task((await elsewhere.get(session.id)).pause(grace=0, until="stopped"))
        await store.asked.wait()
        await until_status(session, "paused")
        await until_true(lambda: bool(heard))
        await turns(50)
        monkeypatch.setattr(fanout.Watcher, "wait", counting)
        store.may_answer.set()
        assert (await pausing).level == "stopped"
        assert expired == []


async def test_a_wake_up_that_finds_nothing_to_decide_is_answered(memory: Place) -> None:
    """It was decided before the sender was known here, so that nobody has told the sender."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("slow", tool.run))
    heard: list[Note] = []
    bus = MemoryBus()
    bus.listen(heard.append)
    try:
        async with memory.open(one) as mc:
            session = await mc.start(one)
            await tool.entered.wait()
            await turns(50)
            worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            bus.send(worker.bus.address, Wake(SessionId(session.id), reply_to=bus.address))
            await until_true(lambda: bool(heard))
            assert heard == [Grown(SessionId(session.id))]
            tool.may_end.set()
    finally:
        bus.close()
