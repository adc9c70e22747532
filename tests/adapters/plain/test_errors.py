"""What a person reads when a request fails: what happened, where, what to do, and never a key."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from anthropic import Anthropic
from openai import AsyncOpenAI, OpenAI

import midcourse
from midcourse.adapters.plain import Api, Create, Streamed, streamed
from midcourse.core.events import StepFailed
from midcourse.models.script import Fail, Garbage, Piece, Text, replies
from tests.adapters.plain.desk import APIS, KEY, desk
from tests.promises.harness import Place, history, resumable

each_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("memory", tmp_path)


async def failure(place: Place, ask: Callable[[], Streamed]) -> StepFailed:
    """How the journal has the failed step; what the session's result says of it must hold no key either."""
    agent = resumable(lambda run: run.stream("draft", ask, retry=midcourse.Retry(1)))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        with pytest.raises(midcourse.SessionEnded) as caught:
            await session.result()
        events = [event.event for event in await history(session)]
    assert KEY not in repr(events)
    assert KEY not in str(caught.value)
    (failed,) = [event for event in events if isinstance(event, StepFailed)]
    assert failed.detail.rstrip(".") in str(caught.value)
    return failed


@each_api
@pytest.mark.parametrize(
    ("fails", "kind", "sentence"),
    [
        (Fail(404, "The model `m` does not exist"), "NotFoundError", "(404): The model `m` does not exist"),
        (Fail(429, "Slow down"), "RateLimitError", "(429): Slow down"),
        (Fail(500, "Something broke"), "InternalServerError", "(500): Something broke"),
        (Fail(400, f"Strange: {KEY}"), "BadRequestError", "(400): Strange: (the key)"),
    ],
    ids=lambda value: getattr(value, "status", None) and str(value.status),
)
async def test_what_a_provider_refuses_is_said_in_its_words_after_one_request(
    api: Api, place: Place, fails: Fail, kind: str, sentence: str
) -> None:
    async with desk(api, replies(Text("unused"))) as at:
        at.provider.fail_next(fails)
        failed = await failure(place, lambda: at.ask("Well?"))
        assert len(at.provider.requests) == 1, "the client tried again by itself"
    assert failed.kind == kind
    assert failed.detail.startswith(f"127.0.0.1:{at.client.base_url.port} said {sentence}")
    assert "{" not in failed.detail


@each_api
async def test_a_wrong_key_is_refused_without_being_told(api: Api, place: Place) -> None:
    async with desk(api, replies(Text("unused")), api_key="sk-another") as at:
        failed = await failure(place, lambda: at.ask("Well?"))
    assert failed.kind == "AuthenticationError"
    assert "(401)" in failed.detail
    assert failed.detail.endswith(". Check the client's api_key.")


async def test_a_missing_key_is_missed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    async with desk("messages", replies(Text("unused")), gives=None) as at:
        failed = await failure(place, lambda: at.ask("Well?"))
        assert at.provider.requests == ()
    assert failed.detail.startswith("The client has no key for 127.0.0.1:")


@each_api
async def test_nobody_at_the_address_is_said_with_the_address(api: Api, place: Place) -> None:
    url = f"http://user:{KEY}@127.0.0.1:9"
    async with desk(api, replies(Text("unused")), url=url) as at:
        failed = await failure(place, lambda: at.ask("Well?"))
    assert failed.kind == "APIConnectionError"
    assert failed.detail == (
        "No connection to 127.0.0.1:9, or it was lost: All connection attempts failed. "
        "Check base_url, and whether that can be reached."
    )


@each_api
@pytest.mark.parametrize(
    "broken",
    [Fail(0, "cut"), Fail(500, "The machine broke"), Garbage("}{ no chunk")],
    ids=["cut", "error", "garbage"],
)
async def test_a_stream_that_breaks_is_an_error_and_a_resume_asks_again(api: Api, place: Place, broken: Piece) -> None:
    async with desk(api, replies((Text("Half an "), broken))) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Well?"), retry=midcourse.Retry(1)))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            with pytest.raises(midcourse.SessionEnded):
                await session.result()
            (failed,) = [event.event for event in await history(session) if isinstance(event.event, StepFailed)]
            at.provider.script = replies(Text("A whole answer."))
            await session.resume()
            assert await session.result() == "A whole answer."
    if isinstance(broken, Garbage):
        assert (failed.kind, failed.detail.partition(" ")[2]) == ("ModelError", "sent something that is no JSON.")
    elif isinstance(broken, Fail) and broken.status:
        assert "The machine broke" in failed.detail
        assert "{" not in failed.detail
    else:
        assert "or it was lost" in failed.detail


@each_api
async def test_a_stream_that_ends_before_the_model_has_is_an_error(api: Api, place: Place) -> None:
    """A server that goes down in good order closes the stream as if all had been said."""
    async with desk(api, replies(Text("unused"))) as at:
        kind: type[Any] = cast("Any", at.create).__self__.__class__
        stub = type(kind.__name__, (_Ends,), {"__module__": kind.__module__, "create": _Ends.create})
        failed = await failure(place, lambda: streamed(stub(_Client()).create, model="m"))
    assert (failed.kind, failed.detail) == ("ModelError", "The stream ended before the model had.")


class _Client:
    base_url = "https://model.example/v1"

    def with_options(self, *, max_retries: int) -> "_Client":
        assert max_retries == 0
        return self


class _Ends:
    def __init__(self, client: _Client) -> None:
        self._client = client

    async def create(self, **_: Any) -> Any:
        return _Silence()


class _Silence:
    def __aiter__(self) -> "_Silence":
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        raise StopAsyncIteration

    async def close(self) -> None:
        pass


async def test_a_response_in_the_background_is_refused_for_a_stop_would_not_stop_it(place: Place) -> None:
    async with desk("responses", replies(Text("unused"))) as at:
        failed = await failure(place, lambda: at.ask("Well?", background=True))
        assert at.provider.requests == ()
    assert failed.kind == "InvalidInput"
    assert "continues when the client is gone" in failed.detail


async def test_what_cannot_be_streamed_is_refused_with_what_can(place: Place) -> None:
    with OpenAI(api_key=KEY) as openai, Anthropic(api_key=KEY) as anthropic:
        for create, name in ((openai.responses.create, "AsyncOpenAI"), (anthropic.messages.create, "AsyncAnthropic")):
            failed = await failure(place, lambda create=create: streamed(create, model="m"))  # pyright: ignore[reportArgumentType] - that is the test
            assert failed.detail.endswith(f"Use {name}.")
    async with AsyncOpenAI(api_key=KEY) as client:
        wrong: list[Create] = [client.completions.create, client.images.generate, asyncio.sleep]
        for create in wrong:
            failed = await failure(place, lambda create=create: streamed(create, model="m"))
            assert "Give it client.chat.completions.create, client.responses.create or" in failed.detail
