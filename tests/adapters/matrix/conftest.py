"""A stage for one course: a model on a port of this machine, a store in a file, and an agent of one framework."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

import midcourse
from midcourse.models.script import Conversation, Script, Text
from midcourse.testing.provider import Provider, Received
from tests.adapters.matrix import courses
from tests.adapters.matrix.adapters import ADAPTERS, build
from tests.promises.harness import Place

ROOT = Path(__file__).parents[3]


class Stage:
    """What a test has of one adapter."""

    def __init__(self, adapter: str, provider: Provider, path: Path) -> None:
        self.adapter = adapter
        self.provider = provider
        self.path = path
        self.place = Place("sqlite", path)
        self.agent = build(adapter)

    @contextlib.asynccontextmanager
    async def started(self, script: Script) -> "AsyncGenerator[midcourse.SessionHandle[Any]]":
        """A session that plays ``script``, in this process."""
        self.provider.script = script
        async with self.place.open(self.agent, grace=0) as mc:
            yield await mc.start(self.agent, courses.GOAL, session_id="s")

    @contextlib.asynccontextmanager
    async def driven_elsewhere(self, script: Script, **settings: float) -> "AsyncGenerator[Child]":
        """The same in a process of its own, which ends with the block if it is not killed before."""
        self.provider.script = script
        options = json.dumps({"start": "s", "settings": settings})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.adapters.matrix.worker", self.adapter, self.place.url, options),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        child = Child(process)
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            yield child
        finally:
            await child.end()

    @contextlib.asynccontextmanager
    async def opened(self, *, drive: bool = True) -> "AsyncGenerator[midcourse.SessionHandle[Any]]":
        """The session that is there, from this process; it drives it if it may."""
        async with self.place.open(*((self.agent,) if drive else ()), drive=drive, grace=0) as mc:
            yield await mc.get("s")

    # ---- what the model was sent

    @property
    def requests(self) -> tuple[Received, ...]:
        """All requests so far, none of which was refused: so every history was one that a real provider takes."""
        requests = self.provider.requests
        assert [one.refused for one in requests] == [""] * len(requests)
        return requests

    def heard(self, at: int = -1) -> Conversation:
        """What the model was sent in a request."""
        return self.requests[at].conversation

    def last_results(self) -> dict[str, str]:
        """The result of each call of the model's last round, by its tool, as it was last sent to the model."""
        heard = self.heard()
        said = list(heard)
        at = max(index for index, one in enumerate(said) if one.calls)
        names = {call.id: call.name for call in said[at].calls}
        results = [one for one in said[at + 1 :] if one.role == "tool"]
        assert sorted(one.call_id for one in results) == sorted(str(id) for id in names)
        return {names[one.call_id]: one.text for one in results}

    async def cut(self, at: int) -> Received:
        """Request ``at``, whose client was found gone; the model had not said all."""
        received = await self.provider.wait_for_close(at)
        assert not received.finished
        assert received.closed_by_client_after is not None
        assert received.closed_by_client_after < len(courses.LONG.parts)
        return received


class Child:
    """A process that drives."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        self._process.kill()
        assert await self._process.wait() == -signal.SIGKILL

    async def end(self) -> None:
        """Close its input: it lets its sessions go and ends."""
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                async with asyncio.timeout(20):
                    assert await self._process.wait() == 0
            finally:
                if self._process.returncode is None:
                    self._process.kill()
                    await self._process.wait()


def above_all(*adapters: str) -> pytest.MarkDecorator:
    """A test that starts a process, which imports a framework: for these in `make test`, for all in `make thorough`."""
    assert set(adapters) < set(ADAPTERS)
    marks = [() if one in adapters else (pytest.mark.thorough,) for one in ADAPTERS]
    return pytest.mark.parametrize(
        "adapter", [pytest.param(one, marks=mark) for one, mark in zip(ADAPTERS, marks, strict=True)]
    )


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> str:
    """The name of an adapter."""
    return request.param


@pytest.fixture
async def clients(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """Whoever makes a client of OpenAI's: it is closed on the loop it was used on."""
    made: list[AsyncOpenAI] = []
    make: Any = AsyncOpenAI.__init__

    def init(self: AsyncOpenAI, *arguments: Any, **keywords: Any) -> None:
        make(self, *arguments, **keywords)
        made.append(self)

    monkeypatch.setattr(AsyncOpenAI, "__init__", init)
    yield
    for client in made:
        await client.close()


@pytest.fixture
async def stage(adapter: str, clients: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stage]:
    """A stage for it."""
    monkeypatch.setenv(courses.FOLDER, str(tmp_path))
    async with Provider(courses.says(Text("Nothing."))) as provider:
        monkeypatch.setenv(courses.URL, provider.base_url)
        yield Stage(adapter, provider, tmp_path)
