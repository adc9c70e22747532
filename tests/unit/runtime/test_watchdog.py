"""Code that holds the loop is named, with the session it belongs to and the place to look at."""

import time

import midcourse
from midcourse.core import events as ev
from tests.promises.harness import Place, history, resumable


def _hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_session_that_blocks_its_loop_is_named(place: Place) -> None:
    """In its own journal: for how long, and where in whose code."""

    async def agent(run: midcourse.Run) -> str:
        _hold_the_loop(1.0)
        return run.goal

    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, blocked_after=0.3)
    async with place.open(resumable(agent), settings=settings) as mc:
        session = await mc.start(resumable(agent), "blocked")
        assert await session.result() == "blocked"
        [named] = [one.event for one in await history(session) if isinstance(one.event, ev.LoopBlocked)]
        assert named.seconds >= 0.3
        assert "_hold_the_loop" in named.where
        assert "run.step" in named.advice
