"""Dependencies that a run changes: kept in another process if they are a Pydantic model, and else missed aloud."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import RunContext

import midcourse
from midcourse.core.events import ReportMade
from midcourse.models.script import Call, Conversation, Text
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, history, until


class Basket(BaseModel):
    """Dependencies whose changes are kept."""

    items: list[str] = []


class Bag:
    """Dependencies whose changes are not."""

    def __init__(self) -> None:
        self.items: list[str] = []


def script(heard: Conversation, /) -> Any:
    """Put something in, wait, and then look what is there."""
    if not heard.calls:
        return [Call("put", {"item": "tea"}), Call("listen")]
    return [Text(heard.results("look")[-1])] if heard.results("look") else [Call("look")]


@pytest.mark.parametrize(
    ("kind", "found", "reports"),
    [
        (Basket, "tea", []),
        (
            Bag,
            "nothing",
            ["What the run had changed in its deps could not be journaled and is lost: it is no Pydantic model."],
        ),
    ],
)
async def test_what_a_finished_tool_changed_in_its_deps_is_there_after_a_crash_or_is_said_to_be_lost(
    place: Place, kind: Any, found: str, reports: list[str]
) -> None:
    desk, may_end = Desk(script, deps_type=kind), asyncio.Event()

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def put(ctx: RunContext[Any], item: str) -> str:
        """Put something in."""
        ctx.deps.items.append(item)
        return "in"

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def listen() -> str:
        """Listen until it may end."""
        await may_end.wait()
        return "a bell"

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def look(ctx: RunContext[Any]) -> str:
        """Look what is in there."""
        return ", ".join(ctx.deps.items) or "nothing"

    def make(run: midcourse.Run) -> object:
        return kind()

    agent = desk.held(deps=make)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.finished", times=2)  # the model's wishes, and the first of them
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(PATIENCE) == found
        events = [one.event for one in await history(again)]
    assert [one.message for one in events if isinstance(one, ReportMade)] == reports


async def test_the_run_itself_as_deps_is_not_missed_in_another_process(place: Place) -> None:
    """Nothing of it is the user's: what a run knows comes from its journal."""
    desk, may_end = Desk(script, deps_type=midcourse.Run), asyncio.Event()

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def put(ctx: RunContext[midcourse.Run], item: str) -> str:
        """Use the run."""
        return f"{item} in {ctx.deps.session_id}"

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def listen() -> str:
        """Listen until it may end."""
        await may_end.wait()
        return "a bell"

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look() -> str:
        """Look."""
        return "done"

    def itself(run: midcourse.Run) -> midcourse.Run:
        return run

    agent = desk.held(deps=itself)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.finished", times=2)
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(PATIENCE) == "done"
        assert not [one for one in await history(again) if isinstance(one.event, ReportMade)]
