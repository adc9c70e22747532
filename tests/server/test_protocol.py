"""A connection that says nothing, too little or too much does not stay."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from midcourse.server.http_protocol import HEAD_BYTES, HEAD_LINES, PatientProtocol, patient
from midcourse.server.limits import BodyLimit
from tests.examples.demo_server import served as serve_in
from tests.server.raw_server import connected, poured, served, told, trickling

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class HastyProtocol(PatientProtocol):
    """Waits a moment only, so that the tests do."""

    head_seconds = 0.3


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


async def reads_all(scope: Scope, receive: Receive, send: Send) -> None:
    size = 0
    while (message := await receive())["type"] == "http.request":
        size += len(message["body"])
        if not message["more_body"]:
            await PlainTextResponse(f"got {size}")(scope, receive, send)
            return


def test_a_request_is_answered_and_the_next_on_the_same_connection() -> None:
    with served(hello) as address, connected(address) as talking:
        talking.sendall(GET + b"\r\n" + GET + b"Connection: close\r\n\r\n")
        assert told(talking).count(b"200 OK") == 2


def test_who_says_nothing_is_hung_up_on() -> None:
    with served(hello, HastyProtocol) as address, connected(address) as talking:
        assert told(talking) == b""


def test_headers_that_do_not_come_to_an_end_are_given_up() -> None:
    with served(hello, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(GET)
        assert told(talking).startswith(b"HTTP/1.1 408 ")


def test_a_trickle_of_headers_does_not_hold_the_connection() -> None:
    with served(hello, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(GET)
        with trickling(talking, b"X"):
            assert b"200 OK" not in told(talking)  # it ends at all


def test_empty_lines_between_requests_do_not_hold_the_connection() -> None:
    with served(hello, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(GET + b"\r\n")
        with trickling(talking, b"\r\n"):
            assert told(talking).count(b"HTTP/1.1") == 1


def test_a_stream_may_be_as_slow_as_it_likes() -> None:
    goes_on = threading.Event()

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"first;"
            await asyncio.to_thread(goes_on.wait, 30)
            yield b"last;"

        await StreamingResponse(pieces())(scope, receive, send)

    with served(streams, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(GET + b"Connection: close\r\n\r\n")
        heard = b""
        while b"first;" not in heard:
            heard += talking.recv(4096)
        threading.Event().wait(1.0)  # three times what a head may take
        goes_on.set()
        assert b"last;" in told(talking)


HALF_OPEN = (
    b"",
    b"G",
    GET + b"X-A: b",
    b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
)
"""What a client has said that says no more: nothing, part of a head, part of a body."""


def test_of_hundreds_of_half_open_connections_none_stays_and_others_are_answered_meanwhile() -> None:
    app = BodyLimit(reads_all, seconds=0.9)
    with served(app, patient(0.3, 1000)) as address, contextlib.ExitStack() as stack:
        talking = [stack.enter_context(connected(address)) for _ in range(200)]
        for number, one in enumerate(talking):
            one.sendall(HALF_OPEN[number % len(HALF_OPEN)])
        with connected(address) as other:
            other.sendall(GET + b"Connection: close\r\n\r\n")
            assert b"200 OK" in told(other)
        heard = [told(one)[:13] for one in talking]
    # One whose bytes a busy machine had not read in time was closed as one that said nothing.
    assert set(heard) == {b"", b"HTTP/1.1 408 "}
    assert set(heard[0::4]) == {b""}


def test_of_the_connections_that_wait_the_one_that_has_waited_longest_makes_room() -> None:
    """Those that came and said nothing, and those that are kept for a next request. One at work makes no room."""
    goes_on = threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await asyncio.to_thread(goes_on.wait, 30)
        await hello(scope, receive, send)

    def ask(talking: socket.socket) -> None:
        talking.sendall(GET + b"\r\n")
        heard = b""
        while not heard.endswith(b"hello"):
            piece = talking.recv(4096)
            assert piece, "it was closed"
            heard += piece

    with served(slow, patient(60, 3)) as address, contextlib.ExitStack() as stack:

        def come() -> socket.socket:
            return stack.enter_context(connected(address))

        works = come()
        works.sendall(GET.replace(b"/", b"/slow", 1) + b"Connection: close\r\n\r\n")
        kept = come()
        ask(kept)
        silent, other, third = come(), come(), come()
        ask(third)  # they are taken in the order in which they came
        assert told(kept) == b""
        ask(other)  # from here on it has waited for a shorter time than the silent one
        ask(come())
        assert told(silent) == b""
        ask(third)
        ask(other)
        goes_on.set()
        assert b"200 OK" in told(works)


def test_a_server_gives_requests_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    with serve_in(tmp_path, "--demo", "--request-timeout", "300ms") as server, contextlib.ExitStack() as stack:
        where = ("127.0.0.1", server.port)
        talking = [stack.enter_context(connected(where)) for _ in range(40)]
        for number, one in enumerate(talking):
            one.sendall(HALF_OPEN[number % len(HALF_OPEN)])
        refused = b"HTTP/1.1 408 "
        assert [told(one)[:13] for one in talking] == [b"", refused, refused, refused] * 10


def test_too_many_header_lines_are_refused() -> None:
    with served(hello) as address, connected(address) as talking:
        talking.sendall(GET + b"X-A: b\r\n" * HEAD_LINES + b"\r\n")
        assert told(talking).startswith(b"HTTP/1.1 431 ")


def test_as_many_header_lines_as_allowed_are_taken() -> None:
    with served(hello) as address, connected(address) as talking:
        talking.sendall(GET + b"X-A: b\r\n" * (HEAD_LINES - 2) + b"Connection: close\r\n\r\n")
        assert told(talking).startswith(b"HTTP/1.1 200 ")


def test_large_headers_are_refused_though_they_come_to_an_end() -> None:
    with served(hello) as address, connected(address) as talking:
        talking.sendall(GET + (b"X-A: " + b"b" * 8000 + b"\r\n") * 9 + b"\r\n")
        assert told(talking).startswith(b"HTTP/1.1 431 ")


def test_a_long_target_is_refused() -> None:
    with served(hello) as address, connected(address) as talking:
        poured(talking, b"GET /" + b"a" * (HEAD_BYTES + 10) + b" HTTP/1.1\r\n\r\n", 1)
        assert b"200 OK" not in told(talking)


def _hangs_up_on(address: tuple[str, int], start: bytes, endless: bytes) -> bool:
    """Whether the server stops listening before 64 MiB of ``endless``."""
    with connected(address) as talking:
        talking.sendall(start)
        try:
            for _ in range(1024):
                talking.sendall(endless * (65536 // len(endless)))
        except ConnectionError:
            return True
        return False


def test_one_endless_header_is_cut_off() -> None:
    with served(hello) as address:
        assert _hangs_up_on(address, GET + b"X-A: ", b"b")


def test_endless_empty_lines_are_cut_off() -> None:
    with served(hello) as address:
        assert _hangs_up_on(address, b"", b"\r\n")


def test_an_endless_trailer_is_cut_off() -> None:
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-A: "
    with served(reads_all) as address:
        assert _hangs_up_on(address, post, b"b")


def test_the_rest_of_a_body_nobody_reads_does_not_hold_the_connection() -> None:
    with served(hello, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc")
        with trickling(talking, b"x"):
            assert told(talking).startswith(b"HTTP/1.1 200 ")  # and closes


def test_a_body_that_is_read_may_take_longer_than_a_head() -> None:
    with served(reads_all, HastyProtocol) as address, connected(address) as talking:
        talking.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nab")
        threading.Event().wait(1.0)  # three times what a head may take
        talking.sendall(b"cd")
        assert told(talking).endswith(b"got 4")


def test_nonsense_is_refused() -> None:
    with served(hello) as address, connected(address) as talking:
        talking.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert told(talking).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_trickles_is_given_up() -> None:
    with served(BodyLimit(reads_all, seconds=0.3)) as address, connected(address) as talking:
        talking.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc")
        heard = told(talking)
        assert heard.startswith(b"HTTP/1.1 408 ")
        assert b"request_timeout" in heard


def test_a_declared_body_that_is_too_large_is_refused_unread_and_the_answer_arrives() -> None:
    with served(BodyLimit(reads_all, limit=1000)) as address, connected(address) as talking:
        talking.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n")
        talking.sendall(b"x" * 8_000_000)  # nobody hangs up in between
        heard = told(talking)
        assert heard.startswith(b"HTTP/1.1 413 ")
        assert b"body_too_large" in heard


def test_a_chunked_body_that_is_too_large_is_refused() -> None:
    with served(BodyLimit(reads_all, limit=1000)) as address, connected(address) as talking:
        talking.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        poured(talking, b"3e8\r\n" + b"x" * 1000 + b"\r\n", 2)
        talking.sendall(b"0\r\n\r\n")
        assert told(talking).startswith(b"HTTP/1.1 413 ")


def test_an_endless_body_is_cut_off() -> None:
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(BodyLimit(reads_all, limit=1000)) as address:
        assert _hangs_up_on(address, post, b"40\r\n" + b"x" * 64 + b"\r\n")
