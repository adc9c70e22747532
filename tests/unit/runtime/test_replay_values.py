"""What an agent sees of time, chance and people is journaled once, and a replay sees the same."""

from typing import Any

import pytest

import midcourse
from midcourse.runtime.settings import Settings
from tests.promises.harness import Place, Tool, history, resumable, types, until

COLD = Settings(poll=0.05, unreachable_after=30.0, park_after=0)


def _seen(run: midcourse.Run) -> list[object]:
    return [
        *(run.now().isoformat(), run.now().isoformat()),
        *(run.random(), run.random()),
        *(run.uuid(), run.uuid()),
        [message.text for message in run.messages],
        run.goal,
    ]


async def _twice(place: Place, agent: midcourse.Agent[Any], tool: Tool) -> list[midcourse.Recorded]:
    """Run it into a held step, replay it from the store with a redirect that came meanwhile, and end it."""
    async with place.open(agent, settings=COLD) as mc:
        session = await mc.start(agent, "paint")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        await until(session, "session.parked")
        await session.redirect("sing", level="goal")
        tool.may_end.set()
        await session.resume()
        await session.result()
        return await history(session)


async def test_a_replay_sees_the_same_time_chance_ids_and_messages(place: Place) -> None:
    """Although a redirect came since: that is seen after the step at which the first life ended."""
    tool = Tool(holds=True)
    lives: list[list[object]] = []

    async def agent(run: midcourse.Run) -> str:
        lives.append(_seen(run))
        await run.step("work", tool.run)
        lives.append([run.goal])
        return run.goal

    events = await _twice(place, resumable(agent), tool)
    first, second, after = lives
    assert first == second
    assert (first[-2:], after) == ([["paint"], "paint"], ["sing"])
    drawn = [one.event.name for one in events if isinstance(one.event, midcourse.events.ValueDrawn)]
    assert {name: drawn.count(name) for name in drawn} == {"now": 2, "random": 2, "uuid": 2, "messages": 4}
    assert len({str(value) for value in first[2:6]}) == 4


async def test_values_are_of_their_kind(place: Place) -> None:
    """A time with its zone, a number from 0 up to 1, an id nobody else has."""

    async def agent(run: midcourse.Run) -> list[object]:
        now = run.now()
        assert now.tzinfo is not None
        return [now.timestamp(), run.random(), run.uuid(), run.uuid()]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        moment, number, one, other = await session.result()
        created = (await session.state()).created_at
        assert isinstance(moment, float)
        assert moment >= created - 0.001
        assert isinstance(number, float)
        assert 0 <= number < 1
        assert one != other


async def test_plans_and_reports_of_a_replay_are_not_journaled_twice(place: Place) -> None:
    """Each is told once; what comes after the replayed part is told as it comes."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        run.plan.set("look", "write")
        run.plan.start("look")
        run.report("looking", progress=0.1)
        await run.step("work", tool.run)
        run.plan.done("look")
        run.plan.done("rest")
        run.report("done", progress=1, hypothesis="it works", artifact="a.txt")

    events = await _twice(place, resumable(agent), tool)
    plans = [one.event.items for one in events if isinstance(one.event, midcourse.events.PlanChanged)]
    assert [[(item.title, item.status) for item in items] for items in plans] == [
        [("look", "queued"), ("write", "queued")],
        [("look", "running"), ("write", "queued")],
        [("look", "done"), ("write", "queued")],
        [("look", "done"), ("write", "queued"), ("rest", "done")],
    ]
    reports = [one.event for one in events if isinstance(one.event, midcourse.events.ReportMade)]
    assert [report.message for report in reports] == ["looking", "done"]
    assert (reports[1].progress, reports[1].hypothesis, reports[1].artifact) == (1, "it works", "a.txt")


async def test_a_state_agent_goes_on_with_the_plan_that_stands_and_draws_anew_after_its_checkpoint(
    place: Place,
) -> None:
    """What it drew after the checkpoint it sees again."""
    tool = Tool(holds=True)
    drawn: list[list[str]] = []

    async def agent(run: midcourse.Run) -> None:
        if not run.state:
            run.plan.set("look", "write")
            run.uuid()
            run.state["begun"] = True
            await run.checkpoint()
        drawn.append([run.uuid(), run.uuid()])
        await run.step("work", tool.run)
        run.plan.done("look")

    events = await _twice(place, resumable(agent, mode="state"), tool)
    assert len(drawn) == 2
    assert drawn[0] == drawn[1]
    assert types(events).count("value.drawn") == 3
    plans = [one.event.items for one in events if isinstance(one.event, midcourse.events.PlanChanged)]
    assert [[(item.title, item.status) for item in items] for items in plans] == [
        [("look", "queued"), ("write", "queued")],
        [("look", "done"), ("write", "queued")],
    ]


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_step_sees_the_messages_of_its_own_moment_and_draws_nothing(place: Place, in_thread: bool) -> None:
    """Its result is what is journaled, and that the messages were seen, once."""
    gate = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        await run.step("wait", gate.run)

        def look() -> list[str]:
            return [message.text for message in run.messages]

        async def look_async() -> list[str]:
            return look()

        return await run.step("look", look if in_thread else look_async)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "paint")
        await gate.entered.wait()
        await session.redirect("sing")
        gate.may_end.set()
        assert await session.result() == ["paint", "sing"]
        found = types(await history(session))
        assert "value.drawn" not in found
        assert found.count("message.seen") == 1
        assert found.index("message.seen") < found.index("session.completed")
