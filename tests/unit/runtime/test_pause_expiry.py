"""A pause that lapses lifts itself: whoever looks at a preview and goes away stops nothing for good."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import midcourse
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from tests.promises.harness import Place, Tool, history, resumable, until, until_status


def _agent(tool: Tool) -> midcourse.Agent[object]:
    async def works(run: midcourse.Run) -> object:
        await run.step("first", tool.run, 1)
        return await run.step("second", tool.run, 2)

    return resumable(works, name="works")


@asynccontextmanager
async def _working(place: Place) -> AsyncGenerator[tuple[midcourse.SessionHandle[object], Tool]]:
    """A session in its first call, which does not end before the test lets it."""
    tool = Tool(holds=True)
    agent = _agent(tool)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        yield session, tool


def _resumed_by(events: Sequence[Recorded]) -> list[str]:
    return [one.event.by for one in events if isinstance(one.event, ev.SessionResumed)]


async def test_a_pause_lapses_and_the_time_line_says_so(place: Place) -> None:
    """Nobody came back to it: the session goes on by itself, once, and the journal tells why."""
    async with _working(place) as (session, tool):
        reply = await session.pause(grace=0, lapses=0.3, until="stopped")
        assert reply.status == "paused"
        tool.may_end.set()
        assert await session.result(timeout=30) == 2
        assert _resumed_by(await history(session)) == ["lapse"]


async def test_a_pause_that_is_renewed_lapses_later(place: Place) -> None:
    """Sent again and again, it lasts longer than any one of them."""
    async with _working(place) as (session, _):
        first = await session.pause(grace=0, lapses=60, until="stopped")
        again = await session.pause(lapses=3000)
        assert again.pause == first.pause
        state = await session.state()
        assert state.pause is not None
        assert state.pause.lapses_at is not None
        assert state.pause.lapses_at > state.at + 2000


async def test_a_pause_for_good_does_not_lapse(place: Place) -> None:
    """Nothing makes it lapse afterwards: somebody wanted it to stay."""
    async with _working(place) as (session, tool):
        brief = await session.pause(grace=0, lapses=60, until="stopped")
        for reply in (await session.pause("let me read it"), await session.pause(lapses=0.001)):
            assert (reply.status, reply.pause) == ("paused", brief.pause)
        state = await session.state()
        assert state.pause is not None
        assert (state.pause.reason, state.pause.lapses_at) == ("let me read it", None)
        tool.may_end.set()
        await session.resume(brief.pause)
        assert await session.result(timeout=30) == 2
        assert _resumed_by(await history(session)) == ["local"]


async def test_a_cancel_ends_a_pause_before_it_lapses(place: Place) -> None:
    """What was paused for a choice goes the way that was chosen."""
    async with _working(place) as (session, _):
        await session.pause(grace=0, lapses=60, until="stopped")
        reply = await session.cancel(until="stopped")
        assert reply.status == "cancelled"
        assert _resumed_by(await history(session)) == []


async def test_a_pause_lapses_although_its_process_is_gone(place: Place) -> None:
    """Nobody ran while it lapsed; whoever opens the store next goes on with it."""
    tool = Tool(holds=True)
    agent = _agent(tool)
    async with place.open(agent, grace=0) as mc:
        session = await mc.start(agent, session_id="brief")
        await tool.entered.wait()
        await session.pause(grace=0, lapses=0.4, until="stopped")
    tool.may_end.set()
    async with place.open(agent) as mc:
        session = await mc.get("brief")
        await until_status(session, "completed")
        await until(session, "session.resumed")
        assert _resumed_by(await history(session)) == ["lapse"]


async def test_the_reason_of_a_pause_may_be_given_afterwards(place: Place) -> None:
    """The stop does not wait for words; they are added to the pause that stands."""
    async with _working(place) as (session, _):
        await session.pause(grace=0, until="stopped")
        await session.pause("looks wrong")
        state = await session.state()
        assert state.pause is not None
        assert state.pause.reason == "looks wrong"
        assert state.status == "paused"
