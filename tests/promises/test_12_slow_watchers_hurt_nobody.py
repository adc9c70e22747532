"""Promise 12: slow watchers hurt nobody. And one that comes back misses nothing and sees nothing twice."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midcourse
from midcourse.runtime.fanout import PREVIEWS_KEPT
from tests.promises.harness import Place, Tool, history, resumable, stop_watching, turns, until_true

WORDS = 20_000


class Model:
    """Says many words, once somebody may be listening."""

    def __init__(self) -> None:
        self.may_speak = asyncio.Event()

    async def speak(self) -> AsyncIterator[str]:
        """The stream."""
        await self.may_speak.wait()
        for number in range(WORDS):
            yield f"{number} "
            if number % 200 == 0:
                await asyncio.sleep(0)


async def test_a_watcher_that_never_reads_does_not_delay_the_agent(place: Place) -> None:
    """The agent ends; whoever watched has not moved since its first event."""
    tool, model = Tool(), Model()

    async def agent(run: midcourse.Run) -> str:
        text = await run.stream("write", model.speak)
        for number in range(300):
            await run.step("work", tool.run, number)
        return text

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        stalled = [session.watch(), session.watch(deltas=True), session.watch(deltas=True, follow=True)]
        for watcher in stalled:
            await anext(watcher)
        model.may_speak.set()
        assert len((await session.result()).split()) == WORDS
        for watcher in stalled:
            await stop_watching(watcher)


async def test_a_watcher_that_never_reads_does_not_make_memory_grow(place: Place) -> None:
    """What it could not read is dropped beyond a bound, since the durable segments replace it."""
    quiet = await _growth(place, watchers=0)
    watched = await _growth(place, watchers=20)
    # Twenty watchers × 256 previews of some 200 bytes, and not twenty times the twenty thousand there were.
    assert watched - quiet < 20 * PREVIEWS_KEPT * 600


async def _growth(place: Place, *, watchers: int) -> int:
    model = Model()
    one = resumable(lambda run: run.stream("write", model.speak))
    async with place.open(one) as mc:
        session = await mc.start(one)
        stalled = [session.watch(deltas=True) for _ in range(watchers)]
        for watcher in stalled:
            await anext(watcher)
        tracemalloc.start()
        try:
            model.may_speak.set()
            await session.result()
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        for watcher in stalled:
            await stop_watching(watcher)
        return grown


async def test_a_watcher_that_lagged_behind_still_sees_every_event_and_only_the_newest_previews(place: Place) -> None:
    """Previews may be lost, events never."""
    model = Model()
    one = resumable(lambda run: run.stream("write", model.speak))
    async with place.open(one) as mc:
        session = await mc.start(one)
        watching = session.watch(deltas=True)
        seen: list[midcourse.Recorded | midcourse.Delta] = [await anext(watching)]
        model.may_speak.set()
        text = await session.result()
        seen.extend([one async for one in watching])
        previews = [one for one in seen if isinstance(one, midcourse.Delta)]
        events = [one for one in seen if isinstance(one, midcourse.Recorded)]
        assert 0 < len(previews) <= PREVIEWS_KEPT + 1
        assert previews[-1].offset + len(previews[-1].text) == len(text)
        assert events == await history(session)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(portions=st.lists(st.integers(0, 9), max_size=12))
def test_a_watcher_that_comes_back_with_its_last_position_misses_nothing_and_sees_nothing_twice(
    place: Place, portions: list[int]
) -> None:
    """However often it goes away, and whenever, while the session runs or after it has ended."""

    async def come_and_go() -> None:
        tool = Tool()

        async def agent(run: midcourse.Run) -> None:
            for number in range(12):
                await run.step("work", tool.run, number)

        async with place.open(resumable(agent)) as mc:
            session = await mc.start(resumable(agent))
            seen: list[midcourse.Recorded] = []
            for portion in portions:
                watching = session.watch(seen[-1].position if seen else 0)
                async for event in watching:
                    seen.append(event)
                    portion -= 1  # noqa: PLW2901 - counts down what it wants to see this time
                    if portion < 0:
                        break
                await stop_watching(watching)
                await turns(portion % 3)
            seen.extend([event async for event in session.watch(seen[-1].position if seen else 0)])
            assert [event.position for event in seen] == list(range(1, len(seen) + 1))
            assert seen == await history(session)
            assert seen[-1].type == "session.completed"

    asyncio.run(come_and_go())


async def test_many_watchers_all_see_the_same_events_in_the_same_order(place: Place) -> None:
    """Quick ones, slow ones, and one that came late."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> None:
        for number in range(50):
            await run.step("work", tool.run, number)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))

        async def watch(slowness: int) -> list[midcourse.Recorded]:
            seen: list[midcourse.Recorded] = []
            async for event in session.watch():
                seen.append(event)
                await turns(slowness)
            return seen

        early = [asyncio.create_task(watch(slowness)) for slowness in range(8)]
        await session.result()
        stories = [await one for one in [*early, asyncio.create_task(watch(0))]]
        assert all(story == stories[0] for story in stories)
        assert len(stories[0]) > 100


async def test_a_watcher_that_follows_sees_later_turns_and_one_that_does_not_ends_with_the_turn(place: Place) -> None:
    """The end of a turn ends a plain watch; a followed one goes on into the next."""
    tool = Tool()
    one = resumable(lambda run: run.step("work", tool.run, run.goal))
    async with place.open(one) as mc:
        session = await mc.start(one, "first")
        first = [event async for event in session.watch()]
        followed: list[midcourse.Recorded] = []

        async def follow() -> None:
            watching = session.watch(follow=True)
            async for event in watching:
                followed.append(event)
                if [one.type for one in followed].count("session.completed") == 2:
                    break
            await stop_watching(watching)

        following = asyncio.create_task(follow())
        await until_true(lambda: len(followed) == len(first))
        await session.redirect("second", level="goal")
        await following
        assert followed[: len(first)] == first
        assert "session.turn_opened" in [event.type for event in followed[len(first) :]]
        assert await session.result() == "second"
