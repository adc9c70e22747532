"""Agents by name: found, missing, closures of a process that is gone, and functions that cannot be one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

import midcourse
from midcourse.runtime.agents import registered
from tests.promises.harness import Place, Tool, history, resumable, types, until_status


@midcourse.agent(name="greeter of test_agents", version="7")
async def greeter(run: midcourse.Run) -> str:
    """An agent of a module: any process that imports it can go on with its sessions."""
    return f"Hello, {run.goal}"


def _working(tool: Tool, name: str = "agent") -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, name)

    return resumable(agent, name=name)


def _closure(tool: Tool) -> midcourse.Agent[Any]:
    return replace(_working(tool), resumable=False)


def test_an_agent_of_a_module_is_resumable_and_a_closure_is_not() -> None:
    """A closure lives in its process alone."""

    @midcourse.agent(name="closure of test_agents")
    async def closure(run: midcourse.Run) -> str:
        return run.goal

    assert (greeter.name, greeter.version, greeter.resumable) == ("greeter of test_agents", "7", True)
    assert greeter.origin.endswith(":greeter")
    assert not closure.resumable
    assert registered()["closure of test_agents"].version == closure.version
    assert len(closure.version) == 12


def test_an_agent_is_described_by_its_docstring_or_by_what_it_declares_and_names_example_goals() -> None:
    """For people who choose one."""

    @midcourse.agent(name="documented of test_agents")
    async def documented(run: midcourse.Run) -> str:
        """Write a memo
        about churn.

        How it does that is told further down.
        """
        return run.goal

    @midcourse.agent(name="declared of test_agents", description="Says hello.", goals=["Greet Ada", "Greet all"])
    async def declared(run: midcourse.Run) -> str:
        """Not this."""
        return run.goal

    assert (documented.description, documented.goals) == ("Write a memo about churn.", ())
    assert (declared.description, declared.goals) == ("Says hello.", ("Greet Ada", "Greet all"))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("goals", {"goals": "Greet Ada"}),
        ("goals", {"goals": [""]}),
        ("goals", {"goals": ["Greet"] * 21}),
        ("goals", {"goals": [7]}),
        ("description", {"description": "x" * 2001}),
        ("description", {"description": 7}),
    ],
)
def test_a_description_or_examples_that_no_list_could_show_are_refused(field: str, wrong: dict[str, Any]) -> None:
    """One text as goals would be a goal for each letter."""

    async def agent(run: midcourse.Run) -> str:
        return run.goal

    with pytest.raises(midcourse.InvalidInput) as error:
        midcourse.agent(name="undescribed of test_agents", **wrong)(agent)
    assert error.value.fields["field"] == field
    assert "undescribed of test_agents" not in registered()


def _not_async(run: midcourse.Run) -> str:
    return run.goal


@pytest.mark.parametrize("wrong", [_not_async, print, str])
def test_a_function_that_is_not_async_is_refused(wrong: Callable[..., Any]) -> None:
    """With the form it should have."""
    with pytest.raises(midcourse.InvalidInput, match="is not an async function. An agent is 'async def agent") as error:
        midcourse.agent(wrong)
    assert error.value.code == "invalid_input"


async def test_an_agent_is_started_by_name_where_it_is_registered(place: Place) -> None:
    """Elsewhere the sentence says what to import, and what there is."""
    async with place.open(cast("midcourse.Agent[Any]", greeter)) as mc:
        assert await (await mc.start("greeter of test_agents", "you")).result() == "Hello, you"
        with pytest.raises(midcourse.AgentUnavailable, match="must be imported first. Registered: greeter"):
            await mc.start("nobody")
    async with place.open() as mc:
        with pytest.raises(midcourse.AgentUnavailable, match="Registered: none") as error:
            await mc.start("nobody")
        assert error.value.code == "agent_unavailable"
        assert [head.status for head in await mc.list()] == ["completed"]


async def test_the_agent_that_is_given_runs_although_another_one_has_its_name(place: Place) -> None:
    """Two closures of one name are two agents."""

    def named(answer: str) -> midcourse.Agent[str]:
        async def agent(_run: midcourse.Run) -> str:
            return answer

        return replace(resumable(agent), resumable=False)

    async with place.open(named("registered")) as mc:
        assert await (await mc.start(named("given"))).result() == "given"


async def test_an_agent_that_is_given_need_not_be_registered(place: Place) -> None:
    """Whoever starts it has it."""
    tool = Tool()
    async with place.open() as mc:
        assert await (await mc.start(_working(tool))).result() == "agent"


async def test_a_paused_closure_is_not_resumed_elsewhere_and_nothing_is_lost(place: Place) -> None:
    """The resume is refused with a sentence that says why; the session stays as it is."""
    tool = Tool(holds=True)
    async with place.open(_closure(tool)) as mc:
        session = await mc.start(_closure(tool), session_id="s")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
    async with place.open(_closure(tool)) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.MidcourseError, match="is a closure.*define the agent at the top level") as error:
            await session.resume()
        assert error.value.code == "agent_unavailable"
        assert await session.status() == "paused"
        assert len(tool.begun) == 1
        assert types(await history(session)).count("step.aborted") == 1
        assert (await session.cancel(until="stopped")).status == "cancelled"


async def test_a_running_closure_fails_elsewhere_and_its_history_stays(place: Place) -> None:
    """Nobody could go on with it, so nobody pretends to."""
    tool = Tool(holds=True)
    async with place.open(_closure(tool), grace=0) as mc:
        await mc.start(_closure(tool), session_id="s")
        await tool.entered.wait()
    async with place.open(_closure(tool)) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match="Nothing is lost") as error:
            await session.result()
        assert error.value.code == "agent_unavailable"
        assert "Resume it" not in str(error.value)
        assert len(tool.begun) == 1
        assert types(await history(session)).count("step.begun") == 1


async def test_a_session_whose_agent_is_not_here_is_left_to_a_process_that_has_it(place: Place) -> None:
    """It can be looked at and steered meanwhile."""
    tool = Tool(holds=True)
    agent = _working(tool)
    async with place.open(agent, grace=0) as mc:
        await mc.start(agent, session_id="s")
        await tool.entered.wait()
    other = Tool()
    async with place.open(_working(other, "other")) as mc:
        await (await mc.start("other")).result()  # by its end the sweep has been round
        session = await mc.get("s")
        assert await session.status() == "running"
        await session.pause(until="stopped")
        await session.resume()
        assert await session.status() == "running"
    tool.may_end.set()
    async with place.open(agent) as mc:
        session = await mc.get("s")
        assert await session.result() == "agent"
        assert await until_status(session, "completed") == "completed"
    assert len(tool.ended) == 1
