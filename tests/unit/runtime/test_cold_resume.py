"""Two ways of starting again in another process: at the top with the journal's results, or from the saved state."""

import asyncio

import pytest

import midcourse
from tests.promises.harness import Place, Tool, history, resumable, types, until_status


async def test_a_replay_agent_starts_at_its_top_and_finished_steps_return_their_results(place: Place) -> None:
    """Only what has no result runs."""
    tools = {name: Tool(holds=name == "c") for name in "abcd"}
    seen: list[list[object]] = []

    async def agent(run: midcourse.Run) -> list[object]:
        results: list[object] = []
        seen.append(results)
        for name, tool in tools.items():
            results.append(await run.step(name, tool.run, name))
        return results

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await tools["c"].entered.wait()
    tools["c"].may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == list("abcd")
    assert seen == [["a", "b"], list("abcd")]
    assert [len(tool.begun) for tool in tools.values()] == [1, 1, 2, 1]


async def test_a_state_agent_starts_from_its_last_checkpoint(place: Place) -> None:
    """With `run.state` as it was there; steps since then have their results, earlier ones are not even asked for."""
    tool, barrier, starts = Tool(), Tool(holds=True), list[object]()

    async def agent(run: midcourse.Run) -> list[object]:
        run.state.setdefault("done", [])
        starts.append(list(run.state["done"]))
        while len(run.state["done"]) < 6:
            number = len(run.state["done"])
            result = await run.step("work", tool.run, number)
            if number == 3:
                await run.step("barrier", barrier.run)
            run.state["done"].append(result)
            await run.checkpoint()
        return run.state["done"]

    one = resumable(agent, mode="state")
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await barrier.entered.wait()
    barrier.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.result() == list(range(6))
        assert types(await history(session)).count("checkpoint.taken") == 6
    assert starts == [[], [0, 1, 2]]
    assert tool.begun == [(number,) for number in range(6)]


async def test_a_checkpoint_opens_a_scope_so_that_the_same_step_is_a_new_one(place: Place) -> None:
    """Steps before and after it have names of their own, although the agent calls them alike."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> None:
        for number in range(3):
            await run.step("work", tool.run, number)
            await run.checkpoint()

    async with place.open(resumable(agent, mode="state")) as mc:
        session = await mc.start(resumable(agent, mode="state"))
        await session.result()
        begun = [getattr(event.event, "step", "") for event in await history(session) if event.type == "step.begun"]
        assert begun == ["1/work#1", "1.1/work#1", "1.2/work#1"]


async def test_a_checkpoint_is_for_state_agents_and_between_steps(place: Place) -> None:
    """The sentences say why."""
    tool, codes = Tool(holds=True), list[str]()

    async def replay(run: midcourse.Run) -> None:
        try:
            await run.checkpoint()
        except midcourse.MisusedRun as error:
            codes.append(error.code)

    async def in_flight(run: midcourse.Run) -> None:
        running = asyncio.create_task(run.step("slow", tool.run))
        await tool.entered.wait()
        try:
            await run.checkpoint()
        except midcourse.MisusedRun as error:
            codes.append(error.code)
        # A step nobody waits for any more is in flight all the same.
        running.cancel()
        await asyncio.sleep(0)
        try:
            await run.checkpoint()
        except midcourse.MisusedRun as error:
            codes.append(error.code)
        tool.may_end.set()

    one, other = resumable(replay, name="replay"), resumable(in_flight, name="state", mode="state")
    async with place.open(one, other) as mc:
        await (await mc.start(one)).result()
        await (await mc.start(other)).result()
    assert codes == ["not_a_state_agent", "steps_in_flight", "steps_in_flight"]


async def test_state_that_cannot_be_encoded_is_refused_at_the_checkpoint_and_the_last_good_one_stands(
    place: Place,
) -> None:
    """The sentence names where in the state the trouble is."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> None:
        run.state = {"good": 1}
        await run.checkpoint()
        run.state["lock"] = [object()]
        await run.checkpoint()

    one = resumable(agent, mode="state")
    async with place.open(one) as mc:
        session = await mc.start(one)
        with pytest.raises(midcourse.SessionEnded, match=r"run.state cannot be journaled: \['lock'\]\[0\]") as ended:
            await session.result()
        assert ended.value.code == "unencodable"
        assert (await session.inspect()).state == {"good": 1}
        assert tool.begun == []


async def test_a_session_paused_by_a_program_that_is_gone_is_resumed_by_another(place: Place) -> None:
    """The pause is in the journal; who lifts it need not be who set it."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run, "done"))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
    tool.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.status() == "paused"
        await session.resume()
        assert await session.result() == "done"


async def test_a_looker_on_may_resume_and_a_driver_goes_on(place: Place) -> None:
    """A program that only steers decides the command; one that has the agent runs it, by itself."""
    tool = Tool()
    one = resumable(lambda run: run.step("work", tool.run, "done"))
    async with place.open(one, drive=False) as steering:
        session = await steering.start(one, session_id="s")
        await session.pause()
        async with place.open(one):
            await session.resume()
            assert await session.result() == "done"
            assert await until_status(session, "completed") == "completed"
