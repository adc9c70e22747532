"""The fixtures of the store tests: workers, heads and rows, and those a backend brings."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
import pytest

from midcourse.core.codec import GENESIS, chain
from midcourse.core.fold import Row
from midcourse.core.ids import Epoch, Position, SessionId, WorkerId
from midcourse.ports.store import Creation, Head, Store

Crash = Callable[[Store], Awaitable[None]]
"""Ends the life of a store's worker without letting its sessions go, as the end of its process would."""

Kept = Literal["head", "snapshot", "command", "audit", "audit_end", "shelf"]

Damage = Callable[[Kept, SessionId], Awaitable[None]]
"""Change a byte of stored data: the session's head, its newest snapshot, its newest command, the last audit entry,
the last item of the last shelf.

``audit_end`` removes the last audit entry. The log and the shelves are the whole store's: whose session it is does not
matter there.
"""

ALICE = WorkerId("worker_alice")
BOB = WorkerId("worker_bob")
SESSION = SessionId("sess_1")


class StoreGiven:
    """The fixtures a backend brings. All of them are about the same, empty data."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("Override the fixture `store`: an open store without sessions.")

    @pytest.fixture
    def peer(self) -> Store:
        """Another store object on the same data, as another process would have."""
        raise NotImplementedError("Override the fixture `peer`: a second store object on the data of `store`.")

    @pytest.fixture
    def crash(self) -> Crash:
        raise NotImplementedError("Override the fixture `crash`: it ends a worker as the end of its process would.")

    @pytest.fixture
    def damage(self) -> Damage:
        raise NotImplementedError("Override the fixture `damage`: it changes a byte of what the store keeps.")


def rows(first: int, last: int, *, before: bytes = GENESIS) -> list[Row]:
    """Journal rows from ``first`` to ``last``."""
    made: list[Row] = []
    for position in range(first, last + 1):
        record = b'{"n":%d}' % position
        before = chain(before, position, record)
        made.append((Position(position), record, before))
    return made


def head(session_id: SessionId = SESSION, position: int = 1, **changes: Any) -> Head:
    known = Head(
        id=session_id,
        agent="writer",
        goal="Write it down",
        status="running",
        turn=1,
        position=Position(position),
        digest=b"\x01" * 16,
        created_at=1_000.0,
        updated_at=1_000.0 + position,
    )
    return msgspec.structs.replace(known, **changes)


async def started(
    store: Store, session_id: SessionId = SESSION, *, worker: WorkerId | None = None, **changes: Any
) -> Epoch:
    """Create a session with one row, owned by ``worker``."""
    return await store.create(Creation(head(session_id, **changes), rows(1, 1), worker=worker))


async def owned(store: Store, session_id: SessionId = SESSION, *, worker: WorkerId = ALICE, **changes: Any) -> Epoch:
    """Create a session with one row, owned by ``worker``, which ``store`` becomes."""
    await store.enlist(worker, f"address of {worker}")
    return await started(store, session_id, worker=worker, **changes)
