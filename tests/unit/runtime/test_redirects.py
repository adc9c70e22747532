"""A redirect is what the agent's model sees next, and closes what was in flight only if somebody said so."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.events import Level
from midcourse.core.ids import CommandId
from tests.promises.harness import NEVER, Place, Tool, history, resumable, turns, types, until, until_status


@pytest.mark.parametrize("level", ["step", "goal", "clarify"])
async def test_the_agent_sees_the_message_after_the_step_in_flight_and_the_goal_changes_only_at_its_level(
    place: Place, level: Level
) -> None:
    """Without a grace the call in flight finishes, once, and its result stands."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        before = run.goal
        await run.step("work", tool.run, before)
        return [before, run.goal, [(message.text, message.level) for message in run.messages]]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "paint")
        await tool.entered.wait()
        reply = await session.redirect("sing", level=level)
        assert [call.name for call in reply.running] == ["work"]
        tool.may_end.set()
        goal = "sing" if level == "goal" else "paint"
        assert await session.result() == ["paint", goal, [["paint", "goal"], ["sing", level]]]
        assert tool.begun == [("paint",)]
        assert (await session.state()).goal == goal


async def test_with_a_grace_the_step_in_flight_is_aborted_and_done_again(place: Place) -> None:
    """``on_redirect="again"``: the agent notices nothing but the message."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("work", tool.run, "x"), run.messages[-1].text]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "go")
        await tool.entered.wait()
        tool.entered.clear()
        await session.redirect("hurry", grace=0)
        await until(session, "step.aborted")
        await tool.entered.wait()
        tool.may_end.set()
        assert await session.result() == ["x", "hurry"]
        assert (len(tool.begun), len(tool.ended)) == (2, 1)


async def test_the_grace_of_a_redirect_is_the_time_a_step_in_flight_has(place: Place) -> None:
    """A second one cannot lengthen it: the step is aborted when the first grace is over."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run, "x"))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        await session.redirect("hurry", grace=0.05)
        aborted = await until(session, "step.aborted")
        redirected = next(one for one in await history(session) if one.type == "session.redirected")
        assert aborted.at - redirected.at >= 0.05
        tool.may_end.set()
        assert await session.result() == "x"


async def test_an_agent_that_wants_to_be_told_gets_the_redirect_instead_of_the_steps_result(place: Place) -> None:
    """The step is closed for good, with the truth about it, and a replay takes the same path."""
    tool, other = Tool(holds=True), Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("work", tool.run, "x", on_redirect="raise")
        except midcourse.Redirected as told:
            return await run.step("other", other.run, f"{told.level}: {told.instruction}")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await tool.entered.wait()
        await session.redirect("elsewhere", level="clarify", grace=0)
        closed = (await until(session, "step.closed")).event
        assert isinstance(closed, midcourse.events.StepClosed)
        assert closed.truth == "interrupted by a redirect; it may have happened"
        await other.entered.wait()
        other.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.result() == "clarify: elsewhere"
        assert types(await history(session)).count("step.closed") == 1
    assert (len(tool.begun), len(other.ended)) == (1, 1)


async def test_a_step_that_finishes_although_a_redirect_came_keeps_its_result(place: Place) -> None:
    """Being told is for a step that was closed; one that finished is finished."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, "x", on_redirect="raise")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        await session.redirect("elsewhere")
        tool.may_end.set()
        assert await session.result() == "x"


class _Model:
    """Says what the newest message is, word by word, and stays at its end until it may go."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_end = asyncio.Event()

    async def speak(self, run: midcourse.Run) -> AsyncIterator[str]:
        """What a stream calls."""
        self.calls += 1
        for word in ("On", " ", run.messages[-1].text):
            yield word
        await self.may_end.wait()


async def _until_said(session: midcourse.SessionHandle[object], text: str) -> None:
    said = ""
    async for one in session.watch(deltas=True):
        seen = one if isinstance(one, midcourse.Delta) else one.event
        if isinstance(seen, midcourse.Delta | midcourse.events.SegmentWritten):
            said = said[: seen.offset] + seen.text
        if said == text:
            return


async def test_a_redirect_cuts_a_stream_at_once_and_it_is_called_again_with_the_message(place: Place) -> None:
    """The text of the cut call is superseded by the text of the next."""
    model = _Model()
    agent = resumable(lambda run: run.stream("speak", model.speak, run))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "roses")
        await _until_said(session, "On roses")
        await session.redirect("tulips")
        await until(session, "step.cut")
        model.may_end.set()
        assert await session.result() == "On tulips"
        assert model.calls == 2
        texts = [
            one.event.text for one in await history(session) if isinstance(one.event, midcourse.events.SegmentWritten)
        ]
        assert texts == ["On roses", "On tulips"]


async def test_a_stream_that_wants_to_be_told_gives_the_text_so_far_with_the_redirect(place: Place) -> None:
    """It is not called again, now or on a replay."""
    model, last = _Model(), Tool(holds=True)
    told: list[tuple[str, str]] = []

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.stream("speak", model.speak, run, on_redirect="raise")
        except midcourse.Redirected as redirected:
            told.append((redirected.instruction, redirected.partial))
        return await run.step("last", last.run, "end")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, "roses", session_id="s")
        await _until_said(session, "On roses")
        await session.redirect("tulips")
        await last.entered.wait()
        last.may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "end"
    assert model.calls == 1
    assert set(told) == {("tulips", "On roses")}


async def test_a_redirect_supersedes_an_open_ask_which_is_asked_again_under_another_id(place: Place) -> None:
    """The old question cannot be answered any more; the new one can."""
    agent = resumable(lambda run: run.ask("Red?"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "paint")
        await until_status(session, "waiting")
        await session.redirect("use blue")
        await until(session, "ask.opened", times=2)
        with pytest.raises(midcourse.Refused) as refused:
            await session.answer("yes", ask="ask_1")
        assert refused.value.code == "already_answered"
        await session.answer("no", ask="ask_2")
        assert await session.result() == "no"


async def test_an_ask_that_wants_to_be_told_raises_the_redirect(place: Place) -> None:
    """And a replay raises it again, with the same words, although another redirect came since."""
    last = Tool(holds=True)
    told: list[str] = []

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.ask("Red?", on_redirect="raise")
        except midcourse.Redirected as redirected:
            told.append(redirected.instruction)
            return await run.step("last", last.run, redirected.instruction)

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, "paint", session_id="s")
        await until_status(session, "waiting")
        await session.redirect("use blue")
        await last.entered.wait()
        await session.pause(grace=0, until="stopped")
        await session.redirect("and hurry")
        last.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == "use blue"
    assert set(told) == {"use blue"}


@pytest.mark.parametrize("kind", ["warm", "cold"])
async def test_a_paused_session_keeps_a_redirect_for_later(place: Place, kind: Literal["warm", "cold"]) -> None:
    """It stays paused, and nothing begins; the message is seen after the resume."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        await run.step("work", tool.run)
        return run.messages[-1].text

    one = resumable(agent)
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, park_after=0 if kind == "cold" else NEVER)
    async with place.open(one, settings=settings) as mc:
        session = await mc.start(one, "go")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        if kind == "cold":
            await until(session, "session.parked")
        tool.may_end.set()
        reply = await session.redirect("elsewhere")
        assert reply.status == "paused"
        await turns(50)
        assert len(tool.begun) == 1
        await session.resume()
        assert await session.result() == "elsewhere"


async def test_a_redirect_with_resume_lifts_the_pause_with_the_message(place: Place) -> None:
    """In one command: nothing of the session runs without having the message before it."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        await run.step("work", tool.run)
        return run.messages[-1].text

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "go")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        tool.may_end.set()
        reply = await session.redirect("elsewhere", resume=True)
        assert reply.status == "running"
        assert await session.result() == "elsewhere"
        with pytest.raises(midcourse.Refused) as refused:
            await session.resume(reply.pause or "pause_1")
        assert refused.value.code == "session_ended"


async def test_a_redirect_while_pausing_does_not_hurry_the_pause(place: Place) -> None:
    """The call in flight may finish; the message is there after the resume."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        await run.step("work", tool.run)
        return run.messages[-1].text

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "go")
        await tool.entered.wait()
        await session.pause()
        reply = await session.redirect("elsewhere")
        assert reply.status == "pausing"
        tool.may_end.set()
        await until_status(session, "paused")
        await session.resume()
        assert await session.result() == "elsewhere"
        assert len(tool.begun) == 1


async def test_a_command_is_decided_after_what_was_put_before_it_unheard(place: Place) -> None:
    """A process that dies behind its write wakes nobody: what it wished is decided all the same, and first."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run, "x"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await tool.entered.wait()
        await session.redirect("one")
        other = await place.store()
        unheard = cmd.Redirect(id=CommandId("unheard"), text="two")
        await other.put(session.id, unheard.id, cmd.encode_command(unheard), 1.0)
        await session.redirect("three")
        assert [message.text for message in (await session.state()).messages] == ["go", "one", "two", "three"]
        tool.may_end.set()
        await session.result()
