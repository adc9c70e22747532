"""Where the sessions of these tests live."""

from pathlib import Path

import pytest

from tests.promises.harness import Place, place

__all__ = ["memory", "place"]


@pytest.fixture
def memory(tmp_path: Path) -> Place:
    """An empty store in memory, for what no store could make different."""
    return Place("memory", tmp_path)
