"""``run.earlier``: what a turn that failed or was cancelled had done after its last checkpoint."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import midcourse
from tests.promises.harness import Place, Tool, resumable, until


async def _breaks() -> None:
    raise OSError("no light")


async def _talks() -> AsyncIterator[str]:
    for _ in range(1_000):
        yield "on and on "
        await asyncio.sleep(0.01)


def _told(step: Any) -> Any:
    return None if step is None else [step.outcome, step.value, step.text, step.detail]


async def test_a_failed_turn_tells_the_next_what_it_had_done(place: Place) -> None:
    work = Tool()

    async def agent(run: midcourse.Run) -> list[Any] | None:
        if run.messages[-1].text == "what?":
            found = [await run.earlier("work", "a"), await run.earlier("break"), await run.earlier("nothing")]
            await run.checkpoint()
            return [*map(_told, found), _told(await run.earlier("work", "a"))]
        await run.checkpoint()
        await run.step("work", work.run, 42, key="a")
        await run.step("break", _breaks)
        return None

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        with pytest.raises(midcourse.SessionEnded, match="no light"):
            await session.result(20)
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.redirect("what?")
        worked, broke, nothing, later = await again.result(20)
    assert worked == ["finished", 42, "", ""]
    assert broke[0] == "failed"
    assert broke[1] is None
    assert "no light" in broke[3]
    assert nothing is None
    assert later is None, "a checkpoint closes it"
    assert work.begun == [(42,)]


async def test_a_cancelled_turn_tells_what_its_model_had_said(place: Place) -> None:
    async def agent(run: midcourse.Run) -> Any:
        if run.messages[-1].text == "what?":
            return _told(await run.earlier("talk"))
        await run.checkpoint()
        return await run.stream("talk", _talks)

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until(session, "step.begun")
        async for seen in session.watch(deltas=True):
            if isinstance(seen, midcourse.Delta):
                break
        await session.cancel(until="stopped")
        await session.redirect("what?")
        outcome, _, text, _ = await session.result(20)
    assert outcome != "finished"
    assert text.startswith("on and on ")


async def test_a_turn_that_ended_well_leaves_nothing_earlier(place: Place) -> None:
    work = Tool()

    async def agent(run: midcourse.Run) -> Any:
        if run.messages[-1].text == "what?":
            return _told(await run.earlier("work"))
        return await run.step("work", work.run, 42)

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        assert await session.result(20) == 42
        await session.redirect("what?")
        assert await session.result(20) is None
