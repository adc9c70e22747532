"""A folder with a store of stories, and the command as a function of its arguments."""

import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from midcourse.cli.command import COMMANDS
from midcourse.cli.main import build
from midcourse.cli.printer import repeat_in_hints
from midcourse.runtime.settings import Settings
from tests.cli.stories import tell
from tests.client.live_server import serving


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, which is JSON and nothing else."""
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stories") / "midcourse.db"
    asyncio.run(tell(store))
    return store


@pytest.fixture(autouse=True)
def folder(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has the stories to itself, in the default place."""
    for name in ("COLUMNS", "MIDCOURSE_URL", "MIDCOURSE_STORE", "MIDCOURSE_TOKEN", "MIDCOURSE_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".midcourse").mkdir(mode=0o700)
    shutil.copy(told, tmp_path / ".midcourse" / "midcourse.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    """A server over the same sessions; the file in the default place is gone."""
    shutil.copy(folder / ".midcourse" / "midcourse.db", folder / "served.db")
    over, ready = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with serving(folder / "served.db") as url:
            found.append(url)
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    (folder / ".midcourse" / "midcourse.db").unlink()
    yield found[0]
    over.set()
    thread.join(30)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that drives sessions beside a command is not called unreachable because the machine is busy."""
    defaults = Settings.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "unreachable_after", 30.0)


@functools.cache
def tree() -> Any:
    """All commands with their options, read once: that takes longer than most commands."""
    return typer.main.get_command(build())


@pytest.fixture
def midcourse(monkeypatch: pytest.MonkeyPatch) -> Command:
    def as_it_is(tree: Any) -> Any:
        return tree

    monkeypatch.setattr("typer.testing._get_command", as_it_is)

    def run(*arguments: str, env: Mapping[str, str] | None = None, typed: str | None = None) -> Ended:
        repeat_in_hints("", "", COMMANDS)  # those of another run in this process are not typed here
        done = CliRunner().invoke(tree(), list(arguments), env=env, input=typed)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    return run


def in_a_process(*arguments: str, **env: str) -> subprocess.Popen[str]:
    """The command as a program of its own."""
    command = [sys.executable, "-W", "error", "-m", "midcourse", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", env={**os.environ, **env})
