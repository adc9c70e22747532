"""A held agent asks its model what Pydantic AI asks, also if it is interrupted after every step."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import to_jsonable_python

import midcourse
from midcourse.models.script import Call, Conversation, Text, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, stop_watching


class Weather(BaseModel):
    """What some tools return."""

    city: str
    degrees: float


@midcourse.tool(effect="read")
def model() -> Weather:
    """A model."""
    return Weather(city="Rome", degrees=21)


@midcourse.tool(effect="read")
def pair() -> tuple[int, str]:
    """A pair."""
    return 1, "a"


@midcourse.tool(effect="read")
def nothing() -> None:
    """Nothing."""


@midcourse.tool(effect="read")
def picture() -> BinaryContent:
    """A picture."""
    return BinaryContent(data=b"\x89PNG", media_type="image/png")


@midcourse.tool(effect="read")
def rich() -> ToolReturn[str]:
    """More than a value."""
    return ToolReturn("short", content="In many words.", metadata={"n": 1})


@midcourse.tool(effect="read")
def once_more(ctx: RunContext[Any], really: bool = False) -> str:
    """Want to be called once more."""
    if not really:
        raise ModelRetry("Really?")
    return f"for {ctx.tool_name}, really"


@midcourse.tool(effect="read")
def remark(ctx: RunContext[Any], when: Any = "asap") -> str:
    """Enqueue something."""
    ctx.enqueue(f"By the way, {when}.", priority=when)
    return "remarked"


PLAIN = (model, pair, nothing, picture, rich)


def results_of_all_kinds() -> Desk:
    return Desk(replies([Call(tool.name) for tool in PLAIN], Text("So it is.")), tools=PLAIN)


def results_one_by_one() -> Desk:
    return Desk(replies(*(Call(tool.name) for tool in PLAIN), Text("So it is.")), tools=PLAIN)


def a_retry() -> Desk:
    def script(heard: Conversation, /) -> Any:
        match len(heard.calls):
            case 0:
                return [Call("once_more")]
            case 1:
                return [Call("once_more", {"really": True})]
            case _:
                return [Text(heard.results("once_more")[-1])]

    return Desk(script, tools=[once_more])


def remarks_in_between() -> Desk:
    def script(heard: Conversation, /) -> Any:
        match len(heard.calls):
            case 0:
                return [Call("remark"), Call("model"), Call("remark", {"when": "when_idle"})]
            case 3:
                return [Call("pair")]
            case _:
                return [Text("Idle." if "when_idle" in heard.user else "Not yet.")]

    return Desk(script, tools=[remark, model, pair])


def a_typed_output() -> Desk:
    def script(heard: Conversation, /) -> Any:
        if not heard.calls:
            return [Call("pair")]
        right = {"city": "Rome", "degrees": 21}
        return [Call("final_result", right if len(heard.calls) > 1 else {"city": "Rome"})]

    return Desk(script, tools=[pair], output_type=Weather)


def tools_of_a_prefixed_toolset() -> Desk:
    toolset = FunctionToolset[Any](tools=[model, pair]).prefixed("my")
    return Desk(replies(Call("my_model"), Call("my_pair"), Text("So it is.")), toolsets=[toolset])


CASES = (
    results_of_all_kinds,
    results_one_by_one,
    a_retry,
    remarks_in_between,
    a_typed_output,
    tools_of_a_prefixed_toolset,
)


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
async def test_a_held_agent_that_is_interrupted_after_every_step_asks_what_the_framework_asks(
    place: Place, case: Callable[[], Desk]
) -> None:
    """Each time the process ends and another one continues."""
    native = case()
    expected = to_jsonable_python((await native.agent.run("go")).output)
    desk = case()
    held = desk.held()
    async with place.open(held) as mc:
        session = await mc.start(held, "go")
        position = await after_one_more_step(session, 0)
        with suppress(midcourse.Refused):
            await session.pause(until="stopped")
    while True:
        async with place.open(held) as mc:
            session = await mc.get(session.id)
            if await session.status() != "paused":
                assert await session.result(PATIENCE) == expected
                break
            await session.resume()
            position = await after_one_more_step(session, position)
            with suppress(midcourse.Refused):
                await session.pause(until="stopped")
    # A pause may have cut the last answer: what asks for the rest of it is no question of the framework's.
    asked = [one for one in desk.heard if "Go on with it from exactly where it stops" not in str(one)]
    assert asked[-1] == native.heard[-1]
