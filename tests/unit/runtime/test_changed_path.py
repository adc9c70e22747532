"""Code that changed under a session: what is another path, and what is the same one with less or more in it."""

import midcourse
from tests.promises.harness import Place, Tool, resumable, until_status


async def test_an_agent_cannot_catch_that_it_diverged(place: Place) -> None:
    """It must not go on along another path than the journal's, whatever it catches."""
    tool, other, barrier = Tool(), Tool(), Tool(holds=True)
    wanted, caught = [1], list[BaseException]()

    async def agent(run: midcourse.Run) -> str:
        try:
            await run.step("work", tool.run, wanted[0])
        except Exception as error:  # noqa: BLE001 - what such agents do
            caught.append(error)
            await run.step("other", other.run)
        await run.step("barrier", barrier.run)
        return "done"

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await barrier.entered.wait()
    wanted[0] = 2
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await until_status(session, "failed") == "failed"
    assert (caught, other.begun) == ([], [])


async def test_an_agent_may_leave_steps_out_and_add_new_ones_under_new_names(place: Place) -> None:
    """Only the same identity with other arguments is a contradiction."""
    tool, barrier, version = Tool(), Tool(holds=True), [1]

    async def agent(run: midcourse.Run) -> list[object]:
        results = [await run.step("old", tool.run, "old")] if version[0] == 1 else []
        results.append(await run.step("kept", tool.run, "kept"))
        await run.step("barrier", barrier.run)
        if version[0] == 2:
            results.append(await run.step("new", tool.run, "new"))
        return results

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await barrier.entered.wait()
    version[0] = 2
    barrier.may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == ["kept", "new"]
    assert [one[0] for one in tool.begun] == ["old", "kept", "new"]
