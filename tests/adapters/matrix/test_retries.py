"""What a provider refuses for a moment, in every framework: asked again by Midcourse, journaled, and stoppable."""

from collections.abc import Generator, Sequence

import pytest

import midcourse
from midcourse.core.events import StepRetrying
from midcourse.models.script import Conversation, Fail, Piece, Text
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.adapters.matrix.test_stops import PATIENCE, noted_once
from tests.promises.harness import history, until

TOO_LONG = "50"
"""Seconds that a provider wants to be left alone for; no test lives as long."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model request that failed is made again at once."""
    monkeypatch.setattr("midcourse.runtime.retries.MODEL_RETRY", midcourse.Retry(first_wait=0.0))


async def waits_of(session: "midcourse.SessionHandle[object]") -> list[StepRetrying]:
    """What the journal tells of requests that were made again."""
    return [one.event for one in await history(session) if isinstance(one.event, StepRetrying)]


@pytest.mark.usefixtures("impatient")
async def test_a_request_that_fails_for_a_moment_is_made_again(stage: Stage) -> None:
    """A rate limit, an error of the server, a connection that is cut: one request each, and then the answer."""
    stage.provider.fail_next(Fail(429, "slow down", retry_after="0"), Fail(503, "out of order"), Fail(0, "cut"))
    async with stage.started(courses.after_a_note(courses.ALL_DONE)) as session:
        assert await session.result(PATIENCE) == "All is done."
        waits = await waits_of(session)
        assert [(one.attempt, one.retry_after) for one in waits] == [(1, 0.0), (2, None), (3, None)]
        assert len(stage.requests) == 5
        assert noted_once()


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_breaks_off_is_asked_for_again(stage: Stage) -> None:
    """Cut in the middle of its words, or ended by an error that the stream tells of."""
    broken: list[tuple[Piece, ...]] = [(Text("Half an "), Fail(0, "cut")), (Text("Half an "), Fail(500, "it broke"))]

    def script(conversation: Conversation, /) -> Sequence[Piece]:
        del conversation
        return broken.pop(0) if broken else (courses.ALL_DONE,)

    async with stage.started(script) as session:
        assert await session.result(PATIENCE) == "All is done."
        assert [one.attempt for one in await waits_of(session)] == [1, 2]
        assert len(stage.requests) == 3


async def test_what_the_provider_refuses_for_good_is_asked_once(stage: Stage) -> None:
    """Nothing waits for what no waiting mends, and the request is not made again."""
    stage.provider.fail_next(Fail(400, "no"))
    async with stage.started(courses.after_a_note(courses.ALL_DONE)) as session:
        with pytest.raises(midcourse.SessionEnded):
            await session.result(PATIENCE)
        assert len(stage.provider.requests) == 1


async def test_a_pause_and_a_redirect_take_effect_while_a_request_waits_to_be_made_again(stage: Stage) -> None:
    """Neither of them waits for the provider's minute."""
    stage.provider.fail_next(Fail(429, "slow down", retry_after=TOO_LONG))
    async with stage.started(courses.after_a_note(courses.ALL_DONE)) as session:
        waits = (await until(session, "step.retrying")).event
        assert isinstance(waits, StepRetrying)
        assert waits.retry_after == float(TOO_LONG)
        reply = await session.pause(until="stopped")
        assert (reply.level, reply.status, reply.running) == ("stopped", "paused", ())
        await session.resume()
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert stage.heard().said[-1].text == courses.INSTEAD
        assert len(stage.requests) == 2


async def test_a_cancel_takes_effect_while_a_request_waits_to_be_made_again(stage: Stage) -> None:
    """Without another request."""
    stage.provider.fail_next(Fail(429, "slow down", retry_after=TOO_LONG))
    async with stage.started(courses.after_a_note(courses.ALL_DONE)) as session:
        await until(session, "step.retrying")
        reply = await session.cancel(until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert len(stage.requests) == 1


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Three tools that lose their connection the first time, and are tried again at once."""
    act, failed = courses._act, set[str]()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    async def fails_first(name: str) -> None:
        await act(name)
        if name not in failed:
            failed.add(name)
            raise ConnectionResetError("gone")

    monkeypatch.setattr(courses, "_act", fails_first)
    tools = (courses.look, courses.note, courses.book)
    for tool in tools:
        object.__setattr__(tool, "retry", midcourse.Retry(3, first_wait=0.0))
    yield
    for tool in tools:
        object.__setattr__(tool, "retry", None)


@pytest.mark.usefixtures("flaky")
async def test_a_tool_that_asks_for_it_is_tried_again_by_its_effect_and_the_model_does_not_hear_of_it(
    stage: Stage,
) -> None:
    """`read` freely, `idempotent` with its key, reversible after its undo."""
    async with stage.started(courses.after_a_note(courses.LOOK, courses.BOOK, courses.ALL_DONE)) as session:
        assert await session.result(PATIENCE) == "All is done."
        done = courses.counted()
        assert [done[f"{name} begun"] for name in ("look", "note", "book")] == [2, 2, 2]
        assert len([line for line in done if line.startswith("note under ")]) == 1
        assert done["room 1 unbooked"] == 1
        assert len(stage.requests) == 4
        assert [one.attempt for one in await waits_of(session)] == [1, 1, 1]
