"""The memory store keeps every promise of the store port."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from midcourse.core.ids import SessionId
from midcourse.ports.store import Store
from midcourse.stores.memory import MemoryStore, Sealed
from midcourse.testing.store_conformance import Crash, Damage, Kept, StoreConformance


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
        def spoiled(sealed: Sealed) -> Sealed:
            return sealed._replace(content=sealed.content[:-1] + b"?")

        async def damage(what: Kept, session_id: SessionId) -> None:
            session, log = store.memory.sessions[session_id], store.memory.audit
            match what:
                case "head":
                    session.head = spoiled(session.head)
                case "snapshot":
                    newest = max(session.snapshots)
                    session.snapshots[newest] = spoiled(session.snapshots[newest])
                case "command":
                    newest = list(session.inbox.values())[-1]
                    newest.content = spoiled(newest.content)
                case "audit":
                    log[-1] = msgspec.structs.replace(log[-1], content=b"?")
                case "audit_end":
                    del log[-1]
                case "shelf":
                    shelf = store.memory.shelves[max(store.memory.shelves)]
                    value, seal = shelf.items[shelf.keys[-1]]
                    shelf.items[shelf.keys[-1]] = (value[:-1] + b"?", seal)

        return damage

    async def test_nothing_survives_the_process(self, store: Store) -> None:
        assert store.durability == "nothing"
