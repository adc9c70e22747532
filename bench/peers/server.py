"""Servers of peers: a process on loopback, on free ports, with its data in the folder of the trial."""

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

PATIENCE = 30.0
"""Seconds that a server has to come up."""


def free_ports(number: int) -> list[int]:
    """Return ports of loopback that nothing listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """A server that one process of a trial starts, and the others find by a file in the folder."""

    def __init__(self, folder: Path) -> None:
        self._notes = folder / "server.json"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(
        self,
        command: list[str],
        notes: Mapping[str, int | str],
        *,
        ready: list[str],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, wait until it accepts what is in ``ready`` (addresses, or ``port``), and note how to find it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(variables or {})})
        end = time.perf_counter() + PATIENCE
        for address in ready:
            while not await asyncio.to_thread(_answers, address):
                if time.perf_counter() > end or self._process.poll() is not None:
                    raise RuntimeError(f"{command[0]} did not come up: {self._log.read_text()[-500:]}")
                await asyncio.sleep(0.1)
        self._notes.write_text(json.dumps(notes))

    def note(self, name: str, value: int | str) -> None:
        """Add how to find something else."""
        self._notes.write_text(json.dumps({**self.notes, name: value}))

    @property
    def notes(self) -> dict[str, int | str]:
        """Return how to find it."""
        return json.loads(self._notes.read_text())

    async def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, 10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _answers(address: str) -> bool:
    try:
        if address.startswith("http"):
            urllib.request.urlopen(address, timeout=1).close()
        else:
            host, _, port = address.partition(":")
            socket.create_connection((host, int(port)), timeout=1).close()
    except (OSError, urllib.error.URLError):
        return False
    return True
