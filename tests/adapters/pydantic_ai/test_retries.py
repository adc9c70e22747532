"""What ``ctx.retry`` says, wherever a run continues: what it would say natively."""

import asyncio
from typing import Any

import pytest
from pydantic_ai import ModelRetry, RunContext

import midcourse
from midcourse.models.script import Call, Text, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, until_status, until_true


@pytest.mark.parametrize("stops_at", [1, 2, 3])
async def test_a_tools_retries_are_counted_on_after_a_cold_resume(stops_at: int, place: Place) -> None:
    """The process ends between a ``ModelRetry`` and the next call, which counts on. A success counts anew."""
    may_end, begun, seen = asyncio.Event(), 0, list[int]()
    script = replies(*([[Call("guess")]] * 5), Text("Done."))
    desk = Desk(script)

    @desk.agent.tool(retries=3)
    @midcourse.tool(effect="read")
    async def guess(ctx: RunContext[Any]) -> str:
        nonlocal begun
        begun += 1
        if begun == stops_at:
            await may_end.wait()
        seen.append(ctx.retry)
        if len(seen) in (1, 2, 4):
            raise ModelRetry("Guess again.")
        return "right"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until_true(lambda: begun == stops_at)
        await session.pause()
        may_end.set()
        await until_status(session, "paused")
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(PATIENCE) == "Done."
    assert seen == [0, 1, 2, 0, 1]
