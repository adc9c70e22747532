"""A fleet of thousands in a store, as a worker elsewhere would have it: its sessions change when it is told so."""

import asyncio
import itertools
import threading
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from midcourse.core.ids import Epoch, Position, SessionId, WorkerId
from midcourse.ports.store import Append, Creation, Head, Store
from midcourse.testing.store_promises.fixtures import rows
from midcourse.wiring import open_store

T = TypeVar("T")
STATUSES: Final = ("running",) * 12 + ("completed",) * 5 + ("paused", "failed", "cancelled")
CLASSES: Final = ("short", "medium", "long", "very_long")
AGENTS: Final = ("churn-memo", "repo-fixer", "records-cleaner", "researcher")


class Elsewhere:
    """The worker: it owns every session of the fleet, lives, and answers nobody."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._store: Store = self._do(open_store(url, "process"))
        self._do(self._store.enlist(WorkerId("worker_elsewhere"), "nowhere"))
        self.heads: dict[SessionId, Head] = {}

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def fill(self, number: int, began: float | None = None) -> None:
        """So many sessions, a second apart, the last one just begun."""
        now = time.time() if began is None else began
        for index in range(number):
            made = Head(
                id=SessionId(f"sess_{index:05}"),
                agent=AGENTS[index % 4],
                goal=f"Task {index:05} of the fleet: reconcile the ledger, and write down what was found",
                status=STATUSES[index % len(STATUSES)],
                turn=1,
                position=Position(1),
                digest=b"\x01" * 16,
                created_at=now - number + index,
                updated_at=now - number + index,
                cost=(index % 90) / 10,
                budget=10.0,
                finished_steps=index % 40,
                task_class=CLASSES[index % 4],
                labels=("repo:api",) if index % 10 == 0 else (),
                risk=None if index % 3 == 0 else (index % 100) / 100,
                worked=0.0 if STATUSES[index % len(STATUSES)] == "running" else float(number - index) / 2,
                working_since=now - number + index if STATUSES[index % len(STATUSES)] == "running" else None,
            )
            self.heads[made.id] = made
        self._do(self._create())

    async def _create(self) -> None:
        made = [
            self._store.create(Creation(head, rows(1, 1), worker=WorkerId("worker_elsewhere")))
            for head in self.heads.values()
        ]
        await asyncio.gather(*made)
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Send the heartbeats of a worker that lives."""
        while True:
            await self._store.changed()
            await asyncio.sleep(0.2)

    def change(self, session: str, **fields: Any) -> None:
        """Something happens in a session."""
        self._do(self._append(SessionId(session), fields))

    async def _append(self, session: SessionId, fields: dict[str, Any]) -> None:
        was = self.heads[session]
        place = was.position + 1
        head = replace(was, position=Position(place), updated_at=time.time(), **fields)
        self.heads[session] = head
        await self._store.append(Append(head, rows(1, place)[-1:], epoch=Epoch(1)))

    def storm(self, a_second: int, seconds: float) -> None:
        """So many steps a second, over all that run."""
        self._do(self._storm(a_second, seconds))

    async def _storm(self, a_second: int, seconds: float) -> None:
        running = itertools.cycle([head.id for head in self.heads.values() if head.status == "running"])
        for _ in range(int(seconds * 10)):
            for _ in range(a_second // 10):
                name = next(running)
                was = self.heads[name]
                await self._append(name, {"finished_steps": was.finished_steps + 1, "cost": was.cost + 0.01})
            await asyncio.sleep(0.1)

    def close(self) -> None:
        """It ends."""
        self._loop.call_soon_threadsafe(self._beating.cancel)
        self._do(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def elsewhere(url: str) -> Generator[Elsewhere]:
    """A worker of that store, while the block lasts."""
    worker = Elsewhere(url)
    try:
        yield worker
    finally:
        worker.close()
