"""Policies tried and calibrated over HTTP on a server's own runs: as a document, as a stream, and for nobody."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from midcourse.analysis.reports import trial_process
from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput
from midcourse.handle.http.address import address_of
from midcourse.handle.http.connection import HttpConnection
from midcourse.handle.http.policies import RemotePolicies
from midcourse.wiring import open_store
from tests.reports.recordings import FAILED, SUCCEEDED, recorded
from tests.reports.stores import keep
from tests.server.live_server import TOKEN, Running, serving

TIGHTER = "policy: standard\nextends: standard@1\nsignals:\n  loops: {intervene: 4}\n"
Data = dict[str, Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a store in which sessions have run."""
    where = f"sqlite:///{tmp_path_factory.mktemp('trials')}/runs.db"

    async def fill() -> None:
        store = await open_store(where)
        await keep(store, *recorded(SystemClock().now()))
        await store.close()

    asyncio.run(fill())
    with serving(where) as found:
        yield found


@pytest.fixture
def client(running: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as one:
        yield one


def frames(content: str) -> list[tuple[str, Data]]:
    """The events of a stream."""
    found: list[tuple[str, Data]] = []
    for block in content.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_text_is_tried_against_what_is_in_use(client: httpx2.Client) -> None:
    found = client.post("/policies/backtest", json={"document": TIGHTER, "against": ["standard"]}).json()

    mine, theirs = found["policies"]
    assert [(one["name"], one["version"]) for one in (mine, theirs)] == [("standard", 0), ("standard", 1)]
    assert (found["runs"], found["failures"], found["successes"]) == (FAILED + SUCCEEDED, FAILED, SUCCEEDED)
    assert mine["all"]["failures_stopped"] > theirs["all"]["failures_stopped"]


def test_a_stream_ends_with_the_same_document(client: httpx2.Client) -> None:
    body = {"policy": "standard", "limit": 20}
    answer = client.post("/policies/backtest", json=body, headers={"Accept": "text/event-stream"})

    *before, (event, found) = frames(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (event, found) == ("result", client.post("/policies/backtest", json=body).json())
    assert {name for name, _ in before} <= {"progress"}


def test_a_stream_tells_of_a_problem_as_a_document_would(client: httpx2.Client) -> None:
    body = {"policy": "standard", "limit": 5}
    answer = client.post("/policies/calibrate", json=body, headers={"Accept": "text/event-stream"})

    [(event, problem)] = [one for one in frames(answer.text) if one[0] != "progress"]
    assert (event, problem["code"], problem["status"]) == ("problem", "too_few_runs", 409)
    assert client.post("/policies/calibrate", json=body).json() == problem


def test_what_is_calibrated_is_a_text_that_can_be_saved(client: httpx2.Client) -> None:
    found = client.post("/policies/calibrate", json={"policy": "standard", "false_stops": 0.1}).json()

    assert {
        "path": "signals.loops.intervene",
        "before": 5.0,
        "after": 4,
        "tightens": True,
        "words": "steps in earlier",
    } in found["changes"]
    check = client.post("/policies/check", json={"document": found["yaml"], "against": "standard"}).json()
    assert check["changes"] == found["changes"]
    assert client.get("/policies/standard").json()["version"] == 1


@pytest.mark.parametrize("body", [{}, {"policy": "standard", "document": TIGHTER}])
def test_it_is_either_a_text_or_a_saved_policy(client: httpx2.Client, body: Data) -> None:
    refused = client.post("/policies/backtest", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "policy")


def test_a_text_with_mistakes_is_told_line_by_line(client: httpx2.Client) -> None:
    refused = client.post("/policies/backtest", json={"document": "policy: mine\nsignals:\n  lops: {warn: 2}\n"}).json()
    assert [(one["line"], "Did you mean 'loops'" in one["sentence"]) for one in refused["mistakes"]] == [(3, True)]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_whoever_hangs_up_ends_it(
    client: httpx2.Client, running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accept: str
) -> None:
    seen = tmp_path / "pid"
    # A process that computes for ever, and says who it is.
    endless = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(3600)"
    monkeypatch.setattr(trial_process, "COMMAND", (sys.executable, "-c", endless, str(seen)))
    where = urlsplit(running.url)
    body = b'{"policy": "standard"}'
    asked = (
        f"POST /api/v1/policies/backtest HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Accept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        connection.sendall(asked.encode() + body)
        _until(lambda: seen.exists() and seen.read_text() != "")
    _until(lambda: not _lives(int(seen.read_text())))
    # Its place is free again: others are answered.
    monkeypatch.undo()
    assert client.post("/policies/backtest", json={"policy": "standard", "limit": 3}).status_code == 200


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _until(holds: Any) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it went on for nobody"
        time.sleep(0.02)


async def test_the_client_asks_for_both(running: Running) -> None:
    wire = HttpConnection(address_of(running.url), TOKEN, SystemClock(), 10.0)
    try:
        policies = RemotePolicies(wire)
        tried = await policies.backtest("standard", against=["conservative"], limit=20)
        assert [one["name"] for one in tried["policies"]] == ["standard", "conservative"]
        proposed = await policies.calibrate("standard", false_stops=0.1)
        assert (proposed.failures, proposed.successes) == (FAILED, SUCCEEDED)
        assert (await policies.load_text(proposed.yaml)).signals.loops.intervene == 4.0
        with pytest.raises(InvalidInput) as refused:
            await policies.calibrate("standard", limit=5)
        assert refused.value.code == "too_few_runs"
    finally:
        await wire.close()
