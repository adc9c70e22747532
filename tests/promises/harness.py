"""Where the sessions of a test live, and what a test needs to look at them. Nothing here decides by time."""

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

import midcourse
from midcourse.core.events import Mode, Recorded, event_type
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.replies import Durability
from midcourse.core.session import OpenAsk, Session
from midcourse.handle import LocalTransport, Midcourse, SessionHandle
from midcourse.ports.store import InboxRow, Store
from midcourse.runtime.agents import OnNewVersion
from midcourse.runtime.settings import Settings
from midcourse.runtime.tools import declared_tool, register
from midcourse.stores.sqlite import SqliteStore
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from midcourse.testing.wrapped_store import WrappedStore
from midcourse.wiring import open_control
from tests.fake_time import running_clock

T = TypeVar("T")
Kind = Literal["memory", "sqlite"]
KINDS: tuple[Kind, ...] = ("memory", "sqlite")
NEVER = 3600.0
"""Seconds that no test lives."""
_numbers = itertools.count(1)


def resumable(
    function: Callable[[midcourse.Run], Awaitable[T]],
    *,
    name: str = "agent",
    mode: Mode = "replay",
    version: str = "1",
    on_new_version: OnNewVersion = "go_on",
) -> midcourse.Agent[T]:
    """An agent that may go on anywhere, although a test defines it inside a function."""
    return midcourse.Agent(
        name=name,
        function=function,
        version=version,
        mode=mode,
        origin=f"{function.__module__}:{name}",
        resumable=True,
        on_new_version=on_new_version,
    )


class Place:
    """A store that a test opens as often as it likes, as several programs would."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "sessions.db"
        self.memory = SharedMemory()
        self.url = "memory://" if kind == "memory" else f"sqlite:///{self.path}"

    @contextmanager
    def tables(self) -> Generator[sqlite3.Connection]:
        """The tables of the sessions, behind the back of every store. What is changed is there afterwards."""
        if self.kind == "memory":
            yield self.memory.connection
        else:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                yield connection

    async def store(self, durability: Durability = "process") -> MemoryStore | SqliteStore:
        """Another store object on the same sessions."""
        if self.kind == "memory":
            return MemoryStore(self.memory)
        return await SqliteStore.open(self.path, durability=durability)

    @asynccontextmanager
    async def open(
        self,
        *agents: midcourse.Agent[Any],
        store: Store | None = None,
        drive: bool = True,
        grace: float = 2.0,
        settings: Settings | None = None,
        clock: FakeClock | None = None,
    ) -> AsyncGenerator[Midcourse]:
        """A program that has ``agents`` and opens the store."""
        clock = clock or running_clock()
        opens = store or await self.store()
        control = await open_control(
            opens if clock is None or isinstance(opens, WrappedStore) else clock.counted(opens),
            clock=clock,
            durability="process",
            drives=drive,
            settings=settings or QUICK,
            agents={agent.name: agent for agent in agents},
        )
        opened = Midcourse(LocalTransport(control))
        try:
            yield opened
        finally:
            await opened.close(grace)


# The poll is quick so that a takeover is; an owner is called unreachable only where a test is about that.
QUICK = Settings(poll=0.05, unreachable_after=30.0)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of each kind."""
    return Place(request.param, tmp_path)


@pytest.fixture
def memory(tmp_path: Path) -> Place:
    """An empty store in memory, for what neither files nor threads could make different."""
    return Place("memory", tmp_path)


@pytest.fixture(name="place")
def only_memory(tmp_path: Path) -> Place:
    """The same under the other name: a folder's conftest chooses whether its tests run on one store or on each."""
    return Place("memory", tmp_path)


class Tool:
    """A declared tool: it keeps what it was called with, and ends when it may.

    It may be aborted and done again at once, unless the test declares something else. ``run`` is what a step is given.
    """

    def __init__(self, *, holds: bool = False, **declared: Any) -> None:
        declared = {"effect": "idempotent", "settle": 0.0, **declared}
        # Each is a tool of its own, which a later process of the test finds again by this name.
        self.run = declared_tool(self._body, name="run", origin=f"{__name__}:tool{next(_numbers)}", **declared)
        register(self.run)
        self.begun: list[tuple[object, ...]] = []
        self.ended: list[tuple[object, ...]] = []
        self.entered = asyncio.Event()
        self.may_end = asyncio.Event()
        if not holds:
            self.may_end.set()

    async def _body(self, *arguments: object) -> object:
        self.begun.append(arguments)
        self.entered.set()
        await self.may_end.wait()
        self.ended.append(arguments)
        return arguments[0] if arguments else None


async def history(session: SessionHandle[Any]) -> list[Recorded]:
    """The journal as it is now."""
    position = (await session.state()).position
    events: list[Recorded] = []
    watching = session.watch(follow=True)
    async for event in watching:
        events.append(event)
        if event.position >= position:
            break
    await stop_watching(watching)
    return events


async def stop_watching(watching: AsyncIterator[Any]) -> None:
    """Close the generator that ``watch`` gave."""
    assert isinstance(watching, AsyncGenerator)
    await watching.aclose()


def types(events: Sequence[Recorded]) -> list[str]:
    """What happened, in words."""
    return [event_type(event.event) for event in events]


async def until(session: SessionHandle[Any], kind: str, *, times: int = 1, after: int = 0) -> Recorded:
    """The event of that type, the ``times``-th after a position, once it is durable."""
    watching = session.watch(after, follow=True)
    try:
        async for event in watching:
            times -= event.type == kind
            if times == 0:
                return event
    finally:
        await stop_watching(watching)
    raise AssertionError("a followed watch does not end")


async def until_status(session: SessionHandle[Any], *statuses: str) -> str:
    """Where the session stands once it stands at one of ``statuses``."""
    watching = session.watch((await session.state()).position, follow=True)
    try:
        while (status := await session.status()) not in statuses:
            await anext(watching)
        return status
    finally:
        await stop_watching(watching)


async def until_state(session: SessionHandle[Any], holds: Callable[[Session], bool]) -> Session:
    """The session's state once that holds of it. It is looked at after each event."""
    watching = session.watch((await session.state()).position, follow=True)
    try:
        while not holds(state := await session.state()):
            await anext(watching)
        return state
    finally:
        await stop_watching(watching)


async def until_asks(session: SessionHandle[Any], count: int = 1) -> tuple[OpenAsk, ...]:
    """Return its asks once there are so many."""
    return (await until_state(session, lambda state: len(state.asks) >= count)).asks


async def until_true(condition: Callable[[], bool]) -> None:
    """Until the condition holds; the test's own timeout is the guard."""
    while not condition():
        await asyncio.sleep(0.002)


async def turns(count: int) -> None:
    """Let the loop run what is ready, ``count`` times."""
    for _ in range(count):
        await asyncio.sleep(0)


def silence(mc: Midcourse, session_id: str) -> Callable[[], None]:
    """Have the session's owner decide nothing any more, as a stopped process would."""
    driver = mc._control.worker.driver(SessionId(session_id))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert driver is not None

    async def nothing(put: InboxRow | None = None) -> dict[CommandId, Any]:
        del put
        return {}

    driver.settle = nothing

    def wake_up() -> None:
        del driver.settle

    return wake_up
