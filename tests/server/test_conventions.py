"""What holds at every address alike: its methods, HEAD and OPTIONS, and what a body may come as."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from midcourse.errors import InvalidInput
from midcourse.server import CallerLimits, Server
from midcourse.server.conventions import Prefixed
from tests.server.documented import document
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import standing
from tests.server.test_tenants import TABLE

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")
FRIEND = "https://friend.example"
FORM = "application/x-www-form-urlencoded"
DOCUMENT: dict[str, Any] = document()
WITH_BODY = [
    (method.upper(), path)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if "requestBody" in operation
]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    limits = CallerLimits(rate=1e6, burst=1_000_000)
    with serving("memory://", standing, limits=limits, allowed_origins=[FRIEND]) as one:
        yield one


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as one:
        yield one


def filled(path: str) -> str:
    """An address of this shape, of nothing that there is. Names that are also addresses of their own are tried too."""
    names = dict.fromkeys(("session_id", "name", "digest", "ask", "webhook", "switch", "message"), "none")
    return path.format(**names)


def every_path() -> dict[str, set[str]]:
    """Each address, and the methods that some route has there; HEAD goes with GET, OPTIONS with all."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for method, path in TABLE:
        found[path].add(method)
    # What is an address of its own is also a name in a longer family: both routes answer there.
    for fixed, family in (
        ("/api/v1/policies/check", "/api/v1/policies/{name}"),
        ("/api/v1/policies/backtest", "/api/v1/policies/{name}"),
        ("/api/v1/policies/calibrate", "/api/v1/policies/{name}"),
        ("/api/v1/kill-switches/preview", "/api/v1/kill-switches/{switch}"),
        ("/api/v1/sessions/bulk", "/api/v1/sessions/{session_id}"),
        ("/api/v1/chat/resume", "/api/v1/chat/{session_id}"),
    ):
        found[fixed] |= found[family]
    return {path: methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()) for path, methods in found.items()}


@pytest.mark.parametrize("path", every_path())
def test_a_method_that_an_address_does_not_take_is_answered_with_all_that_it_takes(
    client: httpx2.Client, path: str
) -> None:
    methods = every_path()[path]
    for method in METHODS:
        if method in methods and method != "OPTIONS":
            continue
        answer = client.request(method, filled(path))
        allowed = {one.strip() for one in answer.headers["allow"].split(",")}
        assert allowed == methods, (method, path)
        if method == "OPTIONS":
            assert (answer.status_code, answer.content) == (204, b"")
        else:
            assert answer.status_code == 405, (method, path)
            if method != "HEAD":
                assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", [path for path, methods in every_path().items() if "GET" in methods])
def test_head_answers_as_get_does_without_the_body_and_ends_where_a_stream_would_go_on(
    client: httpx2.Client, path: str
) -> None:
    headers = {"Accept": "text/event-stream"}
    with client.stream("GET", filled(path), headers=headers) as whole:
        pass
    head = client.head(filled(path), headers=headers)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers.get("content-type") == whole.headers.get("content-type")
    told = head.headers.get("content-length")
    # Of these two the answer says how long something took.
    assert told == whole.headers.get("content-length") or path in ("/metrics", "/api/v1/reports")


@pytest.mark.parametrize("path", ["midcourse", "/a b", "/a/../b", "/a?b", "//a", "/a;b", "/é", "/."])
def test_a_root_path_is_a_path(path: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a root path"):
        Server(store="memory://", token=TOKEN, agents={}, root_path=path)


async def test_a_prefix_that_is_there_already_is_not_put_before_it_again_unless_it_begins_an_address() -> None:
    seen: list[str] = []

    async def note(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["path"])

    async def ask(root: str, path: str) -> str:
        scope = {"type": "http", "root_path": root, "path": root + path}
        await Prefixed(note)(scope, None, None)  # pyright: ignore[reportArgumentType]
        return seen.pop()

    assert await ask("/x", "/api/v1/me") == "/x/api/v1/me"
    assert await ask("/x", "/x/api/v1/me") == "/x/api/v1/me"
    assert await ask("/x", "/x") == "/x"
    assert await ask("/x", "/xy") == "/x/xy"
    assert await ask("/api", "/api/v1/me") == "/api/api/v1/me"
    assert await ask("", "/api/v1/me") == "/api/v1/me"


def test_of_an_address_that_is_none_no_method_is_told(client: httpx2.Client) -> None:
    for method in METHODS:
        answer = client.request(method, "/api/v1/nothing")
        assert (answer.status_code, "allow" in answer.headers) == (404, False), method


def test_an_allowed_site_may_use_every_method_that_some_address_takes(client: httpx2.Client) -> None:
    for method, path in TABLE:
        asked = {"Origin": FRIEND, "Access-Control-Request-Method": method}
        answer = client.options(filled(path), headers=asked)
        assert answer.status_code == 200, (method, path, answer.text)
        assert method in answer.headers["access-control-allow-methods"].split(", ")


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_a_body_is_read_as_json_whatever_its_content_type_says(client: httpx2.Client, method: str, path: str) -> None:
    """``curl -d`` names a form's; some clients name none. All get the answer that JSON gets."""
    told: list[tuple[int, object]] = []
    for kind in ("application/json", FORM, "text/plain", "application/xml", ""):
        headers = {"Content-Type": kind} if kind else {}
        answer = client.request(method, filled(path), content=b'{"nonsense": 1}', headers=headers)
        told.append((answer.status_code, answer.json()["detail"]))
    assert told == told[:1] * 5
    assert told[0][0] == 422


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_null_counts_as_a_body_that_was_left_out_and_is_documented_where_it_may_be(
    client: httpx2.Client, method: str, path: str
) -> None:
    body = DOCUMENT["paths"][path][method.lower()]["requestBody"]
    [content] = body["content"].values()
    null, none = (client.request(method, filled(path), content=sent) for sent in (b"null", b""))
    takes_null = {"type": "null"} in content["schema"].get("anyOf", ())
    assert null.status_code == none.status_code
    assert (null.status_code != 422) is takes_null is not body.get("required", False)


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_a_body_that_cannot_be_read_is_400_and_says_so_in_a_code(client: httpx2.Client, method: str, path: str) -> None:
    for unreadable in (b"{", b"name=value&other=1", b'{"a": "\xff"}', b"[" * 100_000, b"<a/>"):
        answer = client.request(method, filled(path), content=unreadable, headers={"Content-Type": FORM})
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["field"]) == (400, "unreadable_body", "body"), unreadable
