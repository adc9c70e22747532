"""``run.keep``: what an adapter journals beside a step."""

from typing import Any

import pytest

import midcourse
from midcourse.runtime.tools import tool_of
from tests.promises.harness import Place, Tool, resumable


@pytest.mark.parametrize("size", [3, 100_000])
async def test_what_was_kept_beside_a_step_is_there_until_the_next_checkpoint(place: Place, size: int) -> None:
    work, stuck = Tool(), [True]

    async def stumble() -> None:
        if stuck:
            raise OSError("no light")

    async def agent(run: midcourse.Run) -> list[Any]:
        def shape(result: Any) -> Any:
            run.keep("more", ["first"])
            run.keep("more", "x" * size)
            return result

        await run.checkpoint()
        await run.call(tool_of(work.run), {"result": 42}, body=lambda: work.run(42), shape=shape, key="a")
        found = [await run.kept("more"), await run.kept("other")]
        await run.step("stumble", stumble)
        await run.checkpoint()
        return [*found, await run.kept("more")]

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        with pytest.raises(midcourse.SessionEnded, match="no light"):
            await session.result(20)
    stuck.clear()
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(20) == ["x" * size, None, None]
    assert work.begun == [(42,)]
