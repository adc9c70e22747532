"""The example of a receiver acts once on what is genuine, and refuses what is forged, old, or recorded and sent again.

And with a real server that is killed while it sends: one delivery id for each ask, acted on once.
"""

import json
import os
import runpy
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from midcourse.people.webhook_signature import encode_secret, signed
from tests.examples.demo_server import Served, served
from tests.examples.expected import ROOT

EXAMPLE = runpy.run_path(str(ROOT / "examples" / "webhook-receiver" / "receiver.py"), run_name="receiver")
SECRET = encode_secret(b"s" * 32)
BODY = b'{"type":"ask.opened","version":1,"at":1.0,"data":{"session":"sess_1","prompt":"May I?"}}'
WITHIN = 60.0


@contextmanager
def receiving(folder: Path, secret: str = SECRET) -> Generator[Any]:
    """The example, in a thread of its own."""
    receiver = EXAMPLE["Receiver"](0, secret, folder / "received.db")
    thread = threading.Thread(target=receiver.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()


def done(folder: Path) -> list[tuple[str, str]]:
    """What the receiver did."""
    with closing(sqlite3.connect(folder / "received.db")) as ledger:
        return ledger.execute("SELECT kind, about FROM done ORDER BY rowid").fetchall()


def posted(receiver: Any, headers: dict[str, str], body: bytes = BODY) -> int:
    return httpx2.post(
        f"http://127.0.0.1:{receiver.server_port}/", content=body, headers=headers, timeout=30
    ).status_code


def test_what_is_genuine_is_acted_on_once_and_a_retry_is_answered_well(tmp_path: Path) -> None:
    now = int(time.time())
    with receiving(tmp_path) as receiver:
        assert posted(receiver, signed(SECRET, "msg_1", now - 5, BODY)) == 200
        assert posted(receiver, signed(SECRET, "msg_1", now, BODY)) == 200
    assert done(tmp_path) == [("ask.opened", "sess_1 May I?")]


def test_what_is_sent_again_to_the_letter_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    recorded = signed(SECRET, "msg_1", int(time.time()), BODY)
    with receiving(tmp_path) as receiver:
        assert posted(receiver, recorded) == 200
        assert posted(receiver, recorded) == 409
    with receiving(tmp_path) as receiver:
        assert posted(receiver, recorded) == 409
    assert len(done(tmp_path)) == 1


def forgeries() -> dict[str, dict[str, str]]:
    """Headers that are not of the secret's owner, or not of now."""
    now = int(time.time())
    good = signed(SECRET, "msg_1", now, BODY)
    return {
        "another id": {**good, "webhook-id": "msg_2"},
        "another time": {**good, "webhook-timestamp": str(now + 1)},
        "no signature": {**good, "webhook-signature": "v1,"},
        "half a signature": {**good, "webhook-signature": "v1"},
        "three parts": {**good, "webhook-signature": "v1,a,b"},
        "no headers": {},
        "another secret": signed(encode_secret(b"t" * 32), "msg_1", now, BODY),
        "too old": signed(SECRET, "msg_1", now - 301, BODY),
        "too new": signed(SECRET, "msg_1", now + 400, BODY),
        "another body": signed(SECRET, "msg_1", now, BODY.replace(b"May", b"Yes")),
    }


@pytest.mark.parametrize("forged", sorted(forgeries()))
def test_what_is_forged_or_old_is_refused_and_nothing_is_done(tmp_path: Path, forged: str) -> None:
    with receiving(tmp_path) as receiver:
        assert posted(receiver, forgeries()[forged]) == 401
        assert posted(receiver, {}, b"x" * 100_000) == 413
    assert done(tmp_path) == []


@pytest.mark.parametrize("length", [-1, 10**12])
def test_what_says_a_length_beyond_reason_is_refused_before_any_of_it_is_read(tmp_path: Path, length: int) -> None:
    with (
        receiving(tmp_path) as receiver,
        closing(socket.create_connection(("127.0.0.1", receiver.server_port))) as line,
    ):
        line.settimeout(WITHIN)
        line.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert line.recv(100).split(b" ")[1] == b"413", "it answers although the line stays open"


def test_the_page_shows_the_receiver_as_it_is() -> None:
    page = (ROOT / "docs" / "how-to" / "receive-webhooks.md").read_text(encoding="utf-8")
    receiver = (ROOT / "examples" / "webhook-receiver" / "receiver.py").read_text(encoding="utf-8")
    assert f"```python\n{receiver}```" in page


AGENT = """
import midcourse
from midcourse.people import webhook_sender

webhook_sender.LEASE = 1.0  # what the killed server had begun to send is nobody's after a second


@midcourse.agent
async def asker(run: midcourse.Run) -> str:
    return str(await run.ask("May I?", reason="need_approval"))
"""


def until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not look():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)


def test_a_receiver_sees_one_delivery_id_for_each_ask_although_the_server_is_killed_while_it_sends(
    tmp_path: Path,
) -> None:
    (tmp_path / "bot.py").write_text(AGENT, encoding="utf-8")
    came: list[tuple[str, str, str]] = []
    answers = threading.Event()
    receiver = _noting(EXAMPLE["Receiver"](0, SECRET, tmp_path / "received.db"), came, answers)
    thread = threading.Thread(target=receiver.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    with served(tmp_path, "--agents", "bot.py") as server:
        port = server.port
        with _api(server) as api:
            url = f"http://127.0.0.1:{receiver.server_port}/"
            made = api.post("/webhooks", json={"url": url, "kinds": ["ask.opened"]}).json()
            receiver.signer = type(receiver.signer)(made["secret"])
            for number in (1, 2):
                api.post("/sessions", json={"agent": "asker", "session_id": f"sess_{number}"})
            until(lambda: len(came) == 2, "the first deliveries")
        os.kill(server.process.pid, signal.SIGKILL)  # it sends, and has no answer yet
        server.process.wait()
    answers.set()
    with served(tmp_path, "--agents", "bot.py", port=port) as server, _api(server) as api:
        api.post("/sessions", json={"agent": "asker", "session_id": "sess_3"})
        place = f"/webhooks/{made['webhook']['id']}/deliveries"

        def delivered() -> bool:
            states = [one["state"] for one in api.get(place).json()["deliveries"]]
            return states == ["delivered"] * 3

        until(delivered, "all to be delivered")
    receiver.shutdown()
    thread.join()
    receiver.server_close()
    ids = {session: {name for one, name, _ in came if one == session} for session, _, _ in came}
    assert {session: len(names) for session, names in ids.items()} == {"sess_1": 1, "sess_2": 1, "sess_3": 1}
    assert len({name for _, name, _ in came}) == 3
    assert sum(session == "sess_1" for session, _, _ in came) == 2, "it was sent again, with the same id"
    assert sorted(done(tmp_path)) == [("ask.opened", f"sess_{one} May I?") for one in (1, 2, 3)]


def _noting(receiver: Any, came: list[tuple[str, str, str]], answers: threading.Event) -> Any:
    """The same, which notes what comes, and answers when it may."""
    genuine: Callable[[dict[str, str], bytes], int] = receiver.receive

    def receive(headers: dict[str, str], body: bytes) -> int:
        status = genuine(headers, body)
        assert status == 200
        came.append((json.loads(body)["data"]["session"], headers["webhook-id"], headers["webhook-timestamp"]))
        answers.wait(WITHIN)
        return status

    receiver.receive = receive
    return receiver


def _api(server: Served) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx2.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=30)
