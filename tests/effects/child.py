"""A second process, from the test's side: started with a session, and killed."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Child:
    """A process that drives the sessions of a store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        self._process.kill()
        assert await self._process.wait() == -signal.SIGKILL


@asynccontextmanager
async def driving(
    url: str, agent: str | None = None, goal: str = "", *, session: str = "s", **settings: Any
) -> AsyncGenerator[Child]:
    """A child that has started ``agent``; ended with the block."""
    start = {"agent": agent, "goal": goal, "session_id": session} if agent else None
    options = json.dumps({"start": start, "settings": settings})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.effects.program", url, options),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline()
        yield Child(process)
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
