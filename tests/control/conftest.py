"""Fixtures of the control tests."""

from pathlib import Path

import pytest

from tests.promises.harness import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One file, for as many processes as a test likes."""
    return Place("sqlite", tmp_path)


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """Where the agents of child processes leave their lines."""
    return tmp_path / "effects"
