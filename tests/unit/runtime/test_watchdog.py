"""Code that holds the loop is named, with the session it belongs to and the place to look at."""

import logging
import threading

import midcourse
from midcourse.core import events as ev
from tests.promises.harness import Place, history, resumable


class Told(logging.Handler):
    """Notices that the log names somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.named = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Whoever waits for it may go on."""
        if "has held its event loop" in record.msg:
            self.named.set()


def _hold_the_loop(told: Told) -> None:
    told.named.wait()


async def test_a_session_that_blocks_its_loop_is_named(place: Place) -> None:
    """In its own journal: for how long, and where in whose code."""
    told = Told()

    async def agent(run: midcourse.Run) -> str:
        _hold_the_loop(told)
        return run.goal

    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, blocked_after=0.3)
    logging.getLogger("midcourse").addHandler(told)
    try:
        async with place.open(resumable(agent), settings=settings) as mc:
            session = await mc.start(resumable(agent), "blocked")
            assert await session.result() == "blocked"
            events = [one.event for one in await history(session)]
    finally:
        logging.getLogger("midcourse").removeHandler(told)
    [named] = [one for one in events if isinstance(one, ev.LoopBlocked) and "_hold_the_loop" in one.where]
    assert named.seconds >= 0.3
    assert "run.step" in named.advice
