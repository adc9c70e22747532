"""A policy that requires a hypothesis holds the first action until one is stated, and never without a word."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core import events as ev
from midcourse.core.hypothesis import HOW, stated_in
from midcourse.core.terms import TaskClass
from midcourse.handle import Midcourse, SessionHandle
from midcourse.policy import versions
from midcourse.policy.document import HypothesisRule, Policy
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from midcourse.runtime.tools import declared_tool, register
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from tests.policy.runs import GOAL
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.harness import Place, history

STRICT: Final[Policy] = replace(
    STANDARD,
    name="strict",
    extends="standard",
    signals=replace(STANDARD.signals, hypothesis=HypothesisRule(required=True)),
)
SELDOM: Final = Settings(poll=2.0, unreachable_after=30.0)
MINUTE: Final = 60.0


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


class World:
    """What the agents of one test look at and act on."""

    def __init__(self) -> None:
        self.acted: list[tuple[int, float]] = []
        self.looked = 0
        self.clock = FakeClock()
        self.memory = SharedMemory()
        self.act = declared_tool(self._act, name="act", origin=f"{__name__}:act{id(self)}", effect="idempotent")
        self.look = declared_tool(self._look, name="look", origin=f"{__name__}:look{id(self)}", effect="read")
        for one in (self.act, self.look):
            register(one)

    async def _act(self, number: int) -> int:
        self.acted.append((number, self.clock.monotonic()))
        return number

    async def _look(self, number: int) -> int:
        self.looked += 1
        return number

    def run(self, work: Callable[[Midcourse], Awaitable[None]], *agents: Any, policy: Policy = STRICT) -> None:
        """Do ``work`` with a program that has these agents, until it closes."""

        async def main() -> None:
            store = MemoryStore(self.memory)
            if policy.name not in await versions.names(store):
                await versions.save(store, policy, by="ada", why="a test", now=self.clock.now())
            async with opened(
                Place("memory", Path()), *agents, clock=self.clock, store=store, settings=SELDOM, grace=0.1
            ) as mc:
                await work(mc)

        self.clock.run(main())


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def decided(session: SessionHandle[Any]) -> list[tuple[str, float]]:
    """What policies did, and how many seconds after the session began."""
    events = await history(session)
    return [
        (one.event.decision.level, one.at - events[0].at)
        for one in events
        if isinstance(one.event, ev.InterventionMade)
    ]


def mute(world: World) -> midcourse.Agent[Any]:
    """An agent that acts forty times and never states anything."""

    async def work(run: midcourse.Run) -> int:
        await run.step("look", world.look, 0)
        for number in range(40):
            await run.step("act", world.act, number)
        return 40

    return under(work, "strict", name="mute")


def test_nothing_is_done_before_a_hypothesis_is_stated_and_people_are_told_asked_and_let_it_act(world: World) -> None:
    agent = mute(world)

    async def work(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        await world.clock.sleep(5)
        assert (world.looked, world.acted) == (1, [])  # a read is no action
        state = await session.state()
        assert (state.status, state.messages[-1].by, state.messages[-1].level) == (
            "running",
            "policy:strict@1",
            "clarify",
        )
        assert state.messages[-1].text.endswith(HOW)
        await world.clock.sleep(9.8 * MINUTE)
        assert [level for level, _ in await decided(session)] == ["ask_plan"]
        await world.clock.sleep(20)
        assert [level for level, _ in await decided(session)] == ["ask_plan", "notify"]
        await world.clock.sleep(5 * MINUTE)
        assert await session.status() == "paused"
        levels = await decided(session)
        assert [level for level, _ in levels] == ["ask_plan", "notify", "pause"]
        assert [at for _, at in levels] == pytest.approx([0, 10 * MINUTE, 15 * MINUTE], abs=0.1)
        (ask,) = (await session.state()).asks
        assert "It may not act without a hypothesis" in ask.prompt
        assert world.acted == []
        await session.answer("go on", by="ada")
        assert await session.result(60) == 40
        assert len(world.acted) == 40

    world.run(work, agent)


@pytest.mark.parametrize("given", [{}, {"task_class": "medium"}], ids=["undeclared", "only watched"])
def test_no_restraint_leaves_a_held_run_without_a_person(world: World, given: dict[str, Any]) -> None:
    strict = replace(
        STRICT,
        restraint=replace(
            STRICT.restraint, interventions_per_hour=0, first_after_actions=100, requests_per_intervention=9
        ),
    )

    async def act(run: midcourse.Run) -> None:
        await run.step("act", world.act, 1)

    agent = under(act, "strict", name="worker", **given)

    async def work(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        await world.clock.sleep(15 * MINUTE + 1)
        assert await session.status() == "paused"
        await session.cancel(grace=0)

    world.run(work, agent, policy=strict)


@pytest.mark.parametrize("task_class", ["short", "protected"])
def test_a_run_that_nothing_may_pause_is_not_held(world: World, task_class: TaskClass) -> None:
    async def act(run: midcourse.Run) -> None:
        await run.step("act", world.act, 1)

    agent = under(act, "strict", name="worker", task_class=task_class)

    async def work(mc: Midcourse) -> None:
        await (await mc.start(agent, GOAL)).result(5)

    world.run(work, agent)
    assert len(world.acted) == 1


def test_an_agent_that_states_its_hypothesis_first_is_not_held_and_not_asked(world: World) -> None:
    async def act(run: midcourse.Run) -> None:
        run.report(hypothesis="The pool is too small")
        await run.step("act", world.act, 1)

    agent = under(act, "strict", name="worker")

    async def work(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        await session.result(5)
        assert await decided(session) == []

    world.run(work, agent)
    assert len(world.acted) == 1


def test_an_action_that_is_held_begins_when_another_path_states_the_hypothesis(world: World) -> None:
    async def act(run: midcourse.Run) -> None:
        acting = asyncio.ensure_future(run.step("act", world.act, 1))
        await asyncio.sleep(60)
        assert world.acted == []
        run.report(hypothesis="The pool is too small")
        await acting

    agent = under(act, "strict", name="worker")

    async def work(mc: Midcourse) -> None:
        await (await mc.start(agent, GOAL)).result(120)

    world.run(work, agent)
    assert [number for number, _ in world.acted] == [1]


def test_an_agent_that_wants_to_be_told_is_told_and_a_replay_tells_it_the_same(world: World) -> None:
    heard: list[str] = []

    async def act(run: midcourse.Run) -> str:
        for _ in range(3):
            try:
                await run.step("act", world.act, 1, on_redirect="raise")
            except midcourse.Redirected as redirect:
                heard.append(redirect.instruction)
                run.report(hypothesis="The pool is too small")
            else:
                break
        await run.step("act", world.act, 2)
        await run.step("look", world.look, 0)
        if len(heard) == 1:
            await asyncio.sleep(3600)  # the first program ends here
        return "done"

    agent = under(act, "strict", name="worker")
    started: list[str] = []

    async def first(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        started.append(session.id)
        await world.clock.sleep(5)
        assert [number for number, _ in world.acted] == [1, 2]

    async def second(mc: Midcourse) -> None:
        assert await (await mc.get(started[0])).result(120) == "done"

    world.run(first, agent)
    world.run(second, agent)
    assert [number for number, _ in world.acted] == [1, 2]
    assert heard[0] == heard[1]
    assert "Hypothesis:" in heard[0]


def test_a_held_run_is_held_and_asked_for_in_the_process_that_takes_it_over(world: World) -> None:
    agent = mute(world)
    started: list[str] = []

    async def first(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        started.append(session.id)
        await world.clock.sleep(5 * MINUTE)

    async def second(mc: Midcourse) -> None:
        session = await mc.get(started[0])
        await world.clock.sleep(15 * MINUTE + 5)
        assert world.acted == []
        assert await session.status() == "paused"
        assert [level for level, _ in await decided(session)] == ["ask_plan", "notify", "pause"]
        await session.resume(by="ada")

    async def third(mc: Midcourse) -> None:
        # Let go on by a person, it is not held again by another process.
        assert await (await mc.get(started[0])).result(120) == 40

    world.run(first, agent)
    world.run(second, agent)
    world.run(third, agent)


def test_each_turn_needs_a_hypothesis_of_its_own(world: World) -> None:
    async def act(run: midcourse.Run) -> None:
        if run.turn == 1:
            run.report(hypothesis="The pool is too small")
        await run.step("act", world.act, run.turn)

    agent = under(act, "strict", name="worker")

    async def work(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        await session.result(5)
        await session.redirect("and now the queue", level="goal")
        await world.clock.sleep(60)
        assert (await session.state()).hypothesis == ""
        assert [number for number, _ in world.acted] == [1]
        await session.cancel(grace=0)

    world.run(work, agent)


# ---- a model states it


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Hypothesis: the pool is too small.", "the pool is too small."),
        ("Let me see.\n\n**Hypothesis:** the pool is too small\nNow I look.", "the pool is too small"),
        ("> hypothesis : a\n- Hypothesis: b", "b"),
        ("My hypothesis is that the pool is too small.", ""),
        ("Hypothesis:", ""),
        ("", ""),
    ],
)
def test_a_model_states_it_in_a_line_of_its_own(text: str, stated: str) -> None:
    assert stated_in(text) == stated


def test_a_line_in_what_the_model_says_is_its_hypothesis_and_a_replay_counts_it_as_no_report(world: World) -> None:
    ended = asyncio.Event()

    async def say(*words: str) -> AsyncIterator[str]:
        for word in words:
            yield word

    async def act(run: midcourse.Run) -> None:
        await run.stream("think", lambda: say("Hypo", "thesis: the pool", " is too small.\nI resize it."))
        run.report("resizing")
        await run.step("act", world.act, 1)
        run.report("resized")
        if not ended.is_set():
            await asyncio.sleep(3600)

    agent = under(act, "strict", name="worker")
    started: list[str] = []

    async def first(mc: Midcourse) -> None:
        session = await mc.start(agent, GOAL)
        started.append(session.id)
        await world.clock.sleep(5)
        assert (await session.state()).hypothesis == "the pool is too small."
        assert len(world.acted) == 1

    async def second(mc: Midcourse) -> None:
        session = await mc.get(started[0])
        await session.result(60)
        said = [one.event.message for one in await history(session) if isinstance(one.event, ev.ReportMade)]
        assert said == ["", "resizing", "resized"]

    world.run(first, agent)
    ended.set()
    world.run(second, agent)
