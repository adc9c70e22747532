"""Terms are recorded with a session; an agent that may not ask asks nobody."""

from dataclasses import replace
from typing import Any

import pytest

import midcourse
from midcourse.core.terms import LONGEST_TTL
from tests.promises.harness import Place, history, resumable, types


async def _nothing(run: midcourse.Run) -> str:
    return run.goal


@midcourse.tool(effect="write", environment="prod")
def deploy() -> str:
    """Needs an approval, for where it acts."""
    return "deployed"


@midcourse.tool(effect="read")
def doubt() -> str:
    """Asks."""
    raise midcourse.Interrupt("unsure", "Really?")


def _silent(function: Any) -> midcourse.Agent[Any]:
    return replace(resumable(function), asks=False)


async def test_terms_are_recorded_when_a_session_begins(place: Place) -> None:
    """A session keeps those it began with."""
    terms = midcourse.Terms(task_class="very_long", policy="standard@1", budget=3.5, backend="redis", ttl_seconds=60)
    agent = replace(resumable(_nothing), terms=terms)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await session.result(20)
        assert (await session.state()).terms == terms
    other = replace(agent, terms=midcourse.Terms(policy="careless"))
    async with place.open(other) as mc:
        again = await mc.get(session.id)
        await again.redirect("and again")
        await again.result(20)
        assert (await again.state()).terms == terms


async def test_an_agent_without_terms_has_none(place: Place) -> None:
    agent = resumable(_nothing)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert (await session.state()).terms == midcourse.Terms()


def test_the_decorator_takes_terms_and_asks() -> None:
    terms = midcourse.Terms(task_class="short")

    @midcourse.agent(name="terms of test_terms", terms=terms, asks=False)
    async def agent(run: midcourse.Run) -> None: ...

    assert (agent.terms, agent.asks) == (terms, False)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"task_class": "endless"}, "task_class"),
        ({"backend": "disk"}, "backend"),
        ({"budget": 0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"budget": float("inf")}, "budget"),
        ({"ttl_seconds": -1}, "ttl_seconds"),
        ({"ttl_seconds": LONGEST_TTL + 1}, "ttl_seconds"),
        ({"ttl_seconds": 5, "on_expiry": "wait"}, "on_expiry"),
        ({"ttl_seconds": 5, "on_expiry": midcourse.DefaultAnswer(float("nan"))}, "on_expiry"),
        ({"ttl_seconds": 5, "on_expiry": midcourse.DefaultAnswer("x" * 20_000)}, "on_expiry"),
        ({"on_expiry": "cancel"}, "on_expiry"),
    ],
)
def test_terms_that_cannot_be_are_refused(wrong: dict[str, Any], field: str) -> None:
    async def anybody(run: midcourse.Run) -> None: ...

    with pytest.raises(midcourse.InvalidInput) as refused:
        midcourse.agent(terms=midcourse.Terms(**wrong))(anybody)
    assert refused.value.fields["field"] == field


# ---- asks=False


async def test_an_agent_that_may_not_ask_is_told_so(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        try:
            await run.ask("May I?")
        except midcourse.MisusedRun as error:
            return [error.code, error.message]
        return []

    made = _silent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made)
        code, message = await session.result(20)
        assert "ask.opened" not in types(await history(session))
    assert code == "may_not_ask"
    assert "May I?" in message


async def test_an_interrupt_of_an_agent_that_may_not_ask_fails_it(place: Place) -> None:
    async def agent(run: midcourse.Run) -> None:
        raise midcourse.Interrupt("unsure", "Really?")

    made = _silent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made)
        with pytest.raises(midcourse.SessionEnded, match="may not ask anybody, and asked: Really?"):
            await session.result(20)
        failure = (await session.state()).failure
        assert failure is not None
        assert failure.code == "may_not_ask"


async def test_an_interrupt_in_a_step_fails_the_step(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        try:
            await run.step("doubt", doubt)
        except midcourse.StepError as error:
            return [error.kind, error.detail]
        return []

    made = _silent(agent)
    async with place.open(made) as mc:
        session = await mc.start(made)
        kind, detail = await session.result(20)
        assert "ask.opened" not in types(await history(session))
    assert kind == "MisusedRun"
    assert "may not ask anybody" in detail
    assert "Really?" in detail


async def test_a_call_that_needs_approval_is_refused_where_nobody_may_be_asked(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        try:
            await run.step("deploy", deploy)
        except midcourse.StepError as error:
            return [error.kind, error.detail]
        return []

    made = _silent(agent)
    async with place.open(made) as mc:
        kind, detail = await (await mc.start(made)).result(20)
    assert kind == "NotApproved"
    assert "may not ask anybody" in detail
