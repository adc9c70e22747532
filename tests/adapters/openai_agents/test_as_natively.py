"""A held agent asks its model what the SDK's own runner asks, also if it is interrupted after every step."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    StopAtTools,
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrailData,
    function_tool,
    handoff,
    tool_output_guardrail,
)
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.models.script import Call, Conversation, Script, Text, replies
from tests.adapters.openai_agents.desk import APIS, PATIENCE, Api, Desk, desk
from tests.promises.harness import Place, stop_watching

Case: TypeAlias = tuple[Agent[Any], Script]
_IDS = re.compile(r"\b(fc|msg|rs)_\d+_\d+")


class Weather(BaseModel):
    """What some tools return."""

    city: str
    degrees: float


@dataclass
class Point:
    """What another returns."""

    x: int
    y: str


class Wish(BaseModel):
    """What an agent that is a tool is given."""

    text: str
    language: str


@function_tool
@midcourse.tool(effect="read")
def model() -> Weather:
    return Weather(city="Rome", degrees=21)


@function_tool
@midcourse.tool(effect="read")
def models() -> list[Weather]:
    return [Weather(city="Rome", degrees=21)]


@function_tool
@midcourse.tool(effect="read")
def pair() -> tuple[int, str]:
    return 1, "a"


@function_tool
@midcourse.tool(effect="read")
def point() -> Point:
    return Point(1, "a")


@function_tool
@midcourse.tool(effect="read")
def nothing() -> None:
    return None


@function_tool
@midcourse.tool(effect="read")
def mapping() -> dict[str, Any]:
    return {"a": [1.5, None, True], "b": 1}  # in the order in which a journal has keys


@function_tool
@midcourse.tool(effect="read")
def fail() -> str:
    raise LookupError("not there")


@function_tool
@midcourse.tool(effect="read")
def half(number: int = 3) -> float:
    return number / 2


@tool_output_guardrail
def no_weather(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Refuse what a tool returned, by its class."""
    if isinstance(data.output, Weather):
        return ToolGuardrailFunctionOutput.reject_content("Not the weather.")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_output_guardrails=[no_weather])
@midcourse.tool(effect="read")
def guarded() -> Weather:
    return Weather(city="Rome", degrees=21)


RESULTS = (model, models, pair, point, nothing, mapping, fail, half)


def results_of_all_kinds(at: Desk) -> Case:
    return at.agent(*RESULTS), replies([Call(tool.name) for tool in RESULTS], Text("So it is."))


def results_one_by_one(at: Desk) -> Case:
    return at.agent(*RESULTS), replies(*(Call(tool.name) for tool in RESULTS), Text("So it is."))


def a_guarded_result(at: Desk) -> Case:
    return at.agent(guarded), replies(Call("guarded"), Text("So it is."))


def a_tool_that_ends_the_run(at: Desk) -> Case:
    agent = at.agent(model, half, tool_use_behavior=StopAtTools(stop_at_tool_names=["half"]))
    return agent, replies(Call("model"), Call("half"))


def settings_of_the_model(at: Desk) -> Case:
    settings = ModelSettings(parallel_tool_calls=False, temperature=0.3, max_tokens=77)
    return at.agent(half, model_settings=settings), replies(Call("half"), Text("So it is."))


def a_wrapped_output(at: Desk) -> Case:
    return at.agent(half, output_type=list[str]), replies(Call("half"), Text(json.dumps({"response": ["a", "b"]})))


def a_handoff_with_nested_history(at: Desk) -> Case:
    porter = at.agent(model, name="porter")
    clerk = at.agent(half, name="clerk", handoffs=[handoff(porter, nest_handoff_history=True)])

    def script(heard: Conversation, /) -> Any:
        if heard.system == "porter":
            return [Text("So it is.")] if heard.results("model") else [Call("model", id="call_c")]
        return [Call("transfer_to_porter", id="call_b")] if heard.results("half") else [Call("half", id="call_a")]

    return clerk, script


def agents_in_agents(at: Desk) -> Case:
    inner = at.agent(half, model, name="inner")
    middle = at.agent(inner.as_tool("ask_inner", "", parameters=Wish, include_input_schema=True), name="middle")
    outer = at.agent(middle.as_tool("ask_middle", ""), model, name="outer")
    scripts = {
        "inner": replies(Call("half"), Call("model"), Text("Inside.")),
        "middle": replies(Call("ask_inner", {"text": "Hello", "language": "fr"}), Text("In the middle.")),
        "outer": replies(Call("model"), Call("ask_middle", {"input": "Hello"}), Text("So it is.")),
    }

    def script(heard: Conversation, /) -> Any:
        return scripts[heard.system](heard)

    return outer, script


CASES = (
    results_of_all_kinds,
    results_one_by_one,
    a_guarded_result,
    a_tool_that_ends_the_run,
    settings_of_the_model,
    a_wrapped_output,
    a_handoff_with_nested_history,
    agents_in_agents,
)


def last_requests(at: Desk, since: int = 0) -> dict[str, Any]:
    """What each agent's model was last asked, but for what streaming needs, and the provider's own ids."""
    found: dict[str, Any] = {}
    for request in at.provider.requests[since:]:
        if b"Go on with it from exactly where it stops" in request.body:
            continue  # a pause had cut the answer: this one asks for the rest of it
        body = json.loads(_IDS.sub("id", request.body.decode()))
        for left_out in ("stream", "stream_options", "prompt_cache_key"):
            body.pop(left_out, None)
        found[request.conversation.system] = body
    return found


async def natively(agent: Agent[Any]) -> Any:
    """The output of the SDK's own runner."""
    result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
    return to_jsonable_python(result.final_output)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", CASES)
async def test_a_held_agent_asks_what_the_sdk_asks(api: Api, case: Callable[[Desk], Case]) -> None:
    async with desk(api, replies()) as at:
        agent, at.provider.script = case(at)
        expected = await natively(agent)
        native, count = last_requests(at), len(at.provider.requests)
        session = await at.sessions.start(wrap(agent, name="held"), "Go.")
        assert await session.result(PATIENCE) == expected
        assert len(at.provider.requests) == 2 * count
        assert last_requests(at, count) == native


async def after_one_more_step(session: midcourse.SessionHandle[Any], after: int) -> int:
    """Where the journal stands once a step has finished since ``after``, or the session has ended."""
    watching = session.watch(after, follow=True)
    try:
        async for seen in watching:
            if seen.type in ("step.finished", "step.failed", "session.completed", "session.failed"):
                return seen.position
    finally:
        await stop_watching(watching)
    return after


@pytest.mark.parametrize("case", CASES)
async def test_so_does_one_that_is_interrupted_after_every_step(
    at_responses: Desk, tmp_path: Path, case: Callable[[Desk], Case]
) -> None:
    """Each time the process ends and another one continues."""
    at, place = at_responses, Place("sqlite", tmp_path)
    agent, at.provider.script = case(at)
    expected = await natively(agent)
    native, count = last_requests(at), len(at.provider.requests)
    held = wrap(agent, name="held")
    async with place.open(held) as mc:
        session = await mc.start(held, "Go.")
        position = await after_one_more_step(session, 0)
        await pause(session)
    while True:
        async with place.open(held) as mc:
            session = await mc.get(session.id)
            if await session.status() != "paused":
                assert await session.result(PATIENCE) == expected
                break
            await session.resume()
            position = await after_one_more_step(session, position)
            await pause(session)
    assert last_requests(at, count) == native
    at.assert_that_all_requests_were_valid()


async def pause(session: midcourse.SessionHandle[Any]) -> None:
    """Pause a session, unless it has ended."""
    with suppress(midcourse.Refused):
        await session.pause(until="stopped")
