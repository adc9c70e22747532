"""Who asks, by header or by cookie, and what their role lets them do."""

import logging
from collections.abc import AsyncIterator
from typing import Annotated

import httpx2
import pytest
from fastapi import Depends, FastAPI, Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.responses import Response

from midcourse.errors import AccessDenied
from midcourse.server.auth import COOKIE, Access, WithoutTokens, login
from midcourse.server.caller import Caller, caller_with
from midcourse.server.problems import CHALLENGE, problem_response
from midcourse.server.tokens import Tokens
from midcourse.wiring import open_store
from tests.server.ticking import StillClock

LOCAL = "mct_" + "l" * 43
STATUS = {"unauthorized": 401, "forbidden": 403, "origin_not_allowed": 403}


async def denied(_: Request, error: Exception) -> Response:
    assert isinstance(error, AccessDenied)
    headers = CHALLENGE if error.code == "unauthorized" else None
    return problem_response(STATUS[error.code], error.code, error.message, headers)


def application(access: Access) -> FastAPI:
    app = FastAPI(exception_handlers={AccessDenied: denied})
    app.state.access = access

    @app.get("/look")
    async def look(who: Annotated[Caller, Depends(caller_with("watch"))]) -> str:
        return who.principal.by

    @app.post("/steer")
    async def steer(who: Annotated[Caller, Depends(caller_with("steer"))]) -> str:
        return who.principal.by

    @app.get("/login")
    async def enter(request: Request) -> Response:
        return await login(access, request)

    return app


@pytest.fixture
async def tokens() -> AsyncIterator[Tokens]:
    store = await open_store("memory://")
    yield Tokens(store, StillClock(), local=LOCAL)
    await store.close()


@pytest.fixture
async def client(tokens: Tokens) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(application(Access(tokens)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_known_token_is_let_in(client: httpx2.AsyncClient, tokens: Tokens) -> None:
    assert (await client.get("/look", headers=bearer(LOCAL))).json() == "local"
    ada = await tokens.add("ada", "steer")
    assert (await client.post("/steer", headers=bearer(ada))).json() == "ada"
    assert (await client.get("/look", headers={"Authorization": f"bearer {ada}"})).json() == "ada"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("mct_wrong"),
        {"Authorization": LOCAL},
        {"Authorization": f"Basic {LOCAL}"},
        {"Authorization": "Bearer"},
        {"Cookie": f"{COOKIE}=wrong"},
        {"Cookie": f"{COOKIE}={LOCAL}", "Authorization": "Bearer wrong"},
        {"Cookie": f"other={LOCAL}"},
    ],
)
async def test_anything_else_is_unauthorized(client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    answer = await client.get("/look", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthorized"
    assert LOCAL not in answer.text


async def test_two_cookies_that_differ_are_none(client: httpx2.AsyncClient) -> None:
    """Another server on this host may have set one."""
    for number in range(20):
        cookies = {"Cookie": f"{COOKIE}={LOCAL}; {COOKIE}=tossed{number}"}
        assert (await client.get("/look", headers=cookies)).status_code == 401


async def test_two_authorization_headers_are_none(client: httpx2.AsyncClient) -> None:
    twice = [("Authorization", f"Bearer {LOCAL}"), ("Authorization", f"Bearer {LOCAL}")]
    assert (await client.get("/look", headers=twice)).status_code == 401


async def test_a_role_that_is_too_low_is_named_with_the_one_that_is_needed(
    client: httpx2.AsyncClient, tokens: Tokens
) -> None:
    token = await tokens.add("bob", "watch")
    answer = await client.post("/steer", headers=bearer(token))
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("This needs the role steer, and the token 'bob' has the role watch.")
    assert (await client.get("/look", headers=bearer(token))).status_code == 200


async def test_a_revoked_token_is_unauthorized(client: httpx2.AsyncClient, tokens: Tokens) -> None:
    token = await tokens.add("bob", "watch")
    await tokens.revoke("bob")
    assert (await client.get("/look", headers=bearer(token))).status_code == 401


@pytest.mark.parametrize("token", [LOCAL, 'a";b,c\\d%41=&+ü'.encode().hex() + '";,\\%41=&+'])
async def test_a_login_keeps_the_token_in_a_cookie_and_goes_to_the_console(token: str) -> None:
    tokens = Tokens(await open_store("memory://"), StillClock(), local=token)
    transport = httpx2.ASGITransport(application(Access(tokens)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/login", params={"token": token})
        assert answer.status_code == 303
        assert answer.headers["Location"] == "/"
        cookie = answer.headers["Set-Cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
            assert part in cookie.split("; ")
        assert "Secure" not in cookie
        sent = {"Cookie": cookie.partition(";")[0]}
        assert (await client.get("/look", headers=sent)).json() == "local"


async def test_a_login_over_https_is_kept_for_https(tokens: Tokens) -> None:
    transport = httpx2.ASGITransport(application(Access(tokens)))
    async with httpx2.AsyncClient(transport=transport, base_url="https://localhost") as client:
        answer = await client.get("/login", params={"token": LOCAL})
        assert answer.headers["Set-Cookie"].endswith("; Secure")


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", f"?token={LOCAL}&token=wrong", "?token=%ff%00"])
async def test_a_wrong_link_says_what_to_do(client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"/login{query}")
    assert answer.status_code == 401
    assert "midcourse link" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert LOCAL not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://localhost"}, 200),
    ],
)
async def test_a_change_by_cookie_must_come_from_our_page(
    client: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    cookie = {"Cookie": f"{COOKIE}={LOCAL}"}
    assert (await client.post("/steer", headers={**cookie, **headers})).status_code == status
    assert (await client.get("/look", headers={**cookie, **headers})).status_code == 200
    assert (await client.post("/steer", headers={**bearer(LOCAL), **headers})).status_code == 200


header = st.binary(max_size=100) | st.sampled_from(
    [b"Bearer ", b"bearer mct_", b"midcourse_token=", b"Bearer \xff" * 5]
)


@given(authorization=st.lists(header, max_size=2), cookie=st.lists(header, max_size=2))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_header_whatever_lets_in_or_breaks(
    client: httpx2.AsyncClient, authorization: list[bytes], cookie: list[bytes]
) -> None:
    headers = [(b"authorization", value) for value in authorization] + [(b"cookie", value) for value in cookie]
    assert (await client.get("/look", headers=headers)).status_code == 401


def test_the_access_log_holds_no_token(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.access")
    hiding = WithoutTokens()
    logger.addFilter(hiding)
    line = '%s - "%s %s HTTP/%s" %d'
    with caplog.at_level(logging.INFO, logger.name):
        for path in ("/login?token=given-by-hand", "/login/?a=b&token=x", "/sub/login?token=y", "/api?q=mct_abc-d_e"):
            logger.info(line, "127.0.0.1:1", "GET", path, "1.1", 303)
        logger.info(line, "127.0.0.1:1", "GET", "/api/v1/sessions?limit=5", "1.1", 200)
    logger.removeFilter(hiding)
    said = [record.getMessage() for record in caplog.records]
    assert said[:3] == [
        '127.0.0.1:1 - "GET /login?[redacted] HTTP/1.1" 303',
        '127.0.0.1:1 - "GET /login/?[redacted] HTTP/1.1" 303',
        '127.0.0.1:1 - "GET /sub/login?[redacted] HTTP/1.1" 303',
    ]
    assert "mct_" not in said[3]
    assert said[4] == '127.0.0.1:1 - "GET /api/v1/sessions?limit=5 HTTP/1.1" 200'
