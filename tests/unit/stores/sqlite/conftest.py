"""A store on a file of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from midcourse.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "midcourse.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()
