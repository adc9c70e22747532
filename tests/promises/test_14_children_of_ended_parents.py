"""Promise 14, for a child that had not begun when its parent ended: a stop had parted them."""

import asyncio

import midcourse
from tests.promises.harness import Place, Tool, resumable, turns, until_status


async def test_a_halted_child_starts_once_it_is_released_although_its_parent_has_ended(place: Place) -> None:
    """It was halted before it began, its parent's agent raised, and a pause had the parent end without it."""
    work, over = Tool(), asyncio.Event()

    async def child(run: midcourse.Run) -> object:
        return await run.step("work", work.run, 1)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> None:
        spawned = asyncio.ensure_future(run.spawn(kid, "one", key="one"))
        await over.wait()
        spawned.cancel()
        raise ValueError("no such row")

    async with place.open(agent := resumable(parent, name="parent"), kid) as mc:
        thrown = await mc.kill_switch.throw(midcourse.Scope("agent", "kid"), "not yet")
        session = await mc.start(agent)

        async def kids() -> list[str]:
            return [head.id for head in await mc.list(status=("halted",)) if head.parent == session.id]

        while not await kids():
            await asyncio.sleep(0)
        born = await mc.get((await kids())[0])
        over.set()
        await turns(20)
        await session.pause(grace=0)
        assert await until_status(session, "failed") == "failed"
        await mc.kill_switch.lift(thrown.switch.id, "now")
        await mc.kill_switch.release(thrown.switch.id)
        assert await until_status(born, "completed") == "completed"
        assert work.ended == [(1,)]
