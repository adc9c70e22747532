"""Servers in processes of their own, to stop and to kill, and a store that another process holds."""

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import midcourse
from midcourse.server import CallerLimits, Server
from tests.console.agents import AGENTS
from tests.server.live_server import TOKEN
from tests.server.server_process import begun, serve

_HOLD: Final = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
held.execute("ROLLBACK")
"""


@dataclass(frozen=True)
class Process:
    """A server in a process of its own."""

    process: "subprocess.Popen[str]"
    port: int
    token: str = TOKEN

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """It answers nobody from now on, and lives."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def process(store: Path, *options: str, port: int = 0) -> Generator[Process]:
    """A server over ``store``; with ``watches`` it drives no session, so that another process is their worker."""
    with begun("tests.console.processes", store, port, *options) as (started, found):
        yield Process(started, found)


@contextmanager
def held(store: Path) -> Generator[None]:
    """Another process has begun to write to the store, and does not end."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate("\n")


def main(store: str, port: int, *options: str) -> None:
    """Serve the agents of the console's tests."""
    server = Server(
        store=store,
        token=TOKEN,
        agents={agent.name: agent for agent in AGENTS},
        drive="watches" not in options,
        durability="process",
        settings=midcourse.Settings(poll=0.05, unreachable_after=0.5),
        limits=CallerLimits(rate=10_000, burst=10_000),
        grace=1.0,
    )
    serve(server, port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
