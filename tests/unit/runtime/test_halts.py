"""The kill switch at the level of one session: halt and lift, an operator's commands."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

import midcourse
from midcourse.core.commands import AnyCommand, Cancel, Halt, Lift, Resume
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.replies import Level
from midcourse.runtime.control import Control
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


def _id(name: str) -> CommandId:
    return CommandId(name)


class Operator:
    """Who may halt and lift."""

    def __init__(self, mc: midcourse.Midcourse) -> None:
        self._control: Control = mc._control  # noqa: SLF001 - the API of the kill switch comes later  # pyright: ignore[reportPrivateUsage]

    async def send(self, session: str, command: AnyCommand, until: Level = "stopping") -> midcourse.Reply:
        """A command with whatever role it says it has."""
        return await self._control.send(SessionId(session), command, until=until, wait=10.0)

    async def halt(self, session: str, name: str = "halt", until: Level = "stopping") -> midcourse.Reply:
        """Halt, as an operator."""
        return await self.send(session, Halt(id=_id(name), role="operate", by="ops", reason="incident"), until)

    async def lift(self, session: str, name: str = "lift") -> midcourse.Reply:
        """Lift, as an operator."""
        return await self.send(session, Lift(id=_id(name), role="operate", by="ops"), "decided")


async def test_a_halt_aborts_at_grace_zero_and_a_lift_goes_on(place: Place) -> None:
    """Like a pause with grace 0: what ran is aborted and done again; what was finished stays."""
    done, running = Tool(), Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("done", done.run, 1), await run.step("running", running.run, 2)]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), session_id="s")
        await running.entered.wait()
        operator = Operator(mc)
        reply = await operator.halt("s", until="stopped")
        assert (reply.level, reply.status) == ("stopped", "halted")
        assert running.ended == []
        await until(session, "step.aborted")
        running.may_end.set()
        assert (await operator.lift("s")).status == "running"
        assert await session.result() == [1, 2]
        assert (len(done.begun), len(running.begun)) == (1, 2)


async def test_a_halt_cuts_a_stream_and_keeps_its_text(place: Place) -> None:
    """No token after it, and what was said is a segment."""
    speaking = asyncio.Event()

    async def model() -> AsyncIterator[str]:
        if midcourse.current_call().attempt == 1:
            yield "Once"
            speaking.set()
            await asyncio.Event().wait()
        yield "Again"

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await speaking.wait()
        await Operator(mc).halt("s", until="stopped")
        story = types(await history(session))
        assert story.index("segment.written") < story.index("session.halted")
        await Operator(mc).lift("s")
        assert await session.result() == "Again"


async def test_a_halt_is_stopping_until_nothing_lives(place: Place) -> None:
    """A thread cannot be aborted: the answer lists it, and never says stopped before it is."""
    entered, may_end = threading.Event(), threading.Event()

    def body() -> str:
        entered.set()
        may_end.wait()
        return "done"

    one = resumable(lambda run: run.step("compute", body))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await asyncio.to_thread(entered.wait)
        operator = Operator(mc)
        try:
            reply = await operator.halt("s")
            assert (reply.level, [call.name for call in reply.running]) == ("stopping", ["compute"])
        finally:
            may_end.set()
        await until(session, "step.finished")
        assert (await operator.halt("s", "again", until="stopped")).level == "stopped"
        await operator.lift("s")
        assert await session.result() == "done"


@pytest.mark.parametrize("before", ["queued", "paused", "waiting", "pausing", "cancelling"])
async def test_a_halt_remembers_where_the_session_came_from(place: Place, before: str) -> None:
    """Lifted, it is back there: paused stays paused, waiting waits, and from cancelling it goes on cancelling."""
    entered, may_end = threading.Event(), threading.Event()

    def stubborn() -> str:
        entered.set()
        may_end.wait()
        return "done"

    async def agent(run: midcourse.Run) -> object:
        if before in ("pausing", "cancelling"):
            return await run.step("stubborn", stubborn)
        return await run.ask("Well?")

    one = resumable(agent)
    async with place.open(one, drive=before != "queued") as mc:
        session, operator = await mc.start(one, session_id="s"), Operator(mc)
        if before in ("pausing", "cancelling"):
            await asyncio.to_thread(entered.wait)
            await (session.pause() if before == "pausing" else session.cancel(grace=3600))
        elif before != "queued":
            await until_status(session, "waiting")
            if before == "paused":
                await session.pause()
        assert await session.status() == before
        await operator.halt("s")
        assert await session.status() == "halted"
        assert (await session.state()).halted_from == before
        may_end.set()
        reply = await operator.lift("s")
        assert reply.status == before
        end = {"pausing": "paused", "cancelling": "cancelled"}.get(before, before)
        assert await until_status(session, end) == end


async def test_only_an_operator_halts_lifts_resumes_and_cancels_a_halted_session(place: Place) -> None:
    """Whoever may steer cannot undo the kill switch by another door."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run))
    async with place.open(one) as mc:
        session, operator = await mc.start(one, session_id="s"), Operator(mc)
        await tool.entered.wait()
        with pytest.raises(midcourse.Refused) as refused:
            await operator.send("s", Halt(id=_id("h"), role="steer"))
        assert refused.value.code == "operator_only"
        await operator.halt("s", until="stopped")
        for command in (
            Lift(id=_id("l"), role="steer"),
            Resume(id=_id("r"), role="steer"),
            Cancel(id=_id("c"), role="steer"),
        ):
            with pytest.raises(midcourse.Refused) as refused:
                await operator.send("s", command)
            assert refused.value.code == "operator_only"
        for attempt in (session.pause(), session.redirect("left")):
            with pytest.raises(midcourse.Refused) as refused:
                await attempt
            assert refused.value.code == "not_allowed"
        assert await session.status() == "halted"
        assert (await operator.send("s", Cancel(id=_id("c2"), role="operate"), "stopped")).status == "cancelled"


async def test_an_answer_to_a_halted_session_is_recorded_and_used_after_the_lift(place: Place) -> None:
    """Asks stay answerable."""
    one = resumable(lambda run: run.ask("Well?"))
    async with place.open(one) as mc:
        session, operator = await mc.start(one, session_id="s"), Operator(mc)
        await until_status(session, "waiting")
        await operator.halt("s", until="stopped")
        await session.answer("yes")
        assert await session.status() == "halted"
        await operator.lift("s")
        assert await session.result() == "yes"


async def test_an_agent_that_fails_while_it_is_halted_fails_once_the_halt_is_lifted(place: Place) -> None:
    """Halted stays halted, whatever its own code does meanwhile."""
    entered, may_end = threading.Event(), threading.Event()

    def body() -> None:
        entered.set()
        may_end.wait()
        raise ValueError("broken")

    one = resumable(lambda run: run.step("compute", body))
    async with place.open(one) as mc:
        session, operator = await mc.start(one, session_id="s"), Operator(mc)
        await asyncio.to_thread(entered.wait)
        await operator.halt("s")
        may_end.set()
        await until(session, "step.failed")
        assert await session.status() == "halted"
        await operator.lift("s")
        with pytest.raises(midcourse.SessionEnded, match="broken"):
            await session.result()


async def test_a_halt_survives_the_program_and_nothing_goes_on_by_itself(place: Place) -> None:
    """Opened again, the session is still halted; an operator lifts it there."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run, "done"))
    async with place.open(one) as mc:
        await mc.start(one, session_id="s")
        await tool.entered.wait()
        await Operator(mc).halt("s", until="stopped")
    tool.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.status() == "halted"
        assert len(tool.begun) == 1
        await Operator(mc).lift("s")
        assert await session.result() == "done"
