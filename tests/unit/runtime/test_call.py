"""``run.call``: a tool called with arguments by name, as a model gives them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import midcourse
from tests.promises.harness import Place, history, resumable, types, until, until_status
from tests.unit.runtime import tasks

calls: list[Any] = []
undone: list[Any] = []


@dataclass
class Point:
    """Where."""

    x: int
    y: int = 0


@pytest.fixture(autouse=True)
def _empty() -> None:
    calls.clear()
    undone.clear()


@midcourse.tool(effect="read")
def where(point: Point, names: list[str], *, exact: bool = False) -> Point:
    """Takes what it declares, and returns it."""
    calls.append((point, names, exact))
    return Point(point.x + 1, point.y)


def unsend(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """Take it back."""
    undone.append((dict(arguments), result, bool(key)))


@midcourse.tool(effect="write", undo=unsend, local=True)
def send(to: str, *, text: str = "hi") -> str:
    """Send something."""
    calls.append((to, text))
    return f"sent to {to}"


add_elsewhere = midcourse.tool(effect="read", run_in="process")(tasks.add)
pid_elsewhere = midcourse.tool(effect="read", run_in="process")(tasks.pid)


def _agent(function: Callable[[midcourse.Run], Awaitable[Any]]) -> midcourse.Agent[Any]:
    return resumable(function, name="caller")


async def _result(place: Place, function: Callable[[midcourse.Run], Awaitable[Any]]) -> Any:
    agent = _agent(function)
    async with place.open(agent) as mc:
        return await (await mc.start(agent, "go")).result(20)


async def test_arguments_become_the_types_the_function_declares(place: Place) -> None:
    """And its result the type it returns, as with ``run.step``."""

    async def agent(run: midcourse.Run) -> object:
        found = await run.call(where, {"point": {"x": 3}, "names": ["a"], "exact": True})
        assert isinstance(found, Point)
        return found.x

    assert await _result(place, agent) == 4
    assert calls == [(Point(3, 0), ["a"], True)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"point": {"x": "far"}, "names": []},
        {"point": {"x": 1}},
        {"point": None, "names": []},
        {},
    ],
)
async def test_arguments_that_do_not_fit_fail_the_call_and_nothing_is_done(place: Place, wrong: dict[str, Any]) -> None:
    async def agent(run: midcourse.Run) -> str:
        try:
            await run.call(where, wrong)
        except midcourse.StepError as error:
            return error.kind
        return "fine"

    assert await _result(place, agent) in {"InvalidInput", "TypeError", "ValidationError"}
    assert not calls


async def test_an_argument_the_function_does_not_have_is_refused(place: Place) -> None:
    """It may be what makes the call harmless: a ``dry_run`` that the model made up."""

    async def agent(run: midcourse.Run) -> str:
        try:
            await run.call(send, {"to": "ada", "dry_run": True})
        except midcourse.StepError as error:
            return error.detail
        return "fine"

    assert "dry_run" in await _result(place, agent)
    assert not calls


async def test_arguments_that_do_not_fit_leave_no_effect_on_the_receipt(place: Place) -> None:
    async def agent(run: midcourse.Run) -> None:
        with pytest.raises(midcourse.StepError):
            await run.call(send, {"to": 3})

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await session.result(20)
        assert not [line for line in (await session.receipt()).lines if line.outcome in {"kept", "unknown"}]
    assert not calls


async def test_calls_of_one_tool_run_at_the_same_time_by_their_keys(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        return await asyncio.gather(*(run.call(send, {"to": to}, key=f"call_{to}") for to in "abc"))

    assert await _result(place, agent) == ["sent to a", "sent to b", "sent to c"]
    assert sorted(calls) == [("a", "hi"), ("b", "hi"), ("c", "hi")]


async def test_a_call_is_not_made_again_when_the_session_goes_on_cold(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        sent = await run.call(send, {"to": "ada"}, key="call_1")
        return [sent, await run.ask("Go on?")]

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until_status(session, "waiting")
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.answer("yes")
        assert await again.result(20) == ["sent to ada", "yes"]
    assert calls == [("ada", "hi")]


async def test_another_argument_under_the_same_key_is_another_course(place: Place) -> None:
    to = ["ada"]

    async def agent(run: midcourse.Run) -> object:
        await run.call(send, {"to": to[0]}, key="call_1")
        return await run.ask("Go on?")

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until_status(session, "waiting")
    to[0] = "bob"
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.answer("yes")
        with pytest.raises(midcourse.SessionEnded, match="diverged"):
            await again.result(20)
    assert calls == [("ada", "hi")]


async def test_an_undo_is_given_the_arguments_by_name(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        await run.call(send, {"text": "bye", "to": "ada"})
        return await run.ask("Go on?")

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until_status(session, "waiting")
        await session.cancel(undo="all", until="stopped")
    assert undone == [({"text": "bye", "to": "ada"}, "sent to ada", True)]


async def test_a_call_that_needs_approval_asks_and_says_why(place: Place) -> None:
    async def agent(run: midcourse.Run) -> str:
        return await run.call(send, {"to": "ada"}, needs_approval="goes to a customer")

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert ask.reason == "need_approval"
        assert "goes to a customer" in ask.prompt
        assert not calls
        await session.answer("yes")
        assert await session.result(20) == "sent to ada"


async def test_a_call_that_is_refused_was_not_made(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        try:
            await run.call(send, {"to": "ada"}, needs_approval="goes to a customer")
        except midcourse.StepError as error:
            return [error.kind, error.detail]
        return []

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        await until_status(session, "waiting")
        await session.answer("not today")
        kind, detail = await session.result(20)
    assert kind == "NotApproved"
    assert "not today" in detail
    assert not calls


async def test_a_tool_that_runs_in_a_process_is_called_by_name(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        return [await run.call(add_elsewhere, {"left": 1, "right": 2}), await run.call(pid_elsewhere, {})]

    total, pid = await _result(place, agent)
    assert total == 3
    assert pid != tasks.pid()


async def test_a_call_has_the_name_that_people_see(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        return await run.call(send, {"to": "ada"}, name="mail")

    made = _agent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made, "go")
        event: Any = (await until(session, "step.begun")).event
        await session.result(20)
        assert event.name == "mail"
        assert types(await history(session)).count("step.begun") == 1
