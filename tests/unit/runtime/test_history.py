"""A session as it was at any position, and a new one that goes on from there."""

from typing import Any

import pytest

import midcourse
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


def _counting(tool: Tool) -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> list[object]:
        run.state.setdefault("done", [])
        run.plan.set("count")
        while len(run.state["done"]) < 3:
            run.state["done"].append(await run.step("count", tool.run, len(run.state["done"])))
            await run.checkpoint()
        return run.state["done"]

    return resumable(agent, mode="state")


async def test_inspect_shows_the_session_as_it_was_at_every_position(place: Place) -> None:
    """Status, steps, open calls and state at each position are what the journal says up to there."""
    tool = Tool()
    agent = _counting(tool)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "three")
        await session.result()
        events = await history(session)
        begun = next(one for one in events if one.type == "step.begun")
        then = await session.inspect(begun.position)
        assert [(step.name, step.outcome) for step in then.steps] == [("count", "running")]
        assert list(then.session.calls) == [then.steps[0].id]
        assert [item.title for item in then.session.plan] == ["count"]
        checkpoints = [one.position for one in events if one.type == "checkpoint.taken"]
        assert [(await session.inspect(at)).state for at in checkpoints] == [
            {"done": [0]},
            {"done": [0, 1]},
            {"done": [0, 1, 2]},
        ]
        for one in events:
            assert (await session.inspect(one.position)).session.position == one.position
        assert (await session.inspect()).session.status == "completed"
        with pytest.raises(midcourse.InvalidInput, match="positions 1 to"):
            await session.inspect(len(events) + 1)


async def test_a_fork_goes_on_from_the_last_checkpoint_in_a_session_of_its_own(place: Place) -> None:
    """What had finished is not done again, and the first session is not touched."""
    tool = Tool()
    agent = _counting(tool)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "three")
        await session.result()
        before = types(await history(session))
        second = next(one for one in await history(session) if one.type == "checkpoint.taken").position
        fork = await session.fork(second)
        assert await fork.result() == [0, 1, 2]
        assert tool.begun == [(0,), (1,), (2,), (1,), (2,)]
        state = await fork.state()
        assert (state.forked_from, state.goal) == (f"{session.id}@{second}", "three")
        again = await session.fork()  # the last checkpoint: nothing is left to do
        assert await again.result() == [0, 1, 2]
        assert len(tool.begun) == 5
        assert types(await history(session)) == before


async def test_a_paused_fork_can_be_redirected_before_it_begins(place: Place) -> None:
    """Not a step of it runs before it is resumed."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> str:
        await run.step("look", tool.run, "then")
        return str(await run.step("say", tool.run, run.messages[-1].text))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "first")
        finished = await until(session, "step.finished")
        assert await session.result() == "first"
        ran = len(tool.begun)
        fork = await session.fork(finished.position, paused=True, session_id="fork")
        assert await until_status(fork, "paused") == "paused"
        await fork.redirect("second")
        assert len(tool.begun) == ran
        await fork.resume()
        assert await fork.result() == "second"
        assert tool.begun[ran:] == [("second",)]
        with pytest.raises(midcourse.StoreError):
            await session.fork(session_id="fork")
