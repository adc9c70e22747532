"""A small real remote: it does what it is asked to even if the asker has gone away, and counts what it did.

``POST /do?name=…&key=…&delay=…`` does something, after a delay; ``POST /undo?name=…&key=…`` takes it back;
``GET /did?key=…`` tells how often it was done. How a request of a name is met can be said beforehand: see ``Manner``.
"""

import json
import select
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

Manner = Literal["now", "gone", "let", "lost", "refused"]
"""When a request is carried out: now, when its client has gone away, when the test lets it, never; or it is refused."""


class Act(NamedTuple):
    """Something the remote did: ``did``, ``knew`` (had done it, and did nothing), ``undid``, ``nothing to undo``."""

    what: str
    name: str
    key: str


class Flying:
    """A request that lands when its client has gone away."""

    def __init__(self, key: str, client: socket.socket) -> None:
        self.key = key
        self.client = client
        self.due: float | None = None
        """When it lands; None as long as nobody has noticed that its client has gone."""
        self.landed = threading.Event()

    @property
    def is_overdue(self) -> bool:
        """Whether only a busy machine has kept it from landing."""
        if self.landed.is_set():
            return False
        return _is_gone(self.client) if self.due is None else self.due <= time.monotonic()


class Remote:
    """What the remote has seen and done, from the test's side."""

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.arrived: Counter[str] = Counter()
        self.told: list[int] = []
        """What it answered to those who wanted to know whether it had done it."""
        self.late = 0.0
        """Seconds between a client's leaving and its request's landing."""
        self._manners: dict[str, deque[Manner]] = {}
        self._remembers: set[str] = set()
        self._let: dict[str, threading.Event] = {}
        self._flying: list[Flying] = []
        self._lock = threading.Lock()
        self.url = ""

    # ---- told by the test

    def meet(self, name: str, *manners: Manner) -> None:
        """Meet the next requests of that name so; those behind them are carried out at once."""
        self._manners[name] = deque(manners)

    def let(self, name: str) -> None:
        """Carry out what waits for this."""
        self._event(name).set()

    def remembers(self, name: str) -> None:
        """A second request under a key does nothing: what an idempotent call relies on."""
        self._remembers.add(name)

    # ---- counted

    def executed(self, name: str) -> int:
        """How often it acted."""
        return len(self._of("did", name))

    def keys(self, name: str) -> int:
        """Under how many different keys."""
        return len(set(self._of("did", name)))

    def undone(self, name: str) -> int:
        """How often it took something back that it had done."""
        return len(self._of("undid", name))

    def standing(self, name: str) -> int:
        """What is left of it in the end."""
        return self.executed(name) - self.undone(name)

    def _of(self, what: str, name: str) -> list[str]:
        with self._lock:
            return [act.key for act in self.acts if (act.what, act.name) == (what, name)]

    def _event(self, name: str) -> threading.Event:
        with self._lock:
            return self._let.setdefault(name, threading.Event())

    # ---- asked by clients, each in a thread of its own

    def do(self, name: str, key: str, delay: float, client: socket.socket) -> int | None:
        """Carry out a request in the manner that was said for it; None if it is not answered."""
        flying = Flying(key, client)
        try:
            return self._done(name, key) if self._carries_out(name, delay, flying) else None
        finally:
            flying.landed.set()

    def _done(self, name: str, key: str) -> int:
        with self._lock:
            known = name in self._remembers and any(act.key == key and act.what == "did" for act in self.acts)
            self.acts.append(Act("knew" if known else "did", name, key))
            return sum(act.what == "did" and act.name == name for act in self.acts)

    def _carries_out(self, name: str, delay: float, flying: Flying) -> bool:
        """Wait as long as was said; whether it is carried out at all."""
        with self._lock:
            self.arrived[name] += 1
            left = self._manners.get(name)
            manner = left.popleft() if left else "now"
            if manner in ("gone", "lost"):
                self._flying.append(flying)
        if manner in ("gone", "lost"):
            _until_gone(flying.client)
            delay += self.late
            flying.due = time.monotonic() + delay
        if manner == "let":
            self._event(name).wait()
        threading.Event().wait(delay)
        return manner not in ("lost", "refused")

    def undo(self, name: str, key: str, client: socket.socket) -> int | None:
        """Take back what was done under a key, if it was and still stands. It is met as ``undo …``."""
        flying = Flying(key, client)
        try:
            return self._undone(name, flying) if self._carries_out(f"undo {name}", 0.0, flying) else None
        finally:
            flying.landed.set()

    def _undone(self, name: str, flying: Flying) -> int:
        key = flying.key
        self._let_land(key, flying)
        with self._lock:
            stands = Counter(act.what for act in self.acts if act.key == key)
            what = "undid" if stands["did"] > stands["undid"] else "nothing to undo"
            self.acts.append(Act(what, name, key))
            return stands["undid"] + 1

    def did(self, key: str) -> int:
        """How often a request under a key was carried out."""
        self._let_land(key)
        with self._lock:
            self.told.append(sum(act.what == "did" and act.key == key for act in self.acts))
            return self.told[-1]

    def _let_land(self, key: str, own: Flying | None = None) -> None:
        """What came before under that key comes first, however the threads of a busy machine are scheduled."""
        with self._lock:
            before = self._flying[: self._flying.index(own)] if own in self._flying else list(self._flying)
        for one in before:
            if one.key == key and one.is_overdue:
                one.landed.wait()

    def land(self) -> None:
        """Until nothing is on its way any more; every client must have gone."""
        with self._lock:
            flying = list(self._flying)
        for one in flying:
            one.landed.wait()

    def end(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            waiting = list(self._let.values())
        for event in waiting:
            event.set()


def _until_gone(client: socket.socket) -> None:
    while not _is_gone(client, None):
        pass


def _is_gone(client: socket.socket, wait: float | None = 0.0) -> bool:
    poll = select.poll()
    poll.register(client, select.POLLIN)
    if not poll.poll(wait):
        return False
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True


class _Handler(BaseHTTPRequestHandler):
    remote: Remote

    def do_POST(self) -> None:
        """A request to act."""
        path, name, key, delay = self._asked()
        if path == "/undo":
            number = self.remote.undo(name, key, self.connection)
        else:
            number = self.remote.do(name, key, delay, self.connection)
        if number is None:
            self._answer(503, None)
        else:
            self._answer(200, number)

    def do_GET(self) -> None:
        """A request to tell."""
        self._answer(200, self.remote.did(self._asked()[2]))

    def _asked(self) -> tuple[str, str, str, float]:
        target = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(target.query).items()}
        return target.path, asked.get("name", ""), asked.get("key", ""), float(asked.get("delay", 0))

    def _answer(self, code: int, content: object) -> None:
        body = json.dumps(content).encode()
        try:
            self.send_response_only(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:  # the client has gone away; what was done is done
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error here."""


@contextmanager
def serving() -> Generator[Remote]:
    """A remote that serves on a free port of this machine."""
    remote = Remote()
    handler = type("Handler", (_Handler,), {"remote": remote})
    server = _Server(("127.0.0.1", 0), handler)
    remote.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield remote
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()
        remote.end()
