"""Fixtures of the tests of Pydantic AI agents."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from midcourse.runtime import agents
from tests.promises.harness import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty store."""
    return Place("sqlite", tmp_path)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, _nothing_old_to_collect: None) -> Iterator[None]:
    """Each test has the registry for itself."""
    monkeypatch.setattr(agents, "_registered", dict[str, object]())
    yield
    # A model keeps its client, and the client its connections, for as long as it lives.
    agents._registered.clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
