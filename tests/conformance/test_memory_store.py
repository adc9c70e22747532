"""The memory store keeps every promise of the store port."""

from collections.abc import AsyncIterator

import pytest

from midcourse.core.ids import SessionId
from midcourse.ports.store import Store
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_conformance import Crash, Damage, Kept, StoreConformance
from tests.conformance.damage import spoil


class TestMemoryStore(StoreConformance):
    """In one memory, with a peer that shares it."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[MemoryStore]:
        store = MemoryStore()
        yield store
        await store.close()

    @pytest.fixture
    async def peer(self, store: MemoryStore) -> AsyncIterator[MemoryStore]:
        peer = store.peer()
        yield peer
        await peer.close()

    @pytest.fixture
    def crash(self) -> Crash:
        async def crash(store: Store) -> None:
            assert isinstance(store, MemoryStore)
            store.abandon()

        return crash

    @pytest.fixture
    def damage(self, store: MemoryStore) -> Damage:
        async def damage(what: Kept, session_id: SessionId) -> None:
            spoil(store.memory.connection, what, session_id)

        return damage

    async def test_nothing_survives_the_process(self, store: Store) -> None:
        assert store.durability == "nothing"
