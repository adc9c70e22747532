"""Model calls: cut and continued, or called anew; what they return, what they cost, what they may yield."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import midcourse
from midcourse.core import events as ev
from tests.promises.harness import Place, Tool, history, resumable, until_status

POEM = "The sea, the sea, the open sea"


async def test_a_cut_stream_is_called_anew_and_its_earlier_text_is_superseded(place: Place) -> None:
    """`on_cut="regenerate"`, the default: the result is what the last attempt said."""
    speaking, prefixes = asyncio.Event(), list[str]()

    async def model() -> AsyncIterator[str]:
        call = midcourse.current_call()
        prefixes.append(call.prefix)
        if call.attempt == 1:
            yield "A first try"
            speaking.set()
            await asyncio.Event().wait()
        yield "Second"

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await speaking.wait()
        await session.pause(until="stopped")
        await session.resume()
        assert await session.result() == "Second"
        assert prefixes == ["", ""]


async def test_a_cut_stream_is_continued_where_its_model_allows_a_prefix(place: Place) -> None:
    """`on_cut="continue"`: each attempt finds the text so far, warm or in another process."""
    entered, prefixes = asyncio.Event(), list[str]()

    async def model() -> AsyncIterator[str]:
        prefix = midcourse.current_call().prefix
        prefixes.append(prefix)
        for piece in POEM[len(prefix) :].split(" "):
            yield piece if len(prefix) + len(piece) == len(POEM) else piece + " "
            prefix += piece + " "
            if len(prefixes) < 3 and prefix.count("sea") == len(prefixes):
                entered.set()
                await asyncio.Event().wait()

    one = resumable(lambda run: run.stream("write", model, on_cut="continue"))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await entered.wait()
        entered.clear()
        await session.pause(until="stopped")
        await session.resume()
        await entered.wait()
        await session.pause(until="stopped")
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.resume()
        assert (await session.result()).strip() == POEM
        assert prefixes == ["", "The sea, ", "The sea, the sea, "]
        offsets = [
            (event.event.attempt, event.event.offset)
            for event in await history(session)
            if isinstance(event.event, ev.SegmentWritten)
        ]
        assert offsets == [(1, 0), (2, len("The sea, ")), (3, len("The sea, the sea, "))]


async def test_a_stream_end_says_what_the_step_returns_and_what_it_cost(place: Place) -> None:
    """The text is what people watched; the value is what the agent works with; cost and tokens add up."""

    async def model(number: int) -> AsyncIterator[str | midcourse.StreamEnd]:
        yield "thinking "
        yield "aloud"
        yield midcourse.StreamEnd(value={"number": number}, cost=0.25, tokens=40)

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.stream("think", model, number) for number in (1, 2)]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == [{"number": 1}, {"number": 2}]
        state = await session.state()
        assert (state.cost, state.tokens) == (0.5, 80)
        (head,) = await mc.list()
        assert head.cost == 0.5


async def test_without_a_value_the_text_is_the_result_and_its_pieces_are_the_tokens(place: Place) -> None:
    """A StreamEnd may tell only the cost."""

    async def model() -> AsyncIterator[str | midcourse.StreamEnd]:
        for piece in ("a", "b", "c"):
            yield piece
        yield midcourse.StreamEnd(cost=1.5)

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        assert await session.result() == "abc"
        state = await session.state()
        assert (state.cost, state.tokens) == (1.5, 3)


async def test_a_stream_that_says_nothing_returns_the_empty_text(place: Place) -> None:
    """Once, and on a replay."""
    tool = Tool(holds=True)

    async def model() -> AsyncIterator[str]:
        for piece in ():
            yield piece

    async def agent(run: midcourse.Run) -> str:
        text = await run.stream("write", model)
        await run.step("after", tool.run)
        return text

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await tool.entered.wait()
    tool.may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == ""


@pytest.mark.parametrize(
    ("piece", "sentence"),
    [
        (7, "streamed a int; a stream yields str pieces"),
        (b"bytes", "streamed a bytes"),
        ("\ud83d", "text that is not Unicode"),
        (midcourse.StreamEnd(cost=float("nan")), "a cost of nan, which cannot be journaled"),
        (midcourse.StreamEnd(value=object()), "The result of step 'write' cannot be journaled"),
    ],
    ids=["int", "bytes", "surrogate", "cost", "value"],
)
async def test_what_a_stream_may_not_yield_fails_the_step_with_a_sentence(
    place: Place, piece: object, sentence: str
) -> None:
    """And nothing of the session hangs: it can be stopped, and tried again."""

    async def model() -> AsyncIterator[str]:
        yield "fine "
        yield piece  # pyright: ignore[reportReturnType] - what a careless user does

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        with pytest.raises(midcourse.SessionEnded) as ended:
            await session.result()
        assert ended.value.code in ("step_failed", "unencodable")
        assert sentence in str(ended.value)
        assert (await session.state()).calls == {}


async def test_a_source_is_closed_when_its_stream_is_cut(place: Place) -> None:
    """A connection to a provider must not stay open behind a pause."""
    speaking, closed = asyncio.Event(), asyncio.Event()

    async def model() -> AsyncIterator[str]:
        try:
            yield "Hello"
            speaking.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await speaking.wait()
        await session.pause(until="stopped")
        assert closed.is_set()


async def test_a_stream_that_raises_keeps_what_it_had_said(place: Place) -> None:
    """The step has failed; its text is in the journal."""

    async def model() -> AsyncIterator[str]:
        yield "So far "
        yield "so good"
        raise ValueError("the provider hung up")

    one = resumable(lambda run: run.stream("write", model))
    async with place.open(one) as mc:
        session = await mc.start(one)
        assert await until_status(session, "failed") == "failed"
        events = [event.event for event in await history(session)]
        assert [one.text for one in events if isinstance(one, ev.SegmentWritten)] == ["So far so good"]
        failed = next(one for one in events if isinstance(one, ev.StepFailed))
        assert (failed.kind, failed.detail) == ("ValueError", "the provider hung up")
