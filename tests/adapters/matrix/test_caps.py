"""A budget in every framework: counted while the model talks, and priced before it is asked again."""

import pytest

import midcourse
from midcourse.models.script import Text
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.promises.harness import until_status

CENTS = midcourse.Settings(prices={"m": midcourse.Price(output=10_000.0)}, poll=0.05, unreachable_after=30.0)
"""A cent for each word that the model says."""


async def test_a_stream_that_reaches_the_cap_is_cut_there_and_nothing_goes_on(stage: Stage) -> None:
    stage.provider.script = courses.after_a_note(courses.LONG)
    async with stage.place.open(stage.agent, grace=0, settings=CENTS) as mc:
        session = await mc.start(stage.agent, courses.GOAL, terms=midcourse.Terms(budget=0.30))
        await until_status(session, "paused")
        await stage.cut(1)
        state = await session.state()
        assert state.cost == pytest.approx(0.30, abs=0.015)
        assert state.pause is not None
        assert state.pause.by == "budget"
        with pytest.raises(midcourse.Refused, match="Raise the budget"):
            await session.resume()
        assert len(stage.requests) == 2


async def test_a_request_that_would_pass_the_cap_is_not_made(stage: Stage) -> None:
    first = (Text("word " * 20), courses.LOOK)
    stage.provider.script = courses.after_a_note(first, courses.ALL_DONE)
    async with stage.place.open(stage.agent, grace=0, settings=CENTS) as mc:
        session = await mc.start(stage.agent, courses.GOAL, terms=midcourse.Terms(budget=0.30))
        await until_status(session, "paused")
        assert len(stage.requests) == 2
        state = await session.state()
        assert 0.2 < state.cost < 0.30
        assert state.pause is not None
        assert "its next call would cost about" in state.pause.reason
        await session.raise_budget(1.0)
        assert await session.result(40.0) == "All is done."
