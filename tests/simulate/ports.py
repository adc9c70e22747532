"""The ports of one process on a simulated machine: its clock, its bus, and its store on the machine's disk."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any, Final, Literal, TypeVar

from midcourse.core.fold import Row
from midcourse.core.ids import Position, SessionId
from midcourse.core.replies import Durability
from midcourse.errors import MidcourseError, StoreUnavailable
from midcourse.ports.bus import Note
from midcourse.stores import store_errors
from midcourse.stores.sqlite import reads
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from tests.simulate.machine import START, Machine, Process

T = TypeVar("T")


Spoiled = Literal["head", "record", "digest", "snapshot", "command"]
SPOILS: Final[Mapping[Spoiled, tuple[str, str, str]]] = {
    "head": ("sessions", "head", "id = :id"),
    "record": ("journal", "record", "place >> 32 = (SELECT key FROM sessions WHERE id = :id)"),
    "digest": ("journal", "digest", "place >> 32 = (SELECT key FROM sessions WHERE id = :id)"),
    "snapshot": ("snapshots", "content", "place >> 32 = (SELECT key FROM sessions WHERE id = :id)"),
    "command": ("inbox", "content", "session = (SELECT key FROM sessions WHERE id = :id) AND outcome IS NULL"),
}
"""Table, column and row of what may be damaged."""
SYNCS: Final = 0.1
"""The share of commits after which a disk that forgets has kept what was written."""


class Clock:
    """The machine's time, as its processes see it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.machine = process.machine

    def now(self) -> float:
        """Seconds since 1970, as this process has it."""
        now = START + self.machine.look() + self._process.ahead
        self.machine.moments[now] = self.machine.time
        return now

    def monotonic(self) -> float:
        """Seconds since the machine began."""
        return self.machine.look()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call it on the running loop, later."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call it on the running loop at a time."""
        return asyncio.get_running_loop().call_at(when, callback, *arguments)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Cancel what takes longer."""
        return asyncio.timeout(seconds)

    def background(self, name: str) -> "Background":
        """Another thread of the process."""
        return Background(self._process, name)

    def random(self) -> float:
        """Chance of the machine."""
        return self.machine.chance.random()

    def fresh_id(self) -> str:
        """An id that no other process has."""
        return self.machine.fresh_id()


class Background:
    """A loop of its own, which chance turns beside the other."""

    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name
        self._loop = process.new_loop()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self._task is not None and not self._task.done()

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin."""
        self._task = self._loop.create_task(main(), name=self._name)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have it called there."""
        self._loop.call_soon(callback)

    def close(self) -> None:
        """Nothing is to be given up."""


class Wires:
    """Between the buses of a machine: notes are late, out of order, or lost."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lost = 0.0
        self.delay = 0.01
        self.heard: dict[str, tuple[Process, Callable[[Note], None]]] = {}

    def send(self, address: str, note: Note) -> None:
        """Carry it, perhaps."""
        if self.machine.chance.random() >= self.lost:
            self.machine.after(self.delay, partial(self._deliver, address, note))

    def _deliver(self, address: str, note: Note) -> None:
        found = self.heard.get(address)
        if found is not None and found[0].alive:
            found[1](note)


class Bus:
    """The bus of one process."""

    def __init__(self, process: Process, wires: Wires) -> None:
        self._process = process
        self._wires = wires

    @property
    def address(self) -> str:
        """Where it hears."""
        return self._process.name

    def listen(self, hear: Callable[[Note], None]) -> None:
        """Hear from now on."""
        self._wires.heard[self.address] = (self._process, hear)

    def send(self, address: str, note: Note) -> None:
        """Send."""
        self._wires.send(address, note)

    def close(self) -> None:
        """Hear no more."""
        self._wires.heard.pop(self.address, None)


class Disk:
    """What every store of the machine writes to: a write is there at one moment, and heard of at a later one.

    So power that fails, or a process that dies, finds each write either there or not, and some of those that are there
    have been told to nobody.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.memory = SharedMemory()
        self.durability: Durability = "power"
        self.full = False
        self.unreadable = False
        self.held_until = 0.0
        """Until then another program holds the lock for writing."""
        self.write = 0.003
        self.tell = 0.003
        self.read = 0.001
        self.synced: tuple[float, sqlite3.Connection] | None = None
        """What is there when the power fails, and since when; None: all that was written."""

    def sessions(self) -> list[SessionId]:
        """Every session, in the order in which they were made."""
        found = self.memory.connection.execute("SELECT id FROM sessions ORDER BY key").fetchall()
        return [SessionId(name) for (name,) in found]

    def rows(self, session: SessionId, after: int) -> list[Row]:
        """Its journal, after a position."""
        return reads.records(self.memory.connection, session, Position(after), -1)

    def statuses(self) -> dict[SessionId, str]:
        """Where each session stands, as lists show it."""
        return dict(self.memory.connection.execute("SELECT id, status FROM sessions").fetchall())

    def spoil(self, session: SessionId, what: Spoiled, chance: Random) -> bool:
        """Turn a bit over in what is kept of a session; False: there is nothing like that."""
        connection = self.memory.connection
        table, column, where = SPOILS[what]
        wanted = f"SELECT rowid, {column} FROM {table} WHERE {where} ORDER BY rowid"
        found = connection.execute(wanted, {"id": session}).fetchall()
        if not found:
            return False
        row, content = chance.choice(found)
        spoiled = bytearray(content)
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(spoiled), row))
        return True

    def sync(self) -> None:
        """All that was written is there when the power fails."""
        copy = self.synced[1] if self.synced else sqlite3.connect(":memory:", check_same_thread=False)
        self.memory.connection.backup(copy)
        self.synced = (self.machine.time, copy)

    def forget(self) -> tuple[float, float] | None:
        """The power has failed: return from when to when what was written is lost."""
        if self.synced is None:
            return None
        at, copy = self.synced
        copy.backup(self.memory.connection)
        return at, self.machine.time


class Writer:
    """Commits what one process writes."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._last = 0.0
        self._closed = False

    def submit(self, work: Callable[[Any], T]) -> "asyncio.Future[T]":
        """Commit, and tell of it, each at its time."""
        machine, loop = self._disk.machine, asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        name: str = getattr(work, "func", work).__name__
        if name in AT_ONCE:
            _settle(future, *self._done(work))
            return future

        def commit() -> None:
            if not self._process.alive:
                return
            if self._process.stopped:
                self._process.held.append(commit)
                return
            value, error = self._done(work)
            if error is None:
                machine.tell(f"{self._process.name}: wrote {name}")
            tell(partial(_settle, future, value, error))

        def tell(what: Callable[[], object]) -> None:
            machine.after(self._disk.tell, lambda: loop.call_soon(what) if self._process.alive else None)

        # In the order in which they were made, as the port says.
        self._last = max(self._last, machine.time, self._disk.held_until) + machine.chance.uniform(0, self._disk.write)
        machine.at(self._last, commit)
        return future

    def _done(self, work: Callable[[Any], Any]) -> tuple[Any, MidcourseError | None]:
        try:
            if self._disk.full:
                raise StoreUnavailable("The simulated disk is full.", code="store_full")
            if self._closed:
                raise store_errors.closed("memory://")
            value = self._disk.memory.write(work)
            if self._disk.synced is not None and self._disk.machine.chance.random() < SYNCS:
                self._disk.sync()
            return value, None
        except MidcourseError as error:
            return None, error

    async def close(self) -> None:
        """Commit no more."""
        self._closed = True


class Store(MemoryStore):
    """The store of one process."""

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__(disk.memory)
        self._writes = Writer(disk, process)
        self._disk = disk
        process.on_death.append(self.abandon)

    @property
    def durability(self) -> Durability:
        """What survives."""
        return self._disk.durability

    async def _after_a_while(self) -> None:
        if self._disk.unreadable:
            raise StoreUnavailable("The simulated disk cannot be read.", code="store_unavailable")
        loop = asyncio.get_running_loop()
        waits: asyncio.Future[None] = loop.create_future()
        self._disk.machine.after(self._disk.read, lambda: loop.call_soon(_settle, waits, None, None))
        await waits


def _settle(future: "asyncio.Future[Any]", value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


AT_ONCE: Final = frozenset({"add_worker", "remove_worker"})
"""Writes that nothing is simulated of."""

READS: Final = (
    "head", "read", "snapshots", "blobs", "undecided", "row", "shelved", "shelf_keys", "heads", "shelves",
    "audit", "audit_end", "unattended", "pending", "changed",
)  # fmt: skip


def _slow(name: str) -> Callable[..., Awaitable[Any]]:
    quick = getattr(MemoryStore, name)

    async def read(self: Store, *arguments: Any, **named: Any) -> Any:
        await self._after_a_while()  # pyright: ignore[reportPrivateUsage]
        return await quick(self, *arguments, **named)

    return read


for _name in READS:
    setattr(Store, _name, _slow(_name))
