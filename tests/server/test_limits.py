"""How much, how often, how many."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import httpx2
import pytest
from fastapi import Body, Depends, FastAPI
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midcourse.errors import AccessDenied, StoreUnavailable
from midcourse.server.limits import BodyLimit, Buckets, RateLimit, SafeHeaders, Streams
from midcourse.server.tokens import Principal
from tests.server.manual_clock import StillClock

ADA = Principal("ada", "watch")
BOB = Principal("bob", "watch")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


def calling(app: ASGIApp) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


def application() -> FastAPI:
    app = FastAPI()

    @app.post("/")
    async def count(content: Annotated[dict[str, str], Body()]) -> int:
        return len(content["text"])

    return app


async def pieces(size: int) -> AsyncIterator[bytes]:
    yield b'{"text":"'
    for _ in range(size // 100):
        yield b"x" * 100
    yield b'"}'


async def test_a_body_within_the_limit_is_taken() -> None:
    async with calling(BodyLimit(application(), limit=1000)) as client:
        assert (await client.post("/", json={"text": "x" * 900})).json() == 900
        json = {"Content-Type": "application/json"}
        assert (await client.post("/", content=pieces(900), headers=json)).json() == 900


async def test_a_body_above_the_limit_is_refused_whether_its_size_is_declared_or_not() -> None:
    async with calling(BodyLimit(application(), limit=1000)) as client:
        for answer in (
            await client.post("/", json={"text": "x" * 1000}),
            await client.post("/", content=pieces(5000), headers={"Content-Type": "application/json"}),
            await client.post("/", content=b"", headers={"Content-Length": "9" * 50}),
        ):
            assert answer.status_code == 413
            assert answer.json()["code"] == "body_too_large"
            assert answer.json()["limit"] == 1000


async def test_an_application_that_has_begun_to_answer_only_hears_that_the_client_has_gone() -> None:
    heard: list[str] = []

    async def answers_first(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.append((await receive())["type"])
        heard.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 20, "more_body": True}

    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(str(message["type"]))

    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    await BodyLimit(answers_first, limit=10)(scope, receive, send)
    assert heard == ["http.disconnect", "http.disconnect"]
    assert sent == ["http.response.start"]


def test_a_caller_has_a_burst_and_then_a_rate() -> None:
    clock = StillClock()
    buckets = Buckets(clock, rate=10, burst=5)
    assert [buckets.take("ada") for _ in range(5)] == [0.0] * 5
    assert buckets.take("ada") == pytest.approx(0.1)
    assert buckets.take("bob") == 0.0
    clock.seconds += 0.1
    assert buckets.take("ada") == 0.0
    assert buckets.take("ada") > 0
    clock.seconds += 3600
    assert [buckets.take("ada") for _ in range(5)] == [0.0] * 5
    assert buckets.take("ada") > 0


def test_not_every_caller_is_remembered() -> None:
    buckets = Buckets(StillClock(), most=100)
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets) == 100


async def test_who_sends_too_much_is_told_when_to_try_again() -> None:
    async def identify(scope: Scope) -> Principal | None:
        return {b"a": ADA, b"b": BOB}.get(dict(scope["headers"]).get(b"x-who", b""))

    async with calling(RateLimit(hello, buckets=Buckets(StillClock(), rate=0.1, burst=2), identify=identify)) as client:
        for who in ("a", "b", ""):
            for _ in range(2):
                assert (await client.get("/", headers={"X-Who": who})).status_code == 200
            answer = await client.get("/", headers={"X-Who": who})
            assert answer.status_code == 429
            assert answer.headers["Retry-After"] == "10"
            assert answer.json()["code"] == "too_many_requests"


async def test_a_store_that_is_away_is_left_to_the_route_to_tell() -> None:
    async def identify(_: Scope) -> Principal | None:
        raise StoreUnavailable("The store is away.")

    async with calling(RateLimit(hello, buckets=Buckets(StillClock()), identify=identify)) as client:
        assert (await client.get("/")).text == "hello"


async def test_the_addresses_of_one_network_are_one_caller() -> None:
    async def nobody(_: Scope) -> Principal | None:
        return None

    buckets = Buckets(StillClock())
    limit = RateLimit(hello, buckets=buckets, identify=nobody)
    for address in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2", "a socket"):
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(limit, client=(address, 1)), base_url="http://localhost"
        ) as client:
            assert (await client.get("/")).status_code == 200
    assert len(buckets) == 5


def test_streams_are_counted_for_each_and_for_all() -> None:
    streams = Streams(each=2, total=3)
    first, _ = streams.open(ADA), streams.open(ADA)
    with pytest.raises(AccessDenied, match="'ada' has 2 streams open") as refused:
        streams.open(ADA)
    assert refused.value.code == "too_many_streams"
    with streams.open(BOB), pytest.raises(AccessDenied, match="This server has 3 streams open"):
        streams.open(BOB)
    first.close()
    first.close()
    assert len(streams) == 1
    with streams.open(ADA):
        assert len(streams) == 2


@pytest.mark.parametrize("leaves_early", [False, True])
async def test_a_dependency_gives_the_place_back_when_the_stream_ends_or_its_reader_goes(leaves_early: bool) -> None:
    streams = Streams()
    app = FastAPI()
    seen: list[int] = []

    def slot() -> Iterator[None]:
        with streams.open(ADA):
            yield

    @app.get("/", dependencies=[Depends(slot)])
    async def follow() -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            seen.append(len(streams))
            yield b"one"
            if leaves_early:
                await asyncio.sleep(3600)

        return StreamingResponse(events())

    async def receive() -> Message:
        if not leaves_early:
            await asyncio.sleep(3600)
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None: ...

    scope: Scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "asgi": {}}
    await app(scope, receive, send)
    assert seen in ([1], [])
    assert len(streams) == 0


async def test_every_answer_has_the_safe_headers() -> None:
    async with calling(SafeHeaders(hello)) as client:
        for path in ("/", "/api/v1/sessions"):
            headers = (await client.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["Content-Security-Policy"].startswith("default-src 'self';")
            assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert "Cache-Control" not in (await client.get("/")).headers


async def test_what_an_answer_has_set_itself_stays() -> None:
    async def own(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("", headers={"Cache-Control": "max-age=5"})(scope, receive, send)

    async with calling(SafeHeaders(own)) as client:
        assert (await client.get("/api/x")).headers.get_list("Cache-Control") == ["max-age=5"]
