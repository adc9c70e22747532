"""Who asks, by header or by cookie, and what their role lets them do."""

import logging
from collections.abc import AsyncIterator
from typing import Annotated

import httpx2
import pytest
from fastapi import Depends, FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midcourse.server.auth import Access, WithoutTokens
from midcourse.server.browser_sessions import SESSION_SECONDS, Logins
from midcourse.server.caller import Caller, caller_with
from midcourse.server.problems import explain_errors
from midcourse.server.routes import logins
from midcourse.server.tokens import TokenStore
from midcourse.wiring import open_store
from tests.server.manual_clock import StillClock

LOCAL = "mct_" + "l" * 43
COOKIE = "midcourse_80"
SECRETS = "/api?q=mct_abc-d_e&r=mcl_abc&s=mcb_x&t=mcp_y"


def application(access: Access) -> FastAPI:
    app = FastAPI()
    explain_errors(app)
    app.state.access = access
    app.include_router(logins.router)

    @app.get("/look")
    async def look(who: Annotated[Caller, Depends(caller_with("watch"))]) -> str:
        return who.principal.by

    @app.post("/steer")
    async def steer(who: Annotated[Caller, Depends(caller_with("steer"))]) -> str:
        return who.principal.by

    return app


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def access(clock: StillClock) -> AsyncIterator[Access]:
    store = await open_store("memory://")
    tokens = TokenStore(store, clock, local=LOCAL)
    yield Access(tokens, Logins(store, clock, tokens))
    await store.close()


@pytest.fixture
def tokens(access: Access) -> TokenStore:
    return access.tokens


@pytest.fixture
def app(access: Access) -> FastAPI:
    return application(access)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        yield client


async def entered(client: httpx2.AsyncClient, credential: str = LOCAL) -> dict[str, str]:
    """Log in; the headers that the console's page sends from then on."""
    answer = await client.post("/login", json={"credential": credential})
    assert answer.status_code == 200, answer.text
    client.cookies.clear()  # sent by hand
    return {
        "Cookie": answer.headers["Set-Cookie"].partition(";")[0],
        "Midcourse-Page": answer.json()["page_key"],
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_known_token_is_let_in(client: httpx2.AsyncClient, tokens: TokenStore) -> None:
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
    """Another program on this host may have set one."""
    ours = await entered(client)
    assert (await client.get("/look", headers=ours)).json() == "local"
    for number in range(20):
        cookies = {**ours, "Cookie": f"{ours['Cookie']}; {COOKIE}=tossed{number}"}
        assert (await client.get("/look", headers=cookies)).status_code == 401


async def test_two_authorization_headers_are_none(client: httpx2.AsyncClient) -> None:
    twice = [("Authorization", f"Bearer {LOCAL}"), ("Authorization", f"Bearer {LOCAL}")]
    assert (await client.get("/look", headers=twice)).status_code == 401


async def test_a_role_that_is_too_low_is_named_with_the_one_that_is_needed(
    client: httpx2.AsyncClient, tokens: TokenStore
) -> None:
    token = await tokens.add("bob", "watch")
    answer = await client.post("/steer", headers=bearer(token))
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("This needs the role steer, and the token 'bob' has the role watch.")
    assert (await client.get("/look", headers=bearer(token))).status_code == 200


async def test_a_revoked_token_is_unauthorized(client: httpx2.AsyncClient, tokens: TokenStore) -> None:
    token = await tokens.add("bob", "watch")
    await tokens.revoke("bob")
    assert (await client.get("/look", headers=bearer(token))).status_code == 401


async def test_a_login_sets_a_cookie_that_is_no_token_and_scripts_cannot_read(
    client: httpx2.AsyncClient, tokens: TokenStore
) -> None:
    answer = await client.post("/login", json={"credential": LOCAL})
    assert answer.json() | {"page_key": ""} == {
        "name": "local",
        "role": "operate",
        "tenant": None,
        "identity": "local (operate)",
        "page_key": "",
        "expires_at": 1000.0 + SESSION_SECONDS,
    }
    name, _, rest = answer.headers["Set-Cookie"].partition("=")
    value, *parts = rest.split("; ")
    assert name == COOKIE
    assert parts == [f"Max-Age={int(SESSION_SECONDS)}", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert LOCAL not in answer.text + answer.headers["Set-Cookie"]
    assert value not in answer.text, "the cookie's value is not for scripts"
    assert await tokens.principal_of(value) is None
    for alone in ({"Cookie": f"{name}={value}"}, {"Midcourse-Page": answer.json()["page_key"]}):
        client.cookies.clear()
        assert (await client.get("/look", headers=alone)).status_code == 401


async def test_each_server_has_a_cookie_of_its_own_and_takes_no_other(app: FastAPI) -> None:
    """A host's cookies go to every port of it: by name, and by the place that they were made for."""
    names: list[str] = []
    for url, root in [
        ("http://localhost", ""),
        ("http://localhost:8421", ""),
        ("https://localhost", ""),
        ("https://localhost:8443", ""),
        ("http://localhost", "/agents"),
    ]:
        transport = httpx2.ASGITransport(app, root_path=root)
        async with httpx2.AsyncClient(transport=transport, base_url=url) as client:
            ours = await entered(client)
            names.append(ours["Cookie"].partition("=")[0])
            assert (await client.get("/look", headers=ours)).json() == "local"
        for other in ("http://localhost:8500", "https://localhost:8500"):
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=other) as client:
                assert (await client.get("/look", headers=ours)).status_code == 401
                named = "midcourse_8500" if other.startswith("http:") else "__Host-midcourse_8500"
                renamed = {**ours, "Cookie": f"{named}={ours['Cookie'].partition('=')[2]}"}
                assert (await client.get("/look", headers=renamed)).status_code == 401
    assert names == [
        "midcourse_80",
        "midcourse_8421",
        "__Host-midcourse_443",
        "__Host-midcourse_8443",
        "midcourse_80_agents",
    ]


async def test_a_login_over_https_is_kept_for_https(app: FastAPI) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://localhost") as client:
        answer = await client.post("/login", json={"credential": LOCAL})
        assert answer.headers["Set-Cookie"].startswith("__Host-midcourse_443=mcb_")
        assert answer.headers["Set-Cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")


async def test_a_code_is_made_with_a_token_and_lets_in_once(client: httpx2.AsyncClient, tokens: TokenStore) -> None:
    ada = await tokens.add("ada", "steer")
    made = await client.post("/login/codes", headers=bearer(ada))
    assert made.status_code == 201
    code = made.json()["code"]
    assert made.json()["link"] == f"http://localhost/login#{code}"
    ours = await entered(client, code)
    assert (await client.get("/look", headers=ours)).json() == "ada"
    again = await client.post("/login", json={"credential": code})
    assert (again.status_code, again.json()["code"]) == (401, "login_refused")
    assert "midcourse browser link" in again.json()["detail"]
    assert "Set-Cookie" not in again.headers
    from_browser = await client.post("/login/codes", headers={**ours, "Origin": "http://localhost"})
    assert (from_browser.status_code, from_browser.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("credential", ["wrong", "mct_wrong", "mcl_wrong", "mcb_wrong", "ü", "\0", "a" * 256])
async def test_a_wrong_credential_lets_nobody_in(client: httpx2.AsyncClient, credential: str) -> None:
    answer = await client.post("/login", json={"credential": credential})
    assert answer.status_code in (401, 422)
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:8000", "null", ""])
async def test_no_other_page_logs_a_browser_in(client: httpx2.AsyncClient, origin: str) -> None:
    """Not one on another port of this host, either."""
    answer = await client.post("/login", json={"credential": LOCAL}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")


async def test_another_identity_takes_a_confirmation(client: httpx2.AsyncClient, tokens: TokenStore) -> None:
    ada = await tokens.add("ada", "steer")
    ours = await entered(client, ada)
    wish = {"credential": LOCAL}
    asked = await client.post("/login", json=wish, headers=ours)
    assert (asked.status_code, asked.json()["code"]) == (409, "identity_would_change")
    assert (asked.json()["now"], asked.json()["then"]) == ("ada (steer)", "local (operate)")
    assert (await client.get("/look", headers=ours)).json() == "ada"
    confirmed = await client.post("/login", json={**wish, "replace": True}, headers=ours)
    assert confirmed.json()["name"] == "local"
    assert (await client.get("/look", headers=ours)).status_code == 401, "the session before it is over"


async def test_a_session_whose_token_was_revoked_belongs_to_nobody(
    client: httpx2.AsyncClient, tokens: TokenStore
) -> None:
    ours = await entered(client, await tokens.add("ada", "steer"))
    await tokens.revoke("ada")
    entering = await client.post("/login", json={"credential": LOCAL}, headers=ours)
    assert (entering.status_code, entering.json()["name"]) == (200, "local")


async def test_a_logout_ends_the_session_at_the_server(client: httpx2.AsyncClient) -> None:
    ours, others = await entered(client), await entered(client)
    shown = (await client.get("/login", headers=ours)).json()
    assert (shown["name"], shown["place"]) == ("local", "http://localhost")
    answer = await client.delete("/login", headers={**ours, "Origin": "http://localhost"})
    assert answer.status_code == 204
    assert answer.headers["Set-Cookie"].startswith(f"{COOKIE}=; Max-Age=0; Path=/; ")
    assert (await client.get("/look", headers=ours)).status_code == 401
    assert (await client.get("/look", headers=others)).json() == "local"
    unknown = await client.delete("/login", headers=bearer(LOCAL))
    assert (unknown.status_code, unknown.json()["code"]) == (404, "browser_session_not_found")


async def test_browser_sessions_are_listed_and_ended_by_operators(
    client: httpx2.AsyncClient, tokens: TokenStore
) -> None:
    ada = await tokens.add("ada", "steer")
    ours = await entered(client, ada)
    assert (await client.get("/browser-sessions", headers=bearer(ada))).status_code == 403
    (shown,) = (await client.get("/browser-sessions", headers=bearer(LOCAL))).json()["browser_sessions"]
    assert shown == (await client.get("/login", headers=ours)).json()
    gone = await client.delete(f"/browser-sessions/{shown['id']}", headers=bearer(LOCAL))
    assert gone.status_code == 204
    refused = await client.get("/look", headers=ours)
    assert refused.status_code == 401
    assert refused.json()["detail"].startswith("This browser is not logged in any more")
    again = await client.delete(f"/browser-sessions/{shown['id']}", headers=bearer(LOCAL))
    assert (again.status_code, again.json()["code"]) == (404, "browser_session_not_found")


async def test_an_expired_token_or_session_is_unauthorized(
    client: httpx2.AsyncClient, tokens: TokenStore, clock: StillClock
) -> None:
    ada = await tokens.add("ada", "steer", expires_at=clock.now() + 3600)
    ours, local = await entered(client, ada), await entered(client)
    clock.seconds += 3599
    assert (await client.get("/look", headers=bearer(ada))).json() == "ada"
    assert (await client.get("/look", headers=ours)).json() == "ada"
    clock.seconds += 1
    assert (await client.get("/look", headers=bearer(ada))).status_code == 401
    assert (await client.get("/look", headers=ours)).status_code == 401
    clock.seconds += SESSION_SECONDS
    assert (await client.get("/look", headers=local)).status_code == 401


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
    cookie = await entered(client)
    assert (await client.post("/steer", headers={**cookie, **headers})).status_code == status
    for method, path in (("DELETE", "/login"), ("DELETE", "/browser-sessions/none")):
        answer = await client.request(method, path, headers={**cookie, **headers})
        assert (answer.status_code == 403) == (status == 403)
        if answer.status_code == 204:
            cookie = await entered(client)
    assert (await client.get("/look", headers={**cookie, **headers})).status_code == 200
    assert (await client.post("/steer", headers={**bearer(LOCAL), **headers})).status_code == 200


header = st.binary(max_size=100) | st.sampled_from(
    [b"Bearer ", b"bearer mct_", b"midcourse_80=mcb_", b"Bearer \xff" * 5]
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
        for path in (
            "/login?token=given-by-hand",
            "/login/?a=b&token=x",
            "/sub/login?token=y",
            "/api?q=mct_abc-d_e&r=mcl_abc&s=mcb_x&t=mcp_y",
        ):
            logger.info(line, "127.0.0.1:1", "GET", path, "1.1", 303)
        logger.info(line, "127.0.0.1:1", "GET", "/api/v1/sessions?limit=5", "1.1", 200)
    logger.removeFilter(hiding)
    said = [record.getMessage() for record in caplog.records]
    assert said[:3] == [
        '127.0.0.1:1 - "GET /login?[redacted] HTTP/1.1" 303',
        '127.0.0.1:1 - "GET /login/?[redacted] HTTP/1.1" 303',
        '127.0.0.1:1 - "GET /sub/login?[redacted] HTTP/1.1" 303',
    ]
    assert not any(mark in said[3] for mark in ("mct_", "mcl_", "mcb_", "mcp_"))
    assert said[4] == '127.0.0.1:1 - "GET /api/v1/sessions?limit=5 HTTP/1.1" 200'
