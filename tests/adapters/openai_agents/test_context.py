"""What a run changes in its context: kept in another process if it is a Pydantic model, and else missed aloud."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool, handoff
from pydantic import BaseModel, SecretStr

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.core.events import ReportMade
from midcourse.models.script import Call, Conversation, Text
from tests.adapters.openai_agents.desk import PATIENCE, Desk, says
from tests.promises.harness import history, until


class Journey(BaseModel):
    """A context whose changes are kept."""

    password: SecretStr = SecretStr("open sesame")
    passenger: str = "ada"
    flight: str = ""
    seats: set[str] = set()
    token: str = ""
    line: Any = None


@dataclass
class Note:
    """A context whose changes are not."""

    flight: str = ""


def script(heard: Conversation, /) -> Any:
    """Hand off, note a seat, and wait; then say what was found."""
    if heard.system == "clerk":
        return [Call("transfer_to_porter")]
    if not heard.results("seat"):
        return [Call("seat"), Call("listen")]
    return [Call("look")] if not heard.results("look") else [Text(heard.results("look")[-1])]


def agents_at(at: Desk, may_end: asyncio.Event) -> Agent[Any]:
    """A clerk whose handoff sets the flight, and a porter whose tool sets the seat."""

    def set_flight(ctx: RunContextWrapper[Any]) -> None:
        ctx.context.flight = "FLT-123"

    @function_tool
    @midcourse.tool(effect="read")
    def seat(ctx: RunContextWrapper[Any]) -> str:
        if isinstance(ctx.context, Journey):
            ctx.context.seats.add("3A")
            ctx.context.token = "abracadabra"
            ctx.context.line = object()
        return "3A"

    @function_tool
    @midcourse.tool(effect="read")
    async def listen() -> str:
        await may_end.wait()
        return "a bell"

    @function_tool
    @midcourse.tool(effect="read")
    def look(ctx: RunContextWrapper[Any]) -> str:
        seats = sorted(getattr(ctx.context, "seats", ()))
        return f"{ctx.context.flight} {' '.join(seats)}".strip()

    porter = at.agent(seat, listen, look, name="porter")
    return at.agent(name="clerk", handoffs=[handoff(porter, on_handoff=set_flight)])


def anew(made: Callable[[], object]) -> Callable[[midcourse.Run], object]:
    """A function of the run that makes a context."""
    return lambda run: made()


async def interrupted(at: Desk, folder: Path, made: Callable[[], object]) -> tuple[Any, list[str], str]:
    """The result, the reports and the journal of a session whose process ended after the seat was noted."""
    url, may_end = f"sqlite:///{folder / 'runs.db'}", asyncio.Event()
    at.provider.script = script
    agent = wrap(agents_at(at, may_end), name="journey", context=anew(made))
    async with midcourse.open(url) as mc:
        session = await mc.start(agent, "Go.", session_id="sess_it")
        await until(session, "step.finished", times=3)  # two requests, and the seat
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with midcourse.open(url) as mc:
        session = await mc.get("sess_it")
        await session.resume()
        result = await session.result(PATIENCE)
        events = [one.event for one in await history(session)]
    return result, [one.message for one in events if isinstance(one, ReportMade)], str(events)


async def test_what_a_handoff_and_a_tool_set_in_a_pydantic_context_is_there_after_a_crash(
    at_responses: Desk, tmp_path: Path
) -> None:
    result, reports, journal = await interrupted(at_responses, tmp_path, Journey)
    assert result == "FLT-123 3A"
    assert "open sesame" not in journal, "what it was made with is not journaled"
    assert "abracadabra" not in journal
    assert reports == [
        "What the run had changed in its context could not be journaled and is lost: token, line.",
    ]


@pytest.mark.parametrize("made", [Note, type("Plain", (), {"flight": ""})])
async def test_a_change_of_another_context_that_is_lost_is_said(at_responses: Desk, tmp_path: Path, made: Any) -> None:
    result, reports, _ = await interrupted(at_responses, tmp_path, made)
    assert result == ""
    assert reports == [
        "What the run had changed in its context could not be journaled and is lost: it is no Pydantic model.",
    ]


async def test_a_context_that_all_runs_share_is_left_alone(at_responses: Desk, tmp_path: Path) -> None:
    shared = Note()
    result, reports, _ = await interrupted(at_responses, tmp_path, lambda: shared)
    assert (result, reports) == ("FLT-123", [])


async def test_the_next_turn_has_the_context_as_the_last_one_left_it(at_responses: Desk, tmp_path: Path) -> None:
    at, may_end = at_responses, asyncio.Event()
    may_end.set()
    session = await at.start(agents_at(at, may_end), script, context=anew(Journey))
    assert await session.result(PATIENCE) == "FLT-123 3A"
    at.provider.script = says(
        lambda heard: [Text(heard.results("look")[-1])] if heard.latest.results("look") else [Call("look")]
    )
    await session.redirect("And now?")
    assert await session.result(PATIENCE) == "FLT-123 3A"
