"""A message to an ended session opens a new turn: its own steps, the same conversation, the state of the last."""

from typing import Any

import pytest

import midcourse
from tests.promises.harness import Place, Tool, history, resumable, until


def _speaking(tool: Tool) -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> object:
        return await run.step("say", tool.run, run.messages[-1].text)

    return resumable(agent)


async def test_a_redirect_to_an_ended_session_opens_a_new_turn_with_steps_of_its_own(place: Place) -> None:
    """A step of the same name is another step: neither is the old result given, nor is it a divergence."""
    tool = Tool()
    agent = _speaking(tool)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "one")
        assert await session.result() == "one"
        reply = await session.redirect("two")
        assert reply.status == "running"
        assert await session.result() == "two"
        assert tool.begun == [("one",), ("two",)]
        state = await session.state()
        assert [(message.text, message.turn) for message in state.messages] == [("one", 1), ("two", 2)]
        begun = [one.event for one in await history(session) if isinstance(one.event, midcourse.events.StepBegun)]
        assert [event.step for event in begun] == ["1/say#1", "2/say#1"]


async def test_a_turn_that_is_interrupted_goes_on_and_does_nothing_of_an_earlier_turn_again(place: Place) -> None:
    """The store is reopened in the middle of the second turn."""
    tool, last = Tool(), Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        said = await run.step("say", tool.run, run.messages[-1].text)
        return [said, await run.step("end", last.run, len(run.messages))]

    one = resumable(agent)
    last.may_end.set()
    async with place.open(one) as mc:
        session = await mc.start(one, "one", session_id="s")
        assert await session.result() == ["one", 1]
        last.may_end.clear()
        last.entered.clear()
        await session.redirect("two")
        await last.entered.wait()
        last.may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == ["two", 2]
    assert (tool.begun, last.begun) == ([("one",), ("two",)], [(1,), (2,)])


@pytest.mark.parametrize("mode", ["replay", "state"])
async def test_the_state_at_the_end_of_a_turn_is_the_state_at_the_start_of_the_next(
    place: Place, mode: midcourse.events.Mode
) -> None:
    """Also for a replay agent, which starts each turn, and each replay of it, from there."""
    tool = Tool(holds=True)
    starts: list[object] = []

    async def agent(run: midcourse.Run) -> object:
        starts.append(dict(run.state))
        run.state["turns"] = run.state.get("turns", 0) + 1
        await run.step("work", tool.run)
        return run.state["turns"]

    one = resumable(agent, mode=mode)
    tool.may_end.set()
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        assert await session.result() == 1
        tool.may_end.clear()
        tool.entered.clear()
        await session.redirect("again")
        await tool.entered.wait()
        tool.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.result() == 2
        await session.redirect("and again")
        assert await session.result() == 3
    assert [start for number, start in enumerate(starts) if start not in starts[:number]] == [
        {},
        {"turns": 1},
        {"turns": 2},
    ]


async def test_a_cancelled_and_a_failed_session_begin_a_new_turn_too(place: Place) -> None:
    """With a clean slate: no failure, no receipt, no step left over."""
    tool = Tool(holds=True)

    @midcourse.tool(effect="idempotent", settle=0)
    async def body(text: str) -> object:
        if text == "fail":
            raise ValueError(text)
        return await tool.run(text)

    agent = resumable(lambda run: run.step("say", body, run.messages[-1].text))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "wait")
        await tool.entered.wait()
        await session.cancel(grace=0, until="stopped")
        tool.may_end.set()
        await session.redirect("fail")
        with pytest.raises(midcourse.SessionEnded, match="ValueError"):
            await session.result()
        await session.redirect("well")
        assert await session.result() == "well"
        state = await session.state()
        assert (state.turn, state.failure, state.receipt, state.lost) == (3, None, (), ())


async def test_the_message_of_a_turn_is_a_new_goal_only_if_it_says_so(place: Place) -> None:
    """Otherwise the goal stands, and the message comes after it."""

    async def agent(run: midcourse.Run) -> list[str]:
        return [run.goal, run.messages[-1].text]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "paint")
        await session.result()
        await session.redirect("in red")
        assert await session.result() == ["paint", "in red"]
        await session.redirect("sing", level="goal")
        assert await session.result() == ["sing", "sing"]
        assert (await session.state()).goal == "sing"


async def test_messages_to_an_ended_session_sent_together_make_one_turn(place: Place) -> None:
    """The first opens it, the second redirects it; neither is lost."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[str]:
        await run.step("work", tool.run)
        return [message.text for message in run.messages]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "one")
        tool.may_end.set()
        await session.result()
        tool.may_end.clear()
        tool.entered.clear()
        await session.redirect("two")
        await tool.entered.wait()
        await session.redirect("three")
        tool.may_end.set()
        assert await session.result() == ["one", "two", "three"]
        assert (await session.state()).turn == 2
        await until(session, "session.turn_opened")
