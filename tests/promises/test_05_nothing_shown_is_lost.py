"""Promise 5: nothing shown is lost. Events with a position are in the journal; previews become segments."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import midcourse
from midcourse.core import events as ev
from midcourse.handle import SessionHandle
from midcourse.runtime.settings import Settings
from tests.control.agents import lines
from tests.control.remote import Remote
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, stop_watching, types, until_true

Preview = tuple[str, int, int, str]


async def _seen(session: SessionHandle[Any], seen: list[midcourse.Recorded], *, enough: int) -> None:
    watching = session.watch(follow=True)
    async for event in watching:
        seen.append(event)
        if len(seen) >= enough:
            break
    await stop_watching(watching)


async def test_every_event_a_watcher_saw_is_in_the_journal_after_its_owner_is_gone(place: Place) -> None:
    """Cut off in full flight: what was shown before is where it was, and the history goes on behind it."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> None:
        for number in itertools.count():
            await run.step("work", tool.run, number)

    one = resumable(agent)
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off, grace=0) as owner:
        session = await owner.start(one, session_id="s")
        watchers: list[list[midcourse.Recorded]] = [[], [], []]
        await asyncio.gather(*(_seen(session, seen, enough=40 + 7 * n) for n, seen in enumerate(watchers)))
        cut_off.holds = lambda _: True
        dying.abandon()
        async with place.open(drive=False) as other:
            kept = await history(await other.get("s"))
            for seen in watchers:
                assert kept[: len(seen)] == seen
            await (await other.get("s")).cancel(until="stopped")
        cut_off.let_through()


async def test_every_event_a_watcher_saw_is_in_the_journal_after_kill_9(place: Place) -> None:
    """A real process, really killed, watched by another one; in memory, a program that is cut off."""
    if place.kind == "memory":
        await test_every_event_a_watcher_saw_is_in_the_journal_after_its_owner_is_gone(place)
        return
    effects = place.path.with_name("effects")
    async with place.open(drive=False) as mc:
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="full_speed", goal=str(effects), session="s")
            session = await mc.get("s")
            seen: list[midcourse.Recorded] = []
            await _seen(session, seen, enough=300)
            await owner.kill()
        kept = await history(session)
        assert kept[: len(seen)] == seen
        # Whatever a step did to the world, its beginning had been written before.
        assert len(lines(effects)) <= types(kept).count("step.begun")


async def test_previews_are_replaced_by_segments_of_the_same_place(place: Place) -> None:
    """(step, attempt, offset): every token seen as a preview stands in the durable text, where it was said to be."""
    words = [f"word{number} " for number in range(500)]

    watched = asyncio.Event()

    async def model() -> AsyncIterator[str]:
        await watched.wait()
        for word in words:
            yield word
            await asyncio.sleep(0)

    one = resumable(lambda run: run.stream("write", model))
    settings = Settings(segment_tokens=7, segment_seconds=3600, poll=0.05)
    async with place.open(one, settings=settings) as mc:
        session = await mc.start(one)
        previews: list[midcourse.Delta] = []
        segments: list[ev.SegmentWritten] = []
        async for seen in session.watch(deltas=True):
            watched.set()
            if isinstance(seen, midcourse.Delta):
                previews.append(seen)
            elif isinstance(seen.event, ev.SegmentWritten):
                segments.append(seen.event)
        text = "".join(segment.text for segment in segments)
        assert text == "".join(words) == await session.result()
        assert len(segments) >= len(words) // 7
        assert all(len(segment.text.split()) <= 7 for segment in segments)
        assert previews
        for one_ in previews:
            assert (one_.step, one_.attempt) == ("1/write#1", 1)
            assert text[one_.offset : one_.offset + len(one_.text)] == one_.text


async def test_a_segment_is_written_after_its_time_however_short(place: Place) -> None:
    """A model that has said one word and thinks: the word is durable all the same."""
    thinks = asyncio.Event()

    async def model() -> AsyncIterator[str]:
        yield "Well"
        await thinks.wait()
        yield ", no."

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one, settings=Settings(segment_seconds=0.02, poll=0.05)) as mc:
        session = await mc.start(one)
        async for event in session.watch():
            if isinstance(event.event, ev.SegmentWritten):
                assert event.event.text == "Well"
                break
        thinks.set()
        assert await session.result() == "Well, no."


async def test_at_a_stop_the_tail_is_a_segment_before_stopping_is_answered(place: Place) -> None:
    """All that was streamed until the stop is in the journal when the stop is answered."""
    said: list[str] = []

    async def model() -> AsyncIterator[str]:
        for number in itertools.count():
            said.append(f"{number} ")
            yield said[-1]
            await asyncio.sleep(0)

    one = resumable(lambda run: run.stream("write", model))
    settings = Settings(segment_tokens=10**6, segment_seconds=3600, poll=0.05)  # nothing is written by itself
    for stop in ("pause", "cancel", "redirect"):
        said.clear()
        async with place.open(one, settings=settings) as mc:
            session = await mc.start(one)
            await until_true(lambda: len(said) >= 20)
            reply = await getattr(session, stop)("because")
            events = await history(session)
            first, last = "", 0
            for event in events:
                if isinstance(event.event, ev.SegmentWritten) and event.event.attempt == 1:
                    first, last = first + event.event.text, event.position
            assert 0 < last <= reply.position
            assert first.split() == [str(number) for number in range(len(first.split()))]
            assert len(first.split()) >= 19
            await session.cancel(until="stopped")


async def test_text_cut_by_a_pause_is_kept_and_the_next_attempt_supersedes_it(place: Place) -> None:
    """Nothing vanishes: the first attempt's text stays in the journal, marked as cut."""
    attempts = 0
    pieces_before_cut = asyncio.Event()

    async def model() -> AsyncIterator[str]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            yield "A first "
            yield "thought"
            pieces_before_cut.set()
            await asyncio.Event().wait()
        yield "Better."

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await pieces_before_cut.wait()
        await session.pause(until="stopped")
        events = [recorded.event for recorded in await history(session)]
        cut = next(event for event in events if isinstance(event, ev.StepCut))
        assert (cut.length, cut.tokens) == (len("A first thought"), 2)
        await session.resume()
        assert await session.result() == "Better."
        texts = [
            (recorded.event.attempt, recorded.event.text)
            for recorded in await history(session)
            if isinstance(recorded.event, ev.SegmentWritten)
        ]
        assert texts == [(1, "A first thought"), (2, "Better.")]


async def test_text_that_could_not_be_journaled_is_refused_before_anybody_sees_it(place: Place) -> None:
    """Half a surrogate pair has no UTF-8: the step fails with a sentence, and a stop is still possible."""

    async def model() -> AsyncIterator[str]:
        yield "fine "
        yield "\ud83d"
        await asyncio.Event().wait()

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        try:
            await session.result(timeout=20)
        except midcourse.SessionEnded as ended:
            assert ended.code == "step_failed"
            assert "Unicode" in ended.message
        assert await session.status() == "failed"
