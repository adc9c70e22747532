"""From where requests may come: hosts, pages, sites."""

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midcourse.errors import InvalidInput
from midcourse.server.origins import Cors, HostCheck, OriginCheck, allowed_origins, place_of


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


async def status(
    app: ASGIApp, method: str, headers: list[tuple[bytes, bytes]], scheme: str = "http"
) -> tuple[int, bytes]:
    """What ``app`` answers to exactly these headers."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "scheme": scheme, "path": "/", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


LOCAL_HOSTS = (
    *("localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:1", "127.0.0.9"),
    *("[::1]", "[::1]:8000", "[0:0::1]"),
)
ODD_HOSTS = (
    *("", " ", ".", "local host", "localhost, evil.example", "localhost,x", "localhost/", "localhost:99999"),
    *("evil.example", "localhost.evil.example", "localhost@evil.example", "127.0.0.1.evil.example"),
    *("[::1", "[::1]x", "[::1]8000", "[::1%25lo]", "::1", "[fe80::1]", "10.0.0.1", "0x7f.1"),
)


@pytest.mark.parametrize("host", LOCAL_HOSTS)
async def test_loopback_is_always_our_name(host: str) -> None:
    assert (await status(HostCheck(hello), "GET", [(b"host", host.encode())]))[0] == 200


@pytest.mark.parametrize("host", ODD_HOSTS)
async def test_another_name_is_not_ours(host: str) -> None:
    code, body = await status(HostCheck(hello), "GET", [(b"host", host.encode())])
    assert code == 421
    assert b'"host_not_allowed"' in body


async def test_a_request_names_one_host() -> None:
    assert (await status(HostCheck(hello), "GET", []))[0] == 421
    assert (await status(HostCheck(hello), "GET", [(b"host", b"localhost"), (b"host", b"localhost")]))[0] == 421


async def test_the_server_goes_by_the_names_it_was_started_with() -> None:
    app = HostCheck(hello, allowed_hosts=["Agents.example.org", "10.0.0.1:80", "fe80::1", "[fe80::2]"])
    for host in (b"agents.example.org:8000", b"10.0.0.1", b"[fe80::1]", b"[fe80::2]:1"):
        assert (await status(app, "GET", [(b"host", host)]))[0] == 200
    assert (await status(app, "GET", [(b"host", b"example.org")]))[0] == 421
    with pytest.raises(InvalidInput, match="cannot be an allowed host"):
        HostCheck(hello, allowed_hosts=["*"])


async def test_a_server_on_every_address_goes_by_every_address_and_no_name() -> None:
    app = HostCheck(hello, allowed_hosts=["0.0.0.0"])
    for host in (b"10.0.0.1:8000", b"[fe80::1]"):
        assert (await status(app, "GET", [(b"host", host)]))[0] == 200
    assert (await status(app, "GET", [(b"host", b"evil.example")]))[0] == 421


anything = st.binary(max_size=60) | st.sampled_from([host.encode() for host in (*LOCAL_HOSTS, *ODD_HOSTS)])


@given(hosts=st.lists(anything, max_size=2), origins=st.lists(anything | anything.map(b"http://".__add__), max_size=2))
@settings(deadline=None)
async def test_no_header_whatever_breaks(hosts: list[bytes], origins: list[bytes]) -> None:
    headers = [(b"host", host) for host in hosts] + [(b"origin", origin) for origin in origins]
    app = HostCheck(Cors(OriginCheck(hello), methods=["GET"], origins=["https://a.example"]))
    for method in ("GET", "POST", "OPTIONS"):
        assert (await status(app, method, headers))[0] in (200, 403, 421)


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "code"),
    [
        ("http://localhost:8000", "localhost:8000", "http", 200),
        ("HTTP://LOCALHOST:8000", "localhost:8000", "http", 200),
        ("http://localhost", "localhost:80", "http", 200),
        ("https://localhost", "localhost:443", "https", 200),
        ("http://[::1]:8000", "[0::1]:8000", "http", 200),
        ("https://friend.example", "localhost", "http", 200),
        ("https://friend.example:443", "localhost", "http", 200),
        ("http://friend.example", "localhost", "http", 403),
        ("https://localhost:8000", "localhost:8000", "http", 403),
        ("http://localhost:3000", "localhost:8000", "http", 403),
        ("http://127.0.0.1:8000", "localhost:8000", "http", 403),
        ("https://evil.example", "localhost", "http", 403),
        ("null", "localhost", "http", 403),
        ("", "localhost", "http", 403),
        ("http://localhost:8000/", "localhost:8000", "http", 403),
        ("http://localhost:8000 http://evil.example", "localhost:8000", "http", 403),
        ("file://", "localhost", "http", 403),
    ],
)
async def test_changes_come_from_our_pages_or_friends(origin: str, host: str, scheme: str, code: int) -> None:
    app = OriginCheck(hello, allowed=["https://friend.example"])
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    for method in ("POST", "PATCH", "DELETE", "PUT", "STRANGE"):
        assert (await status(app, method, headers, scheme))[0] == code
    assert (await status(app, "GET", headers, scheme))[0] == 200


async def test_a_program_without_an_origin_passes() -> None:
    assert (await status(OriginCheck(hello), "POST", [(b"host", b"localhost")]))[0] == 200


async def test_two_origins_are_none_of_ours() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"http://localhost")]
    code, body = await status(OriginCheck(hello), "POST", headers)
    assert code == 403
    assert b'"origin_not_allowed"' in body


@pytest.mark.parametrize("origin", ["*", "null", "", "https://a.example/path", "ftp://a.example", "a.example"])
def test_an_allowed_origin_is_one_site(origin: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be an allowed origin"):
        allowed_origins([origin])


def test_allowed_origins_are_spelled_as_browsers_do() -> None:
    assert allowed_origins(["HTTPS://A.example:443", "http://[0::1]:80", "http://b:8080"]) == [
        "https://a.example",
        "http://[::1]",
        "http://b:8080",
    ]
    assert place_of("gopher", "localhost") is None


async def test_without_origins_there_is_no_cors() -> None:
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(Cors(hello, methods=["GET"])), base_url="http://localhost"
    ) as client:
        answer = await client.get("/", headers={"Origin": "https://a.example"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_an_allowed_site_may_call_and_read() -> None:
    app = Cors(hello, methods=["GET", "POST"], origins=["https://a.example"])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,if-match"}
        answer = await client.options("/", headers={"Origin": "https://a.example", **asked})
        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"
        answer = await client.get("/", headers={"Origin": "https://a.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert answer.headers["Access-Control-Expose-Headers"] == "X-Session-Id, ETag, Location, Retry-After"
        assert "Origin" in answer.headers["Vary"]
        answer = await client.options("/", headers={"Origin": "https://evil.example", **asked})
        assert answer.status_code == 400
        answer = await client.get("/", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in answer.headers
