"""Which tool a step's body is, and that looking it up keeps nothing alive."""

import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import midcourse
from midcourse.runtime.journal import Journal
from midcourse.runtime.tools import find_tool, is_of_the_standard_library, tool_of
from tests.promises.harness import Place, history, resumable, until_true


def stands_in_a_module() -> None:
    """A function that declares nothing."""


def test_a_function_of_a_module_is_looked_at_once() -> None:
    assert tool_of(stands_in_a_module) is tool_of(stands_in_a_module)
    assert not tool_of(stands_in_a_module).declared
    assert tool_of(stands_in_a_module).kind == "irreversible"


async def test_a_body_that_holds_its_run_does_not_keep_the_session_in_memory(place: Place) -> None:
    """Agents write such functions in nearly every call of a model."""

    async def model(goal: str) -> AsyncIterator[str]:
        yield goal

    async def agent(run: midcourse.Run) -> str:
        await run.step("think", lambda: len(run.goal))
        return await run.stream("write", lambda: model(run.goal))

    def journals() -> int:
        gc.collect()
        return sum(isinstance(one, Journal) for one in gc.get_objects())

    async with place.open(resumable(agent)) as mc:
        before = journals()
        for _ in range(5):
            session = await mc.start(resumable(agent), "tides")
            assert await session.result() == "tides"
        await until_true(lambda: journals() <= before)


async def test_any_callable_is_a_tool_whether_it_can_be_hashed_or_not(place: Place) -> None:
    """A dataclass that compares by value cannot be."""

    @dataclass
    class Adder:
        one: int

        async def __call__(self, other: int) -> int:
            return self.one + other

    async def agent(run: midcourse.Run) -> int:
        return await run.step("add", Adder(1), 2)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == 3
        (begun,) = [one.event for one in await history(session) if isinstance(one.event, midcourse.events.StepBegun)]
        assert begun.effect == "irreversible"


def test_a_journal_cannot_have_just_anything_made_or_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(midcourse.ToolUnavailable, match="makes no tools"):
        find_tool(f'subprocess:Popen({{"args":["touch","{made}"]}}).undo')
    assert not made.exists()
    assert is_of_the_standard_library("os:system")
    assert not is_of_the_standard_library("midcourse.tools.files:files_in")
