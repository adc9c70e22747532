"""SIGTERM under load, to a real ``midcourse serve``: it says so, lets everything go, and the next process goes on."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

import midcourse
from tests.examples.demo_server import free_port, surroundings
from tests.promises.harness import history, types, until_true
from tests.server.stream_reader import eventually, frames_of

SESSIONS, STEPS = 12, 8
TOKEN = "mct_a-token-for-the-test-of-a-server-that-drains"
AGENTS = """
import asyncio
import os
from pathlib import Path

import midcourse


def write(line: str) -> None:
    descriptor = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\\n".encode())
    os.close(descriptor)


@midcourse.tool(effect="write")
async def work(session: str, number: int) -> int:
    await asyncio.sleep(0.03)
    write(f"{session} {number}")
    return number


@midcourse.agent
async def busy(run: midcourse.Run) -> int:
    return sum([await run.step("work", work, run.session_id, number) for number in range(8)])


@midcourse.tool(effect="read")
async def wait_for(name: str) -> str:
    write(f"waits for {name}")
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return name


@midcourse.agent
async def waits(run: midcourse.Run) -> str:
    found = await run.step("wait_for", wait_for, run.goal)
    await run.step("work", work, run.session_id, 0)
    return found
"""


@contextmanager
def serving(folder: Path, port: int, grace: str, delay: str = "0s") -> Generator["subprocess.Popen[bytes]"]:
    """The server as a user starts it."""
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [
                "midcourse",
                "serve",
                "--agents",
                "busy_agents.py",
                "--port",
                str(port),
                "--grace",
                grace,
                "--policy",
                "none",
                "--drain-delay",
                delay,
            ],
            cwd=folder,
            env=surroundings(folder, MIDCOURSE_TOKEN=TOKEN),
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def client_of(port: int) -> httpx2.AsyncClient:
    """Somebody who may do everything."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30)


async def until_ready(client: httpx2.AsyncClient) -> None:
    """Until it says that it is."""

    while True:
        with suppress(httpx2.TransportError):
            if (await client.get("/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.1)  # it takes a second to start: to ask more often would make it two


async def ended(process: "subprocess.Popen[bytes]") -> int:
    """How it ended."""
    await until_true(lambda: process.poll() is not None)
    assert process.returncode is not None
    return process.returncode


def lines(folder: Path) -> Counter[str]:
    """What was done, and how often."""
    return Counter((folder / "ledger").read_text(encoding="utf-8").split("\n")[:-1])


async def test_sigterm_under_load_says_so_lets_everything_go_and_the_next_process_goes_on(tmp_path: Path) -> None:
    (tmp_path / "busy_agents.py").write_text(AGENTS, encoding="utf-8")
    store = f"sqlite:///{tmp_path}/.midcourse/midcourse.db"
    port = free_port()
    with serving(tmp_path, port, "10m") as process:
        async with client_of(port) as client:
            await until_ready(client)
            await client.post("/api/v1/sessions", json={"agent": "waits", "goal": "go", "session_id": "held"})
            for number in range(SESSIONS):
                made = {"agent": "busy", "session_id": f"s{number}"}
                assert (await client.post("/api/v1/sessions", json=made)).status_code == 201
            await until_true(lambda: (tmp_path / "ledger").exists() and lines(tmp_path)["waits for go"] == 1)
            await until_true(lambda: lines(tmp_path).total() > SESSIONS)
            follow = {"Accept": "text/event-stream"}
            async with client.stream("GET", "/api/v1/sessions/held/events", headers=follow) as stream:
                frames = frames_of(stream)
                await anext(frames)
                # One call is in flight for as long as the test wishes: the server drains until that one has ended.
                process.send_signal(signal.SIGTERM)
                found = await eventually(lambda: client.get("/readyz"), lambda one: one.status_code != 200)
                assert (found.status_code, found.json()["code"]) == (503, "draining")
                refused = await client.post("/api/v1/sessions", json={"agent": "busy"})
                assert (refused.status_code, refused.json()["code"]) == (503, "draining")
                assert int(refused.headers["retry-after"]) > 0
                assert (await client.get("/healthz")).status_code == 200
                assert (await client.get("/api/v1/sessions/held")).json()["status"] == "running"
                while "about to end" not in (await anext(frames)).comment:
                    pass
                assert process.poll() is None
                (tmp_path / "go").touch()
                kinds = [frame.event async for frame in frames]
            assert kinds == ["step.finished", "session.parked", "end"]
        assert await ended(process) == 0
    async with midcourse.open(store, drive=False) as mc:
        for number in range(SESSIONS):
            state = await (await mc.get(f"s{number}")).state()
            assert state.status in ("queued", "running", "completed")
            assert not state.lost
    with serving(tmp_path, port, "100ms") as process:
        async with client_of(port) as client:
            await until_ready(client)
            for name in ("held", *(f"s{number}" for number in range(SESSIONS))):
                done = await client.get(f"/api/v1/sessions/{name}/result", params={"wait": 20})
                assert done.json()["status"] == "completed", done.text
            done = lines(tmp_path)
            assert {line: count for line, count in done.items() if count != 1} == {}
            assert done.total() == SESSIONS * STEPS + 2
            # And a call that does not end by itself: when the grace is over, it is stopped.
            await client.post("/api/v1/sessions", json={"agent": "waits", "goal": "never", "session_id": "stuck"})
            await until_true(lambda: lines(tmp_path)["waits for never"] == 1)
            os.kill(process.pid, signal.SIGTERM)
        assert await ended(process) == 0
    async with midcourse.open(store, drive=False) as mc:
        stuck = await mc.get("stuck")
        assert await stuck.status() == "running"  # let go, and not cancelled: whoever comes next tries the call again
        assert "step.aborted" in types(await history(stuck))


async def test_a_server_in_an_application_of_yours_can_be_drained_too() -> None:
    from midcourse.server import Server

    server = Server(store="memory://", token=TOKEN, agents={}, review_every=None)
    await server.drain()  # not started: there is nothing to let go
    async with server.lifespan():
        transport = httpx2.ASGITransport(server.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/readyz")).status_code == 200
            await asyncio.gather(server.drain(), server.drain())
            assert (await client.get("/readyz")).json()["code"] == "draining"


async def test_for_the_delay_a_load_balancer_is_told_and_new_work_is_still_taken(tmp_path: Path) -> None:
    """Only where something asks `/readyz`, and only for SIGTERM: nobody else waits for a person's Ctrl-C."""
    (tmp_path / "busy_agents.py").write_text(AGENTS, encoding="utf-8")
    port = free_port()
    with serving(tmp_path, port, "100ms", delay="1h") as process:
        async with client_of(port) as client:
            await until_ready(client)
            process.send_signal(signal.SIGTERM)
            found = await eventually(lambda: client.get("/readyz"), lambda one: one.status_code != 200)
            assert (found.status_code, found.json()["code"]) == (503, "draining")
            made = await client.post("/api/v1/sessions", json={"agent": "busy", "session_id": "late"})
            assert made.status_code == 201, made.text
            done = await client.get("/api/v1/sessions/late/result", params={"wait": 20})
            assert done.json()["status"] == "completed"
            process.send_signal(signal.SIGTERM)  # once more: that one is in a hurry
        assert await ended(process) == 0
    for stop, asks in ((signal.SIGINT, True), (signal.SIGTERM, False)):
        with serving(tmp_path, port, "100ms", delay="1h") as process:
            async with client_of(port) as client:
                if asks:
                    await until_ready(client)
                else:
                    while not await is_up(client):
                        await asyncio.sleep(0.1)
            process.send_signal(stop)
            assert await ended(process) == 0


async def is_up(client: httpx2.AsyncClient) -> bool:
    """Whether it answers, without asking whether it is ready."""
    with suppress(httpx2.TransportError):
        return (await client.get("/healthz")).status_code == 200
    return False


async def test_when_the_delay_is_over_it_takes_nothing_new() -> None:
    from midcourse.server import Server

    server = Server(store="memory://", token=TOKEN, agents={}, review_every=None, drain_delay=0.05)
    async with server.lifespan():
        transport = httpx2.ASGITransport(server.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/readyz")).status_code == 200
            await asyncio.gather(server.drain(), server.drain())
            assert server.local is not None
            assert server.local.worker.is_draining
