"""A session whose agent has changed since: it goes on, asks first, or is refused, as the agent says."""

from typing import Any

import pytest

import midcourse
from midcourse.runtime.agents import OnNewVersion
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


def _agent(tool: Tool, version: str, on_new_version: OnNewVersion = "go_on") -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("work", tool.run, "x"), version]

    return resumable(agent, version=version, on_new_version=on_new_version)


async def _begun_under_version_1(place: Place, tool: Tool) -> None:
    async with place.open(_agent(tool, "1"), grace=0) as mc:
        await mc.start(_agent(tool, "1"), session_id="s")
        await tool.entered.wait()
    tool.may_end.set()


async def test_by_default_a_session_goes_on_under_the_new_version_and_says_so(place: Place) -> None:
    """Once: the version it goes on under is the session's from then on."""
    tool = Tool(holds=True)
    await _begun_under_version_1(place, tool)
    async with place.open(_agent(tool, "2")) as mc:
        session = await mc.get("s")
        assert await session.result() == ["x", "2"]
        changed = [one.event for one in await history(session) if isinstance(one.event, midcourse.events.AgentChanged)]
        assert [(event.before, event.now) for event in changed] == [("1", "2")]
        assert (await session.state()).agent_version == "2"
        await session.redirect("again")
        await session.result()
        assert types(await history(session)).count("agent.changed") == 1


async def test_an_agent_that_asks_goes_on_when_a_person_agrees(place: Place) -> None:
    """Nothing of the new code runs before."""
    tool = Tool(holds=True)
    await _begun_under_version_1(place, tool)
    async with place.open(_agent(tool, "2", "ask")) as mc:
        session = await mc.get("s")
        await until(session, "ask.opened")
        [ask] = (await session.state()).asks
        assert (ask.reason, ask.prompt) == (
            "agent_changed",
            "Agent 'agent' began as version 1, and it is now 2. Go on?",
        )
        assert len(tool.begun) == 1
        await session.answer("yes")
        assert await session.result() == ["x", "2"]


async def test_an_agent_that_asks_fails_when_a_person_does_not_agree_and_the_old_code_can_go_on(place: Place) -> None:
    """The sentence says what to do; nothing of the session is lost."""
    tool = Tool(holds=True)
    await _begun_under_version_1(place, tool)
    async with place.open(_agent(tool, "2", "ask")) as mc:
        session = await mc.get("s")
        await until(session, "ask.opened")
        await session.answer("no")
        with pytest.raises(midcourse.SessionEnded, match="Run it with the old code, or start a new session") as ended:
            await session.result()
        assert ended.value.code == "agent_changed"
    async with place.open(_agent(tool, "1")) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == ["x", "1"]


async def test_an_agent_that_refuses_never_runs_under_another_version(place: Place) -> None:
    """Resumed with the old code, the session goes on."""
    tool = Tool(holds=True)
    await _begun_under_version_1(place, tool)
    async with place.open(_agent(tool, "2", "refuse")) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match="began under agent 'agent' version 1, and it is now 2"):
            await session.result()
        assert len(tool.begun) == 1
    async with place.open(_agent(tool, "1", "refuse")) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == ["x", "1"]


async def test_the_question_is_still_open_when_the_store_is_opened_again(place: Place) -> None:
    """It is asked once, and the answer counts for whoever comes next."""
    tool = Tool(holds=True)
    await _begun_under_version_1(place, tool)
    asking = _agent(tool, "2", "ask")
    async with place.open(asking) as mc:
        await until_status(await mc.get("s"), "waiting")
    async with place.open(asking) as mc:
        session = await mc.get("s")
        assert len((await session.state()).asks) == 1
        await session.answer("yes")
        assert await session.result() == ["x", "2"]
        assert types(await history(session)).count("ask.opened") == 1
