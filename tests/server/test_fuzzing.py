"""Whatever is sent, nobody is hurt: every refusal is a problem with a known code, and the sessions stand as they stood.

A longer search: ``MIDCOURSE_FUZZ_EXAMPLES=1000 pytest tests/server/test_fuzzing.py``.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from midcourse.server import CallerLimits
from midcourse.server.openapi_examples import REQUESTS
from midcourse.server.problem_codes import CODES
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import Standing, standing

EXAMPLES = int(os.environ.get("MIDCOURSE_FUZZ_EXAMPLES", "10"))
BODIES: Mapping[str, str] = {
    "POST /sessions": "NewSession",
    "POST /sessions/{}/fork": "Fork",
    "POST /sessions/{}/pause": "Pause",
    "POST /sessions/{}/resume": "Resume",
    "POST /sessions/{}/redirect": "Redirect",
    "POST /sessions/{}/cancel": "Cancel",
    "POST /sessions/{}/undo": "Undo",
    "POST /sessions/{}/answer": "Answer",
    "POST /sessions/{}/message": "Message",
    "POST /sessions/{}/event": "OutsideEvent",
    "POST /sessions/{}/budget": "Budget",
    "POST /sessions/{}/label": "Label",
    "POST /sessions/{}/rate": "Rate",
    "PATCH /sessions/{}/messages/msg_1": "Edit",
    "POST /tokens": "NewToken",
    "POST /policies/check": "PolicyDraft",
    "POST /policies/backtest": "PolicyTrial",
    "POST /policies/calibrate": "PolicyCalibration",
    "PUT /policies/mine": "NewPolicy",
    "POST /proposals/prop_1/accept": "Settling",
    "POST /proposals/prop_1/refuse": "Settling",
    "POST /chat": "Chat",
    "POST /chat/resume": "ChatResume",
}
"""The addresses that read a body, and what they expect."""
READS = (
    *(
        "GET /sessions/{}",
        "GET /sessions/{}/contact",
        "GET /sessions/{}/inspect",
        "GET /sessions/{}/events",
        "GET /sessions/{}/receipt",
    ),
    *("GET /sessions/{}/cancel/preview", "GET /sessions/{}/result", "GET /sessions/{}/blobs/0", "GET /chat/{}"),
    "GET /sessions/{}/interventions",
    "GET /sessions/{}/signals",
)
QUERIES = (
    *("GET /sessions", "GET /audit", "GET /sessions/{}/inspect", "GET /sessions/{}/events"),
    *("GET /sessions/{}/result", "GET /chat/{}"),
    *("GET /interventions", "GET /alarms"),
    *("GET /reports", "GET /checklist", "GET /proposals"),
)


@dataclass(frozen=True)
class Answer:
    """What came back, as far as it was read: of a stream the head alone."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Sends bytes as they are, one request per connection."""

    def __init__(self, running: Running) -> None:
        where = urlsplit(running.url)
        self._address = (where.hostname or "", where.port or 0)
        self._host = where.netloc.encode()

    def send(
        self,
        method: str,
        target: bytes,
        body: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        kind: bytes = b"application/json",
        length: bool = True,
    ) -> Answer:
        """Ask at ``/api/v1`` and ``target``."""
        lines = [method.encode() + b" /api/v1" + target + b" HTTP/1.1", b"Host: " + self._host]
        lines += [b"Authorization: Bearer " + TOKEN.encode(), b"Connection: close"]
        if body is not None and kind:
            lines.append(b"Content-Type: " + kind)
        if body is not None and length:
            lines.append(b"Content-Length: %d" % len(body))
        lines += [name + b": " + value for name, value in headers]
        with socket.create_connection(self._address, timeout=30) as talking:
            with contextlib.suppress(ConnectionError):  # refused before its end: the answer is there all the same
                talking.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))
            return _heard(talking)


def _heard(talking: socket.socket) -> Answer:
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = talking.recv(65536)
        assert piece, f"the server hung up: {heard!r}"
        heard += piece
    head, _, rest = heard.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if not headers.get("content-type", "").startswith("text/event-stream"):
        while len(rest) < int(headers.get("content-length", 0)) and (piece := talking.recv(65536)):
            rest += piece
    return Answer(status, headers, rest)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving("memory://", standing, limits=CallerLimits(rate=1e6, burst=1_000_000)) as one:
        yield one


@pytest.fixture(scope="module")
def people(running: Running) -> Iterator[Standing]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        yield Standing(client)


class Attempt:
    """Sends something to sessions that stand, and judges what comes of it."""

    def __init__(self, running: Running, people: Standing) -> None:
        self.wire = Wire(running)
        self._people = people
        self.sessions = people.kept()
        self._marks = {name: self._mark(name) for name in self.sessions.values()}

    def _mark(self, name: str) -> str:
        return self._people.look(name)["etag"]

    def judge(self, answer: Answer, status: str = "paused") -> Answer:
        """It is no failure of the server, and what was refused has changed nothing in the session of that status."""
        assert answer.status < 500, answer
        if answer.status >= 400:
            assert_problem(answer)
        name = self.sessions[status]
        if answer.status < 400:  # from here on it may move by itself
            self._marks.pop(name, None)
        elif name in self._marks:
            assert self._mark(name) == self._marks[name], answer
        return answer


def assert_problem(answer: Answer) -> None:
    """It says what happened: in words, and in a code that is told of."""
    assert answer.headers["content-type"] == "application/problem+json", answer
    problem: dict[str, Any] = json.loads(answer.body)
    assert CODES[problem["code"]].status == problem["status"] == answer.status
    assert problem["type"] == f"urn:midcourse:error:{problem['code']}"
    assert len(problem["detail"].split()) > 2, problem
    assert "Traceback" not in problem["detail"]
    assert len(answer.body) < 20_000, "a problem is not an echo"


@pytest.fixture
def attempt(running: Running, people: Standing) -> Attempt:
    return Attempt(running, people)


def searched(test: Callable[..., None]) -> Callable[..., None]:
    """The same examples each time; more of them if the environment says so."""
    bounded = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    return seed(1)(bounded(test))


# ---- bodies

DEEP = 100_000
NASTY: Mapping[str, bytes] = {
    "nothing": b"",
    "not UTF-8": b'{"reason": "\xff\xfe"}',
    "UTF-16": '{"reason": "x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"reason": "x"}',
    "cut off": b'{"reason": "x',
    "a list": b"[]",
    "a number": b"7",
    "a text": b'"pause"',
    "null": b"null",
    "NaN": b'{"wait": NaN, "budget": NaN, "grace": NaN, "value": NaN, "answer": NaN}',
    "infinite": b'{"wait": 1e999, "budget": Infinity, "grace": -Infinity, "value": 1e999}',
    "a huge number": b'{"wait": %s, "at": %s, "budget": %s}' % ((b"9" * 5000,) * 3),
    "below zero": b'{"wait": -1, "at": -1, "budget": -1, "grace": -1}',
    "nested deeply": b"[" * DEEP,
    "nested deeply in an answer": b'{"value": %s%s, "answer": 1}' % (b"[" * DEEP, b"]" * DEEP),
    "objects nested deeply": b'{"value":' * DEEP + b"1" + b"}" * DEEP,
    "a lone surrogate": rb'{"text": "\ud800", "reason": "\udfff", "value": "\ud800", "agent": "\ud800"}',
    "a lone surrogate as a name": rb'{"\ud800": 1}',
    "the same name twice": b'{"reason": 1, "reason": "x", "text": "a", "text": 1}',
    "an unknown name": b'{"Reason": "x"}',
    "a name of the runtime": b'{"__class__": "x", "by": "root", "role": "operate", "id": "x"}',
    "a long name": b'{"%s": 1}' % (b"n" * 1_000_000),
    "a long text": b'{"text": "%s", "reason": "%s"}' % (b"x" * 900_000, b"x" * 900_000),
    "many names": b"{%s}" % b",".join(b'"n%d": 1' % number for number in range(50_000)),
}


@pytest.mark.parametrize("nasty", NASTY)
def test_a_nasty_body_is_refused_with_a_problem_and_changes_nothing(attempt: Attempt, nasty: str) -> None:
    grants = {"nothing", "null", "UTF-16", "a byte order mark"}  # the first two leave the body out, where they may
    for address, wanted in BODIES.items():
        target = _filled(attempt, address, "paused")
        answer = attempt.judge(attempt.wire.send(_method(address), target, NASTY[nasty]))
        may_be_left_out = wanted in ("Fork", "Pause", "Resume", "Cancel", "Undo")
        assert answer.status >= 400 or (nasty in grants and may_be_left_out), (address, answer)


def _method(address: str) -> str:
    return address.partition(" ")[0]


def _filled(attempt: Attempt, address: str, status: str) -> bytes:
    return address.partition(" ")[2].format(attempt.sessions[status]).encode()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        ["\0", "\ud800", "..", "/", "a/b", "ask_1", "msg_1", "pause_1", "queued_1", "é" * 300, "x" * 100_001]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("address", BODIES)
def test_no_body_does_harm(attempt: Attempt, address: str) -> None:
    example = REQUESTS[BODIES[address]]
    bodies = st.one_of(
        st.binary(max_size=50),
        VALUES.map(_spelled),
        st.dictionaries(st.sampled_from([*example, "session_id", "wait", "until"]), VALUES, max_size=4).map(
            lambda changes: _spelled({**example, **changes})
        ),
    )
    statuses = st.sampled_from(sorted(attempt.sessions))

    @searched
    @given(body=bodies, status=statuses)
    def ask(body: bytes, status: str) -> None:
        attempt.judge(attempt.wire.send(_method(address), _filled(attempt, address, status), _hurried(body)), status)

    ask()


def _spelled(value: object) -> bytes:
    return json.dumps(value).encode()


def _hurried(body: bytes) -> bytes:
    """Nobody waits here for what never comes."""
    try:
        wish: Any = json.loads(body)
    except ValueError:
        return body
    if isinstance(wish, dict) and "wait" not in wish and "agent" not in wish and "answer" not in wish:
        hurried: dict[str, Any] = {**wish, "wait": 0.05}
        return json.dumps(hurried).encode() if wish else body
    return body


# ---- addresses

NASTY_IDS = (
    *(b"%00", b"%2F", b"..", b"%2e%2e", b".", b"%2e%2e%2f%2e%2e%2fetc%2fpasswd", b"a%2Fb", b"*", b"%", b"%zz", b"%ff"),
    *(b"%ed%a0%80", b"%F0%9F%8E%89", b"%E2%80%AE", b"%0d%0aX-Evil:%201", b"%20", b"'--", b"%22", b"{session_id}", b"~"),
    *(
        b"a" * 10_000,
        b"%41" * 10_000,
        b"sess_42%00",
        b"s1.running%2e",
        b"%C0%AF",
        b"%u0041",
        b"+",
        b";a=b",
        b"a?b",
        b"a%23b",
    ),
)


@pytest.mark.parametrize(
    "address", [*READS, *(one for one in BODIES if "{}" in one), "DELETE /sessions/{}/messages/msg_1"]
)
def test_a_nasty_id_names_nothing(attempt: Attempt, address: str) -> None:
    for nasty in NASTY_IDS:
        before, _, after = address.partition(" ")[2].encode().partition(b"{}")
        body = _spelled(REQUESTS[BODIES[address]]) if address in BODIES else None
        answer = attempt.judge(attempt.wire.send(_method(address), before + nasty + after, body))
        # With a dot in it an address may be another one, which takes no such method.
        assert answer.status in (404, 405, 422) or nasty in (b"a?b", b".", b".."), (nasty, answer)


@pytest.mark.parametrize(
    "address",
    ["PATCH /sessions/{}/messages/", "DELETE /sessions/{}/messages/", "GET /sessions/{}/blobs/", "DELETE /tokens/"],
)
def test_a_nasty_name_names_nothing(attempt: Attempt, address: str) -> None:
    for nasty in NASTY_IDS:
        body = b'{"text": "other words"}' if "PATCH" in address else None
        answer = attempt.judge(attempt.wire.send(_method(address), _filled(attempt, address, "paused") + nasty, body))
        assert answer.status in (404, 405, 422) or nasty in (b"a?b", b".", b".."), (nasty, answer)


@pytest.mark.parametrize("address", READS)
def test_no_id_does_harm(attempt: Attempt, address: str) -> None:
    # What the parser of HTTP takes in a target; what it does not is its own to refuse (test_protocol.py).
    parts = st.binary(min_size=1, max_size=30).map(_target)

    @searched
    @given(part=parts)
    def ask(part: bytes) -> None:
        before, _, after = address.partition(" ")[2].encode().partition(b"{}")
        attempt.judge(attempt.wire.send("GET", before + part + after))

    ask()


def _target(raw: bytes) -> bytes:
    return b"".join(
        bytes([one]) if (chr(one).isalnum() and one < 128) or one in b"-._~%/;=" else b"%%%02x" % one for one in raw
    )


# ---- queries


@pytest.mark.parametrize("address", QUERIES)
def test_no_query_does_harm(attempt: Attempt, address: str) -> None:
    names = st.sampled_from(
        [
            "after",
            "limit",
            "at",
            "wait",
            "status",
            "agent",
            "search",
            "cursor",
            "deltas",
            "follow",
            "x",
            "since",
            "label",
            "person",
            "gather",
        ]
    )
    values = st.one_of(
        st.binary(max_size=20).map(_target),
        st.sampled_from(
            [b"-1", b"9" * 400, b"1e9", b"NaN", b"inf", b"1.5", b"", b"true", b"%00", b"%ed%a0%80", b"null", b"0x10"]
        ),
        st.integers(-5, 2**70).map(lambda number: str(number).encode()),
    )

    @searched
    @given(pairs=st.lists(st.tuples(names, values), max_size=4))
    def ask(pairs: list[tuple[str, bytes]]) -> None:
        # A wait that is taken is waited for: elsewhere.
        query = b"&".join(
            name.encode() + b"=" + value for name, value in pairs if name != "wait" or not value.isdigit()
        )
        attempt.judge(attempt.wire.send("GET", _filled(attempt, address, "waiting") + b"?" + query), "waiting")

    ask()


# ---- headers

NASTY_HEADERS: Mapping[bytes, Sequence[bytes]] = {
    b"Idempotency-Key": (b"", b" ", b"x" * 129, b"x" * 10_000, b"\xff", b"\xc3\xa9", b"a\tb", b'"quoted"', b"\x7f"),
    b"If-Match": (b"", b"*", b'"', b'W/"x"', b"pause_99", b'"pause_1"', b"\xff", b"x" * 5000, b'"a", "b"', b"sess_1@1"),
    b"Last-Event-ID": (b"-1", b"1.5", b"9" * 30, b"\xff", b"x", b"\xd9\xa3", b"0x1", b"1e3", b"99999999999999"),
    b"Content-Type": (
        b"",
        b"text/plain",
        b"application/json; charset=utf-16",
        b"json",
        b"\xff",
        b"a" * 5000,
        b"application/xml",
    ),
    b"Accept": (b"", b"text/plain", b"*/*;q=0", b"\xff", b"application/json;q=nonsense", b"text/event-streams"),
    b"Accept-Encoding": (b"nonsense", b"\xff"),
    b"Authorization": (b"", b"Bearer", b"Bearer  ", b"Basic eDp5", b"Bearer \xff", b"Bearer " + b"x" * 5000),
    b"Cookie": (b"midcourse_80=\xff", b"midcourse_80=mcb_%00", b";;;=", b"midcourse_80=a; midcourse_80=b"),
    b"Origin": (b"null", b"http://evil.example", b"\xff", b"x" * 5000, b"file://"),
    b"Content-Length": (b"-1", b"+5", b"1, 2", b"abc", b"9" * 30, b"0x5", b"1_0"),
    b"Transfer-Encoding": (
        b"chunked, chunked",
        b"gzip",
        b"identity",
        b"xchunked",
        b"\x0bchunked",
        b"CHUNKED",
        b"chunked;q=1",
    ),
    b"Host": (b"evil.example", b"", b"127.0.0.1:99999", b"\xff"),
    b"Expect": (b"200-ok",),
    b"Upgrade": (b"websocket", b"h2c"),
    b"X-Forwarded-For": (b"\xff", b"1.2.3.4, 5.6.7.8"),
    b"Sec-Fetch-Site": (b"cross-site", b"\xff"),
}


@pytest.mark.parametrize("name", NASTY_HEADERS, ids=lambda name: name.decode())
def test_a_nasty_header_is_refused_with_a_problem_or_does_not_matter(attempt: Attempt, name: bytes) -> None:
    asks = (
        ("GET", _filled(attempt, "GET /sessions/{}/events", "waiting"), None),
        ("POST", _filled(attempt, "POST /sessions/{}/resume", "waiting"), b"{}"),
        ("POST", b"/chat/resume", b'{"session_id": "none", "answer": 1}'),
    )
    for value in NASTY_HEADERS[name]:
        for method, target, body in asks:
            answer = _told(attempt, method, target, body, name, value)
            if answer is not None:
                attempt.judge(answer, "waiting")
                assert answer.status != 200 or method == "GET", (value, answer)


def _told(attempt: Attempt, method: str, target: bytes, body: bytes | None, name: bytes, value: bytes) -> Answer | None:
    """The answer of the application; None if HTTP itself was broken, which its parser refuses in its own words."""
    # A second one of what a client sends anyway says nothing new.
    kind = b"" if name == b"Content-Type" else b"application/json"
    length = name not in (b"Content-Length", b"Transfer-Encoding")
    answer = attempt.wire.send(method, target, body, [(name, value)], kind=kind, length=length)
    if answer.status == 400 and answer.headers.get("content-type", "").startswith("text/plain"):
        return None
    return answer


def test_no_header_does_harm(attempt: Attempt) -> None:
    names = st.sampled_from(sorted({*NASTY_HEADERS} - {b"Content-Length", b"Transfer-Encoding", b"Host"}))
    values = st.binary(max_size=40).map(lambda raw: bytes(one for one in raw if one >= 32 and one != 127))

    @searched
    @given(headers=st.lists(st.tuples(names, values), max_size=4), status=st.sampled_from(sorted(attempt.sessions)))
    def ask(headers: list[tuple[bytes, bytes]], status: str) -> None:
        target = _filled(attempt, "POST /sessions/{}/undo", status)
        attempt.judge(attempt.wire.send("POST", target, b'{"wait": 0.05}', headers), status)

    ask()


def test_an_address_that_is_none_and_a_method_that_is_not_taken_are_problems(attempt: Attempt) -> None:
    for method, target in (
        ("GET", b"/nothing"),
        ("GET", b""),
        ("PUT", b"/sessions"),
        ("TRACE", b"/me"),
        ("GET", b"/chat"),
        ("BREW", b"/me"),
    ):
        answer = attempt.wire.send(method, target)
        if answer.status != 400:  # a word that the parser of HTTP does not know as a method
            assert_problem(answer)
            assert answer.status in (404, 405)
            assert answer.status == 404 or answer.headers["allow"]
