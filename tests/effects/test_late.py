"""A thread cannot be aborted: what it did after a cancel's grace was over is undone once it has ended."""

import asyncio
import threading
from collections.abc import Mapping

import midcourse
from tests.promises.harness import Place, resumable

done: list[str] = []
entered = threading.Event()
may_end = threading.Event()


def take_back(_arguments: Mapping[str, object], result: object, _key: str) -> None:
    """The undo."""
    done.append(f"undone: {result}")


@midcourse.tool(effect="write", undo=take_back, local=True)
def put_slowly(text: str) -> str:
    """A function that does not look whether it should end."""
    entered.set()
    may_end.wait()
    done.append(text)
    return text


async def puts(run: midcourse.Run) -> str:
    return await run.step("put", put_slowly, "x")


async def test_what_a_thread_does_after_the_grace_is_undone_when_it_has_ended(place: Place) -> None:
    for one in (done, entered, may_end):
        one.clear()
    async with place.open(agent := resumable(puts)) as mc:
        session = await mc.start(agent)
        await asyncio.to_thread(entered.wait)
        reply = await session.cancel(grace=0)
        assert [call.name for call in reply.running] == ["put"]
        may_end.set()
        reply = await session.cancel(until="stopped", wait=30)

        assert done == ["x", "undone: x"]
        assert [line.outcome for line in reply.receipt] == ["undone"]


async def test_what_ends_within_the_grace_is_kept(place: Place) -> None:
    for one in (done, entered, may_end):
        one.clear()
    async with place.open(agent := resumable(puts)) as mc:
        session = await mc.start(agent)
        await asyncio.to_thread(entered.wait)
        await session.cancel(grace=3600)
        may_end.set()
        reply = await session.cancel(grace=3600, until="stopped", wait=30)

        assert done == ["x"]
        assert [line.outcome for line in reply.receipt] == ["kept"]
