"""Results of tools: the model, hooks and a ``tool_use_behavior`` get what the tool returned, here and elsewhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import FunctionToolResult, RunContextWrapper, ToolsToFinalOutputResult, function_tool
from pydantic import BaseModel

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.adapters.openai_agents.conversation import journaled, restored, type_of_result
from midcourse.models.script import Call, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, searching
from tests.promises.harness import until


class Weather(BaseModel):
    """What a tool returns."""

    city: str
    degrees: float


@function_tool
@midcourse.tool(effect="read")
def weather(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city=city, degrees=21)


ROME = Call("weather", {"city": "Rome"})
SPELLED = "tool: city='Rome' degrees=21.0"


async def test_the_model_reads_a_model_class_as_the_sdk_spells_it(at: Desk) -> None:
    session = await at.start(at.agent(weather), replies(ROME, Text("Warm.")))
    assert await session.result(PATIENCE) == "Warm."
    assert at.heard[-1] == SPELLED


async def test_a_custom_tool_use_behavior_gets_what_the_tool_returned(at_responses: Desk) -> None:
    at = at_responses

    def warm_enough(ctx: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        found: Weather = results[0].output
        return ToolsToFinalOutputResult(is_final_output=True, final_output=f"{found.city}: {found.degrees:.0f}")

    session = await at.start(at.agent(weather, tool_use_behavior=warm_enough), replies(ROME))
    assert await session.result(PATIENCE) == "Rome: 21"


async def test_a_result_without_a_declared_type_reaches_the_model_as_it_is(at_responses: Desk) -> None:
    at = at_responses

    @function_tool
    def anything() -> Any:
        return Weather(city="Oslo", degrees=4)

    session = await at.start(at.agent(anything), replies(Call("anything"), Text("Cold.")))
    assert await session.result(PATIENCE) == "Cold."
    assert at.heard[-1] == "tool: city='Oslo' degrees=4.0"


async def test_after_a_cold_resume_a_finished_result_has_the_type_its_function_declares(
    at_responses: Desk, tmp_path: Path
) -> None:
    at, url, may_end = at_responses, f"sqlite:///{tmp_path / 'runs.db'}", asyncio.Event()

    @function_tool
    @midcourse.tool(effect="read")
    async def listen() -> str:
        await may_end.wait()
        return "a bell"

    at.provider.script = replies([ROME, Call("listen")], Text("Warm."))
    agent = wrap(at.agent(weather, listen), name="typed")
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "Go.", session_id="sess_it")
        await until(session, "step.finished", times=2)  # the model's wishes, and one of them
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with midcourse.open(url) as mc:
        session = await mc.get("sess_it")
        await session.resume()
        assert await session.result(PATIENCE) == "Warm."
    assert at.heard[-2:] == [SPELLED, "tool: a bell"]
    assert len(at.provider.requests) == 2


async def test_a_turn_after_a_cancelled_one_is_told_results_in_their_types(at_responses: Desk) -> None:
    at = at_responses
    calls = [ROME, Call("search", {"what": "it"})]
    session = await at.start(at.agent(weather, searching), replies(calls), name="told later")
    await until(session, "step.finished", times=2)
    await session.cancel(grace=0, until="stopped")
    at.provider.script = replies(Text("No."), Text("Warm."))
    await session.redirect("How warm was it?")
    await session.result(PATIENCE)
    assert at.heard[2] == SPELLED


class Cat(Weather):
    """Wider than what is declared."""

    lives: int = 9


def widens() -> Weather:
    return Cat(city="Rome", degrees=1)


def says_float() -> float:
    return 3


def says_nothing_known() -> Any:
    return None


says_nothing_known.__annotations__["return"] = "Unheard"


def pair() -> tuple[int, Weather]:
    return 1, Weather(city="Rome", degrees=2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (widens, {"city": "Rome", "degrees": 1.0, "lives": 9}),
        (says_float, 3),
        (says_nothing_known, None),
        (pair, (1, Weather(city="Rome", degrees=2))),
    ],
)
def test_a_result_is_restored_only_to_what_it_was(function: Any, expected: Any) -> None:
    found = restored(journaled(function()), type_of_result(function))
    assert found == expected
    assert type(found) is type(expected)
