"""In place of the ``conftest.py`` of LangGraph's own tests: their fixtures, with the checkpointer that is looked at.

The environment names it: ``SAVER=midcourse``, or ``SAVER=sqlite`` for LangGraph's own. Tests that take none are left
out.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langgraph.cache.memory import InMemoryCache  # pyright: ignore[reportMissingTypeStubs] - it has no type marker
from langgraph.cache.sqlite import SqliteCache  # pyright: ignore[reportMissingTypeStubs] - it has no type marker
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore

from midcourse.adapters.langgraph import MidcourseSaver
from midcourse.stores.sqlite import SqliteStore

OURS = os.environ["SAVER"] == "midcourse"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Those that take a checkpointer."""
    items[:] = [one for one in items if {"async_checkpointer", "sync_checkpointer"} & set(one.fixturenames)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def deterministic_uuids(mocker: Any) -> Any:
    made = (UUID(f"00000000-0000-4000-8000-{number:012}", version=4) for number in range(10_000))
    return mocker.patch("uuid.uuid4", side_effect=made)


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["sqlite", "memory"])
def cache(request: pytest.FixtureRequest) -> Any:
    return SqliteCache[Any](path=":memory:") if request.param == "sqlite" else InMemoryCache[Any]()


@pytest.fixture
def sync_store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
async def async_store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
async def async_checkpointer(tmp_path: Path) -> AsyncIterator[Any]:
    if not OURS:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
        return
    store = await SqliteStore.open(tmp_path / "midcourse.db")
    yield MidcourseSaver(store)
    await store.close()


@pytest.fixture
def sync_checkpointer(tmp_path: Path) -> Iterator[Any]:
    if not OURS:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
        return
    with _loop_elsewhere() as loop:
        store = _there(loop, SqliteStore.open(tmp_path / "midcourse.db"))
        yield _there(loop, _made(store))
        _there(loop, store.close())


async def _made(store: SqliteStore) -> MidcourseSaver:
    return MidcourseSaver(store)


def _there(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


@contextlib.contextmanager
def _loop_elsewhere() -> Generator[asyncio.AbstractEventLoop]:
    """An event loop in a thread: the test itself blocks."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
