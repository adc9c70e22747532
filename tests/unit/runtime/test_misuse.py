"""Calls of ``run`` that could not be told apart, or found again, after a resume are refused at once, with a way out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import midcourse
from midcourse import current_call
from tests.promises.harness import Place, Tool, resumable

Attempt = Callable[[midcourse.Run], Awaitable[object]]


async def _refusal(place: Place, attempt: Attempt, mode: midcourse.events.Mode = "replay") -> dict[str, Any]:
    """What an agent that tries it is told; the session goes on to its end all the same."""
    after = Tool()

    async def agent(run: midcourse.Run) -> dict[str, object]:
        with pytest.raises(midcourse.MidcourseError) as refused:
            await attempt(run)
        assert await run.step("after", after.run, "goes on") == "goes on"
        return {"code": refused.value.code, "sentence": str(refused.value)}

    async with place.open(resumable(agent, mode=mode)) as mc:
        session = await mc.start(resumable(agent, mode=mode))
        return await session.result()


async def test_two_steps_of_one_name_at_once_need_a_key_each(place: Place) -> None:
    """The one that runs is not disturbed."""
    tool = Tool(holds=True)

    async def attempt(run: midcourse.Run) -> None:
        first = asyncio.create_task(run.step("fetch", tool.run, "a"))
        await tool.entered.wait()
        try:
            await run.step("fetch", tool.run, "b")
        finally:
            tool.may_end.set()
            assert await first == "a"

    told = await _refusal(place, attempt)
    assert told["code"] == "key_required"
    assert "run.step('fetch', …, key='…')" in told["sentence"]
    assert tool.begun == [("a",)]


async def test_two_steps_with_one_key_at_once_are_refused(place: Place) -> None:
    """The same for asks."""
    tool = Tool(holds=True)

    async def attempt(run: midcourse.Run) -> None:
        first = asyncio.create_task(run.step("fetch", tool.run, key="k"))
        await tool.entered.wait()
        try:
            await run.step("fetch", tool.run, key="k")
        finally:
            tool.may_end.set()
            await first

    told = await _refusal(place, attempt)
    assert (told["code"], "Give each a key of its own" in told["sentence"]) == ("key_in_use", True)


async def test_steps_of_one_name_with_keys_and_one_without_run_at_once(place: Place) -> None:
    """Those can be told apart."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> list[object]:
        keyed = (run.step("fetch", tool.run, name, key=name) for name in "ab")
        return list(await asyncio.gather(run.step("fetch", tool.run, "first"), *keyed))

    async with place.open(resumable(agent)) as mc:
        assert await (await mc.start(resumable(agent))).result() == ["first", "a", "b"]


def _nested_step(run: midcourse.Run) -> Callable[[], Awaitable[object]]:
    async def body() -> object:
        return await run.step("inner", Tool().run)

    return body


def _nested_ask(run: midcourse.Run) -> Callable[[], Awaitable[object]]:
    async def body() -> object:
        return await run.ask("Really?")

    return body


def _nested_draw(run: midcourse.Run) -> Callable[[], Awaitable[object]]:
    async def body() -> object:
        return run.random()

    return body


@pytest.mark.parametrize("nested", [_nested_step, _nested_ask, _nested_draw])
async def test_a_step_is_one_piece_and_calls_no_run_inside(
    place: Place, nested: Callable[[midcourse.Run], Callable[[], Awaitable[object]]]
) -> None:
    """The step fails, with the sentence that says where to call it instead."""
    told = await _refusal(place, lambda run: run.step("outer", nested(run)))
    assert told["code"] == "step_failed"
    assert "was called inside a step. Call it from the agent itself" in told["sentence"]


async def test_a_replay_agent_takes_no_checkpoint(place: Place) -> None:
    """It would name its later steps anew."""
    told = await _refusal(place, lambda run: run.checkpoint())
    assert told["code"] == "not_a_state_agent"
    assert "@agent(mode='state')" in told["sentence"]


async def test_a_checkpoint_is_taken_between_steps(place: Place) -> None:
    """Not while one runs."""
    tool = Tool(holds=True)

    async def attempt(run: midcourse.Run) -> None:
        first = asyncio.create_task(run.step("work", tool.run))
        await tool.entered.wait()
        try:
            await run.checkpoint()
        finally:
            tool.may_end.set()
            await first

    told = await _refusal(place, attempt, "state")
    assert (told["code"], "between steps" in told["sentence"]) == ("steps_in_flight", True)


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "a>b", "x" * 201])
@pytest.mark.parametrize("place_of_it", ["step", "stream", "key"])
async def test_a_name_that_could_be_taken_for_another_step_is_refused(
    place: Place, name: str, place_of_it: str
) -> None:
    """As a name and as a key."""

    async def model() -> AsyncIterator[str]:
        yield "text"

    async def attempt(run: midcourse.Run) -> object:
        match place_of_it:
            case "step":
                return await run.step(name, Tool().run)
            case "stream":
                return await run.stream(name, model)
            case _:
                return await run.step("work", Tool().run, key=name)

    told = await _refusal(place, attempt)
    assert told["code"] == "bad_step_name"
    assert "without '/', '#' or '>'" in told["sentence"]


def _stream_of(*pieces: Any) -> Attempt:
    async def model() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return lambda run: run.stream("speak", model)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (_stream_of("a", 1), "streamed a int; a stream yields str pieces"),
        (_stream_of(b"bytes"), "streamed a bytes"),
        (_stream_of(None), "streamed a NoneType"),
        (_stream_of("half \ud83d"), "not Unicode"),
        (_stream_of("a", midcourse.StreamEnd(cost=float("nan"))), "a cost of nan"),
        (_stream_of("a", midcourse.StreamEnd(cost=float("inf"))), "a cost of inf"),
    ],
)
async def test_a_stream_of_something_else_than_text_fails_its_step(
    place: Place, attempt: Attempt, sentence: str
) -> None:
    """What it had said before is kept; nobody is shown what could not be kept."""
    told = await _refusal(place, attempt)
    assert told["code"] == "step_failed"
    assert sentence in told["sentence"]


@pytest.mark.parametrize("prompt", ["", "x" * 100_001])
async def test_a_prompt_has_words_and_not_too_many(place: Place, prompt: str) -> None:
    """It is for a person."""
    told = await _refusal(place, lambda run: run.ask(prompt))
    assert (told["code"], "1 to 100,000 characters" in told["sentence"]) == ("invalid_input", True)


@pytest.mark.parametrize("progress", [-0.1, 1.5, float("nan")])
async def test_progress_is_a_number_from_0_to_1(place: Place, progress: float) -> None:
    """And nothing is reported otherwise."""

    async def attempt(run: midcourse.Run) -> None:
        run.report(progress=progress)

    told = await _refusal(place, attempt)
    assert (told["code"], "from 0 to 1" in told["sentence"]) == ("invalid_input", True)


async def test_current_call_is_for_the_body_of_a_step(place: Place) -> None:
    """The agent itself has none, and neither has code outside any agent."""

    async def attempt(_run: midcourse.Run) -> None:
        current_call()

    assert (await _refusal(place, attempt))["code"] == "not_in_a_step"
    with pytest.raises(midcourse.MisusedRun, match="inside a function that run.step or run.stream calls"):
        current_call()
