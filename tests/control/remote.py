"""A second process, from the first one's side: told what to do, stopped, continued and killed."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

Answer = dict[str, Any]
ROOT = Path(__file__).parents[2]
QUICK: Answer = {"poll": 0.05, "unreachable_after": 30.0}
"""A quick takeover; nobody is called unreachable unless a test is about that."""


class RemoteRefused(Exception):
    """The child was told a Midcourse error; ``code`` is its code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Remote:
    """A child process that has the agents of ``tests.control.agents`` and an open store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._ready: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, *, drive: bool = True, **settings: float) -> "AsyncGenerator[Remote]":
        """A running child, ended with the block: by the end of its input, so that it lets its sessions go."""
        options = json.dumps({"drive": drive, "settings": {**QUICK, **settings}})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.control.program", url, options),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        remote = cls(process)
        try:
            await remote._ready
            yield remote
        finally:
            await remote._end()

    @classmethod
    @contextlib.asynccontextmanager
    async def several(cls, count: int, url: str, *, drive: bool = True) -> "AsyncGenerator[list[Remote]]":
        """Several of them, started at the same time."""
        async with contextlib.AsyncExitStack() as stack:
            opening = [stack.enter_async_context(cls.open(url, drive=drive)) for _ in range(count)]
            yield list(await asyncio.gather(*opening))

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    async def do(self, name: str, **arguments: object) -> Answer:
        """Have the child do something, and return its answer."""
        number = next(self._numbers)
        waiter = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": name, **arguments}).encode() + b"\n")
        answer = await waiter
        if "error" in answer:
            raise RemoteRefused(answer["error"], answer["message"])
        return answer

    async def control(self, session: str, verb: str, **arguments: object) -> Answer:
        """One of the five controls, from the child."""
        return await self.do("control", session=session, verb=verb, arguments=arguments)

    def freeze(self) -> None:
        """SIGSTOP: it lives, and does nothing. Returns once it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        self._process.kill()
        assert await self._process.wait() == -signal.SIGKILL

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = cast("Answer", json.loads(line))
            waiter = self._ready if "ready" in answer else self._waiting.pop(answer["id"])
            if not waiter.done():
                waiter.set_result(answer)
        for waiter in (self._ready, *self._waiting.values()):
            if not waiter.done():
                waiter.set_exception(ConnectionError("the child has ended"))
                waiter.exception()

    async def _end(self) -> None:
        if self._process.returncode is None:
            self.thaw()
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                async with asyncio.timeout(20):
                    await self._process.wait()
            finally:
                if self._process.returncode is None:
                    self._process.kill()
                    await self._process.wait()
        await self._listening
