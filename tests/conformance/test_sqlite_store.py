"""The SQLite store keeps every promise of the store port, at each of its durabilities."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from midcourse.core.ids import SessionId
from midcourse.ports.store import Store
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_conformance import Crash, Damage, Kept, StoreConformance
from tests.conformance.damage import spoil


class SqliteStoreConformance(StoreConformance):
    """On one file, with a peer that has opened it too."""

    durability = "power"

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "midcourse.db"

    @pytest.fixture
    async def store(self, path: Path) -> AsyncIterator[SqliteStore]:
        store = await SqliteStore.open(path, durability=self.durability)
        yield store
        await store.close()

    @pytest.fixture
    async def peer(self, path: Path, store: SqliteStore) -> AsyncIterator[SqliteStore]:
        peer = await SqliteStore.open(path, durability=self.durability)
        yield peer
        await peer.close()

    @pytest.fixture
    def crash(self) -> Crash:
        async def crash(store: Store) -> None:
            assert isinstance(store, SqliteStore)
            store.abandon()

        return crash

    @pytest.fixture
    def damage(self, path: Path) -> Damage:
        async def damage(what: Kept, session_id: SessionId) -> None:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                spoil(connection, what, session_id)

        return damage


class TestSqliteStoreAgainstPower(SqliteStoreConformance):
    """What is acknowledged is on the disk."""


class TestSqliteStoreAgainstItsProcess(SqliteStoreConformance):
    """What is acknowledged is with the operating system."""

    durability = "process"
