"""Promise 11: a child that had ended and that a person has work again is reached by the stops above it."""

from typing import Any

import pytest

import midcourse
from midcourse.handle import Midcourse, SessionHandle
from tests.promises.harness import Place, Tool, resumable, until_status, until_true

Family = list[midcourse.Agent[object]]


def _family(depth: int, top: Tool, below: Tool) -> Family:
    """A parent that works on after its child has ended; between them, ``depth - 1`` that end with their child."""

    async def child(run: midcourse.Run) -> object:
        if run.turn == 1:
            return "done"
        return await run.step("more", below.run, run.turn)

    agents: Family = [resumable(child, name="kid")]
    for level in range(1, depth):
        one = agents[-1]
        agents.append(resumable(lambda run, one=one: run.spawn(one, "a part"), name=f"middle{level}"))
    last = agents[-1]

    async def parent(run: midcourse.Run) -> object:
        await run.spawn(last, "a part")
        return await run.step("own", top.run, "own")

    return [*agents, resumable(parent, name="parent")]


async def _reopened(
    mc: Midcourse, agents: Family, top: Tool, below: Tool
) -> tuple[SessionHandle[Any], SessionHandle[Any]]:
    parent = await mc.start(agents[-1], "go")
    await top.entered.wait()
    heads = [head for head in await mc.list() if head.agent == "kid"]
    child = await mc.get(heads[0].id)
    assert await child.status() == "completed"
    await child.message("one thing more")
    await below.entered.wait()
    return parent, child


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_pause_reaches_a_reopened_child_and_its_resume_lifts_it(depth: int, place: Place) -> None:
    """Also below a middle one that has ended: nobody but the parent could pass the stop on to it."""
    top, below = Tool(holds=True), Tool(holds=True)
    agents = _family(depth, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        reply = await parent.pause(grace=0, until="stopped")
        assert (reply.level, reply.running) == ("stopped", ())
        assert await child.status() == "paused"
        begun = len(below.begun)
        top.may_end.set()
        below.may_end.set()
        await parent.resume()
        assert await child.result() == 2
        assert len(below.begun) == begun + 1
        assert await parent.result() == "own"


async def test_a_pause_of_a_person_stays_on_a_reopened_child_when_the_parent_is_resumed(place: Place) -> None:
    top, below = Tool(holds=True), Tool(holds=True)
    agents = _family(1, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        await child.pause(grace=0, until="stopped", by="ada")
        await parent.pause(grace=0, until="stopped")
        top.may_end.set()
        below.may_end.set()
        await parent.resume()
        assert await parent.result() == "own"
        assert await child.status() == "paused"
        await child.resume(by="ada")
        assert await child.result() == 2


async def test_a_reopened_child_is_released_by_a_cold_resume_of_its_parent(place: Place) -> None:
    top, below = Tool(holds=True), Tool(holds=True)
    agents = _family(1, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        await parent.pause(grace=0, until="stopped")
    top.may_end.set()
    below.may_end.set()
    async with place.open(*agents) as mc:
        assert await (await mc.get(child.id)).status() == "paused"
        await (await mc.get(parent.id)).resume()
        assert await (await mc.get(child.id)).result() == 2
        assert await (await mc.get(parent.id)).result() == "own"


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_cancel_reaches_a_reopened_child(depth: int, place: Place) -> None:
    top, below = Tool(holds=True), Tool(holds=True)
    agents = _family(depth, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        await parent.cancel(grace=0, until="stopped")
        assert await child.status() == "cancelled"
        assert len(below.ended) == 0


async def test_below_a_parent_that_has_ended_a_reopened_child_is_a_session_of_its_own(place: Place) -> None:
    """Its parent can be stopped no more; people stop the child itself."""
    top, below = Tool(), Tool(holds=True)
    agents = _family(1, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        assert await parent.result() == "own"
        with pytest.raises(midcourse.Refused) as refused:
            await parent.pause()
        assert refused.value.code == "session_ended"
        assert await child.status() == "running"
        below.may_end.set()
        assert await child.result() == 2


async def test_what_a_person_has_work_again_under_a_paused_parent_works(place: Place) -> None:
    """They said so after the stop; it reaches what worked when it came."""
    top, below = Tool(holds=True), Tool()
    agents = _family(1, top, below)
    async with place.open(*agents) as mc:
        parent = await mc.start(agents[-1], "go")
        await top.entered.wait()
        await parent.pause(grace=0, until="stopped")
        [head] = [head for head in await mc.list() if head.agent == "kid"]
        child = await mc.get(head.id)
        await child.message("one thing more")
        await until_true(lambda: bool(below.begun))
        assert await child.result() == 2
        assert await until_status(parent, "paused") == "paused"


async def test_a_second_pause_reaches_a_reopened_child_that_was_resumed_by_itself(place: Place) -> None:
    """``stopped`` is said only once nothing below runs, whatever a person resumed since the first pause."""
    top, below = Tool(holds=True), Tool(holds=True)
    agents = _family(1, top, below)
    async with place.open(*agents) as mc:
        parent, child = await _reopened(mc, agents, top, below)
        await parent.pause(grace=0, until="stopped")
        below.entered.clear()
        await child.resume()
        await below.entered.wait()
        reply = await parent.pause("stop it all", grace=0, until="stopped")
        assert (reply.level, reply.running, await child.status()) == ("stopped", (), "paused")
        top.may_end.set()
        below.may_end.set()
        await parent.resume()
        assert await child.result() == 2
