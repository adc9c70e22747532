"""The five causes for which an agent asks of its own accord: an agent that has each, and one that has not."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.handle import Midcourse, SessionHandle
from midcourse.policy.document import AgentAsks
from midcourse.policy.profiles import STANDARD
from midcourse.policy.signals.self_asks import QUESTIONS, ambiguous
from midcourse.runtime.supervisor import Supervisor
from tests.policy import agents
from tests.policy.agents import CLEAR, VAGUE, Box, World
from tests.policy.runs import Run, level
from tests.policy.watched_programs import FixedDrift, a_while, interventions, opened
from tests.promises.harness import Place, until, until_status

CAUSES: Final[list[tuple[str, midcourse.Agent[str], str, float | None]]] = [
    ("ambiguous_instructions", agents.plain, VAGUE, None),
    ("missing_credentials", agents.locked_out, CLEAR, None),
    ("near_drift", agents.wandering, CLEAR, 0.65),
    ("near_limit", agents.spending, CLEAR, None),
    ("unknown_error", agents.wobbling, CLEAR, None),
]
"""The cause, an agent that has it, its goal, and how far from that it is."""
OTHERS: Final[list[tuple[str, midcourse.Agent[str], str, float | None]]] = [
    ("ambiguous_instructions", agents.plain, CLEAR, None),
    ("missing_credentials", agents.mistyped, CLEAR, None),
    ("near_drift", agents.wandering, CLEAR, 0.45),
    ("near_limit", agents.thrifty, CLEAR, None),
    ("unknown_error", agents.stumbling, CLEAR, None),
]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the agents, and their distance from the goal."""
    made = Box.world = World()

    async def drift(*_: object) -> FixedDrift:
        return FixedDrift(made.distance)

    monkeypatch.setattr(Supervisor, "drift", drift)
    return made


@pytest.fixture
async def mc(world: World, place: Place) -> AsyncGenerator[Midcourse]:
    """A program with all the agents."""
    every = {agent.name: agent for _, agent, _, _ in (*CAUSES, *OTHERS)}
    async with opened(place, *every.values(), clock=world.clock) as made:
        yield made


async def asked(mc: Midcourse, world: World, agent: midcourse.Agent[str], goal: str) -> SessionHandle[str]:
    """A session that has asked, and is paused."""
    session = await mc.start(agent, goal)
    await until(session, "ask.opened")  # a warning may have come before it
    world.may_end.set()  # if it stands at its last call, that may end before the pause is complete
    await until_status(session, "paused")
    return session


def test_there_is_an_agent_for_every_cause() -> None:
    assert {cause for cause, *_ in CAUSES} == {cause for cause, *_ in OTHERS} == set(QUESTIONS)


@pytest.mark.parametrize(("cause", "agent", "goal", "distance"), CAUSES, ids=lambda one: str(one)[:30])
async def test_an_agent_asks_of_its_own_accord_and_its_session_is_paused(
    mc: Midcourse, world: World, cause: str, agent: midcourse.Agent[str], goal: str, distance: float | None
) -> None:
    world.distance = distance
    session = await asked(mc, world, agent, goal)
    state = await session.state()
    (ask,) = state.asks
    (made,) = [one for one in await interventions(session) if one.decision.level != "notify"]
    assert (ask.reason, made.decision.question) == (cause, cause)
    assert made.decision.level == "ask"
    assert made.by == f"agent:{agent.name}"
    assert (made.ask, made.pause) == (ask.id, state.pause.id if state.pause else None)
    assert ask.prompt == made.decision.words
    assert ask.prompt.endswith("?") or "go on" in ask.prompt
    assert ask.options == ("go on", "cancel")
    # What it could not see, it says.
    assert {one.signal for one in made.decision.unseen} >= {"hypothesis", "calls_left"}


@pytest.mark.parametrize(("cause", "agent", "goal", "distance"), OTHERS, ids=lambda one: str(one)[:30])
async def test_an_agent_without_the_cause_does_not_ask(
    mc: Midcourse, world: World, cause: str, agent: midcourse.Agent[str], goal: str, distance: float | None
) -> None:
    world.distance = distance
    session = await mc.start(agent, goal)
    await world.at_the_end.wait()
    await a_while()
    world.may_end.set()
    assert await session.result(30) == goal
    assert [one.decision.question for one in await interventions(session)] == [], cause


@pytest.mark.parametrize(("cause", "agent", "goal", "distance"), CAUSES, ids=lambda one: str(one)[:30])
async def test_the_answer_reaches_the_agent_as_a_message(
    mc: Midcourse, world: World, cause: str, agent: midcourse.Agent[str], goal: str, distance: float | None
) -> None:
    world.distance = distance
    session = await asked(mc, world, agent, goal)
    await session.answer("Use the figures of March instead")
    assert await session.result(30) == "Use the figures of March instead"
    state = await session.state()
    level = "goal" if cause == "ambiguous_instructions" else "clarify"
    assert (state.messages[-1].text, state.messages[-1].level) == ("Use the figures of March instead", level)
    assert state.asks == ()
    assert [one.decision.question for one in await interventions(session) if one.decision.question] == [cause]


@pytest.mark.parametrize("agreed", ["go on", "Go on", "yes", True, "continue"])
async def test_go_on_resumes_and_says_nothing_to_the_agent(mc: Midcourse, world: World, agreed: Any) -> None:
    session = await asked(mc, world, agents.locked_out, CLEAR)
    await session.answer(agreed)
    assert await session.result(30) == CLEAR


@pytest.mark.parametrize("refused", ["cancel", " Cancel "])
async def test_cancel_cancels(mc: Midcourse, world: World, refused: str) -> None:
    session = await asked(mc, world, agents.wobbling, CLEAR)
    await session.answer(refused)
    assert await until_status(session, "cancelled") == "cancelled"
    assert (await session.state()).asks == ()


async def test_a_resume_by_hand_closes_the_question(mc: Midcourse, world: World) -> None:
    session = await asked(mc, world, agents.locked_out, CLEAR)
    await session.resume()
    assert await session.result(30) == CLEAR
    assert (await session.state()).asks == ()


# ---- without a runtime


def test_a_cause_is_asked_about_once_in_a_turn_and_again_in_the_next() -> None:
    run = Run(asks=True)
    assert level(run.call(error="PermissionError")) == "ask"
    run.reviewed()
    assert run.call(error="PermissionError") is None
    run.end()
    run.begin("Now the one for May")
    assert level(run.call(error="PermissionError")) == "ask"


def test_after_a_restart_a_cause_is_not_asked_about_again() -> None:
    run = Run(asks=True)
    run.call(error="PermissionError")
    again = Run(asks=True)
    for act in run.acts:
        again.oversight.see(act, past=True)
    assert again.call(error="PermissionError") is None


def test_an_error_that_was_met_before_is_not_unknown() -> None:
    run = Run(asks=True)
    assert run.call(error="ValueError") is None
    first = run.call(error="Wobble", detail="flux is 3")
    assert first is not None
    assert (first.question, first.words) == (
        "unknown_error",
        "read failed with Wobble: flux is 3. I do not know this kind of error. What shall I do?",
    )
    assert run.call(error="Wobble") is None


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ("PermissionError", ""),
        ("HTTPError", "401 Unauthorized"),
        ("HTTPError", "403"),
        ("RuntimeError", "The API key is missing"),
        ("RuntimeError", "invalid token"),
        ("CalledProcessError", "fatal: Authentication failed"),
    ],
)
def test_not_to_be_let_in_is_told_from_the_error_or_from_its_words(error: str, detail: str) -> None:
    decision = Run(asks=True).call(error=error, detail=detail)
    assert decision is not None
    assert decision.question == "missing_credentials"


@pytest.mark.parametrize("goal", ["fix it", "Please improve this!", "do something", "Make it better.", "TBD"])
def test_a_goal_that_can_mean_anything_is_asked_about(goal: str) -> None:
    assert ambiguous(goal)
    run = Run(asks=True)
    decision = run.begin(goal)
    assert decision is not None
    assert decision.question == "ambiguous_instructions"


@pytest.mark.parametrize(
    "goal",
    [
        "",
        CLEAR,
        "Fix the login bug",
        "Update it-infrastructure.md",
        "Do 3 pull requests",
        "Änder die Rechnung",
        "x" * 10_000,
    ],
)
def test_a_goal_that_says_what_is_wanted_is_not(goal: str) -> None:
    assert not ambiguous(goal)


@pytest.mark.parametrize(
    ("signal", "near", "limit"), [("cost", 45.0, 50.0), ("resources", 90.0, 100.0), ("duration", 2430.0, 2700.0)]
)
def test_a_limit_is_near_from_nine_tenths_on_also_when_people_were_warned_long_before(
    signal: str, near: float, limit: float
) -> None:
    run = Run(asks=True).settle()
    spent = run.oversight.values
    asked_at: list[float] = []
    for share in range(1, 100):
        value = limit * share / 100
        match signal:
            case "cost":
                run.call("model", cost=value - spent.get("cost", 0.0))
            case "resources":
                run.call(resources=(f"src/{share}.py",))
            case _:
                run.at = value if value > run.at else run.at
                run.call()
        if any(one.question for one in run.decisions):
            asked_at.append(value)
            break
    assert asked_at == [pytest.approx(near)]
    assert run.decisions[-1].question == "near_limit"


def test_a_limit_that_is_near_by_the_clock_alone_is_asked_about_on_time() -> None:
    run = Run(asks=True)
    run.calls(30)
    while (due := run.oversight.due()) is not None and "ask" not in run.levels:
        run.at = due
        run.look()
        run.calls(5)
    assert run.decisions[-1].question == "near_limit"
    assert run.at == pytest.approx(0.9 * 2700, abs=0.1)


def test_each_cause_can_be_switched_off() -> None:
    off = AgentAsks(ambiguous=False, credentials=False, drift=False, limits=False, unknown_errors=False)
    run = Run(replace(STANDARD, agent_asks=off), asks=True, drift=FixedDrift(0.65), budget=1.0)
    run.begin("fix it")
    run.wait(600)
    for error in ("PermissionError", "Wobble", "", ""):
        run.call(error=error, cost=0.23)
    assert "ask" not in run.levels


def test_kinds_of_errors_can_be_declared_as_known() -> None:
    known = replace(STANDARD, agent_asks=AgentAsks(known_errors=("Wobble",)))
    assert Run(known, asks=True).call(error="Wobble") is None
