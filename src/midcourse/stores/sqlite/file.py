"""The store in a SQLite file: two threads on it, and a lock that holds the worker's life."""

import asyncio
import os
import sqlite3
from collections.abc import Mapping

from midcourse.core.ids import WorkerId
from midcourse.core.replies import Durability
from midcourse.stores.sqlite import locks, reads
from midcourse.stores.sqlite.connection import Opened, open_store, workers_folder
from midcourse.stores.sqlite.durability import check_wanted
from midcourse.stores.sqlite.reader import ReadThread
from midcourse.stores.sqlite.store import DatabaseStore
from midcourse.stores.sqlite.write_lock import PATIENCE
from midcourse.stores.sqlite.writer import WriteThread


class SqliteStore(DatabaseStore):
    """A store in a SQLite file, for any number of processes of one machine. Made by ``open``.

    It may not be used in a forked child: open it again there.
    """

    def __init__(self, opened: Opened) -> None:
        self._name = f"sqlite:///{opened.path}"
        self._folder = workers_folder(opened.path)
        self._durability: Durability = opened.durability
        self._lock: locks.WorkerLock | None = None
        self.writer = WriteThread(opened.writer, opened.turn, opened.path, self._name)
        reader = ReadThread(opened.reader, opened.path, self._name)
        super().__init__(self.writer, reader)
        self.writer.start()
        reader.start()

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: str = "power",
        _pragmas: Mapping[str, int] | None = None,
        _patience: float = PATIENCE,
    ) -> "SqliteStore":
        """Open the store at ``path``, and make it if there is none.

        ``power``: what is acknowledged survives a power cut. ``process``: it survives the process being killed.

        Raises:
            StoreUnavailable: it cannot be opened; the code and the sentence say why.
            Damaged: it is a store that cannot be read.
        """
        wanted = check_wanted(durability)
        opened = await asyncio.to_thread(open_store, path, wanted, pragmas=_pragmas or {}, patience=_patience)
        return cls(opened)

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def name(self) -> str:
        return self._name

    def abandon(self, *, remove: bool = False) -> None:
        """End the worker's liveness and release no session, as the end of its process would. Tests call it too."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.drop(remove=remove)

    def _come_alive(self, worker: WorkerId) -> float:
        locks.remove_orphans(self._folder)
        # Kept here and not by the caller, who may be cancelled: close must find it.
        self._lock = locks.WorkerLock.acquire(self._folder, worker)
        return self._lock.started_at

    def _is_alive(self, worker: WorkerId) -> bool:
        return locks.is_alive(self._folder, worker)

    def _heartbeat(self, worker: WorkerId) -> float | None:
        return locks.heartbeat(self._folder, worker)

    def _beat(self) -> None:
        if self._lock is not None:
            self._lock.beat()

    def _version(self, connection: sqlite3.Connection) -> int:
        return reads.data_version(connection)
