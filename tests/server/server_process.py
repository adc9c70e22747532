"""A server in a process of its own, to stop, continue and kill: ``python -m tests.server.server_process STORE
PORT``."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

import midcourse
from midcourse.server import CallerLimits, Server
from midcourse.server.http_protocol import PatientProtocol
from tests.server.live_server import TOKEN

ROOT = Path(__file__).parents[2]


@midcourse.tool(effect="idempotent", settle=0.0)
async def count(number: int, pace: float) -> int:
    """One small piece of work."""
    await asyncio.sleep(pace)
    return number


async def speak(words: int) -> AsyncIterator[str]:
    """Words, some of them at once."""
    for number in range(words):
        yield f"{number} "
        if number % 10 == 0:
            await asyncio.sleep(0.001)


@midcourse.agent(name="counter", version="1")
async def counter(run: midcourse.Run) -> int:
    """Does ``steps`` pieces of work at a ``pace``, and says ``words`` in between."""
    wanted = json.loads(run.goal)
    for number in range(wanted["steps"]):
        await run.step("count", count, number, wanted.get("pace", 0.0))
        if wanted.get("words"):
            await run.stream("speak", speak, wanted["words"])
    return wanted["steps"]


@midcourse.agent(name="asker", version="1")
async def asker(run: midcourse.Run) -> object:
    """Asks in its first turn; repeats what it is told in later ones."""
    if run.turn == 1:
        return await run.ask(run.goal, reason="need_input")
    await run.stream("speak", speak, 3)
    return run.messages[-1].text


AGENTS = {one.name: one for one in (counter, asker)}


class Alone:
    """The process, from outside."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.port = port

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx2.AsyncClient:
        """A client of it."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx2.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)

    def send(self, what: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(what)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def begun(module: str, store: Path, port: int, *options: str) -> Generator[tuple["subprocess.Popen[str]", int]]:
    """A program of these tests that serves ``store``, and its port. It ends with the block, also if it was stopped."""
    command = [sys.executable, "-m", module, f"sqlite:///{store}", str(port), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server ended before it began"
        yield process, int(line)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def alone(store: Path, port: int = 0) -> Generator[Alone]:
    """A server over ``store`` in a process of its own, on ``port`` if that is given."""
    with begun("tests.server.server_process", store, port) as (process, found):
        yield Alone(process, found)


def serve(server: Server, port: int, **more: Any) -> None:
    """Serve until a signal comes. The first line printed is the port."""
    listening = socket.create_server(("127.0.0.1", port))
    running = uvicorn.Server(uvicorn.Config(server.app, http=PatientProtocol, log_level="warning", **more))

    async def until_a_signal() -> None:
        serving = asyncio.create_task(running.serve([listening]))
        while not running.started and not serving.done():
            await asyncio.sleep(0.01)
        print(listening.getsockname()[1], flush=True)
        await serving

    asyncio.run(until_a_signal())


def main(store: str, port: int) -> None:
    """Serve the agents of this page."""
    server = Server(
        store=store,
        token=TOKEN,
        agents=AGENTS,
        durability="process",
        settings=midcourse.Settings(poll=0.05),
        limits=CallerLimits(rate=10_000, burst=10_000),
        grace=1.0,
    )
    serve(server, port, timeout_graceful_shutdown=None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
