"""Fixtures of the tests of agent files."""

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midcourse.runtime import agents
from tests.adapters.yaml_agents import shop
from tests.promises.harness import Place

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, _nothing_old_to_collect: None) -> Iterator[None]:
    """Each test has the registry, the import path and the environment for itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(agents, "_registered", dict[str, object]())
    monkeypatch.delenv("MIDCOURSE_MODEL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    shop.done.clear()
    yield
    # A model keeps its client, and the client its connections, for as long as the process lives.
    agents._registered.clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an agent file, with the module of these tests in place of ``shop``."""

    def to(text: str, name: str = "mailer.yaml") -> Path:
        path = tmp_path / "agents" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("shop:", f"{shop.__name__}:"), encoding="utf-8")
        return path

    return to


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty store."""
    return Place("sqlite", tmp_path)
