"""Fixtures of the sample agents' tests: a folder to work in, scripts without delays, a store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import midcourse


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the samples work. Their scripts take no time for a word."""
    monkeypatch.setenv("MIDCOURSE_SAMPLES_DIR", str(tmp_path / "work"))
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    return tmp_path / "work"


@pytest.fixture
async def mc(work: Path, tmp_path: Path) -> AsyncIterator[midcourse.Midcourse]:
    """A store on a disk."""
    del work  # the samples must know where to work before they are started
    async with midcourse.open(f"sqlite:///{tmp_path / 'runs.db'}", durability="process") as opened:
        yield opened
