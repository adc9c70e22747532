"""An agent that makes no ``run.*`` call for long is named, because it cannot be paused there."""

import asyncio

import pytest

import midcourse
from midcourse.runtime.settings import Settings
from tests.promises.harness import Place, Tool, history, resumable, types, until

pytestmark = pytest.mark.fake_time
ALERT = Settings(poll=0.02, unreachable_after=30.0, silent_after=0.05)


async def test_an_agent_in_its_own_code_is_named_once_per_silence(place: Place) -> None:
    """With what to do about it. A call of ``run`` ends the silence; the next one is named again."""
    gates = [asyncio.Event(), asyncio.Event()]

    async def agent(run: midcourse.Run) -> str:
        await gates[0].wait()
        run.report("still here")
        await gates[1].wait()
        return "done"

    async with place.open(resumable(agent), settings=ALERT) as mc:
        session = await mc.start(resumable(agent))
        silent = (await until(session, "agent.silent")).event
        assert isinstance(silent, midcourse.events.AgentSilent)
        assert silent.seconds >= 0.05
        assert silent.advice == "cannot be paused here; wrap this call in run.step"
        gates[0].set()
        told = await until(session, "report.made")
        await until(session, "agent.silent", after=told.position)
        gates[1].set()
        assert await session.result() == "done"
        assert types(await history(session)).count("agent.silent") == 2


async def test_an_agent_in_a_step_or_at_an_ask_is_not_silent(place: Place) -> None:
    """It can be paused there. A third one, in its own code, is named meanwhile: twice as long, to be sure."""
    tool = Tool(holds=True)
    gate = asyncio.Event()

    async def agent(run: midcourse.Run) -> object:
        match run.goal:
            case "step":
                return await run.step("work", tool.run, "worked")
            case "ask":
                return await run.ask("Go?")
            case _:
                await gate.wait()
                return run.goal

    async with place.open(resumable(agent), settings=ALERT) as mc:
        stepping = await mc.start(resumable(agent), "step")
        asking = await mc.start(resumable(agent), "ask")
        await tool.entered.wait()
        await until(asking, "session.waiting")
        for goal in ("silent", "silent too"):
            await until(await mc.start(resumable(agent), goal), "agent.silent")
        for session in (stepping, asking):
            assert "agent.silent" not in types(await history(session))
        gate.set()
        tool.may_end.set()
        await asking.answer("yes")
        assert [await one.result() for one in (stepping, asking)] == ["worked", "yes"]


async def test_a_pause_of_a_silent_agent_names_its_own_code_as_still_running(place: Place) -> None:
    """It is not called paused until it comes to a call of ``run``."""
    gate = asyncio.Event()
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        await gate.wait()
        return await run.step("work", tool.run, "x")

    async with place.open(resumable(agent), settings=ALERT) as mc:
        session = await mc.start(resumable(agent))
        await until(session, "agent.silent")
        reply = await session.pause()
        assert (reply.level, [call.name for call in reply.running]) == ("stopping", ["the agent's own code"])
        gate.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        assert tool.begun == []
        await session.resume()
        assert await session.result() == "x"
