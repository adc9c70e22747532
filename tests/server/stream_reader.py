"""What a test needs to read streams and to hold agents that run on another thread's loop. Nothing decides by time."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

import midcourse
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises.harness import QUICK, Place
from tests.server.live_server import Running, serving

T = TypeVar("T")
Data = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """One server-sent event, or a comment."""

    data: Data = field(default_factory=dict[str, Any])
    event: str = ""
    id: str = ""
    comment: str = ""

    @property
    def type(self) -> str:
        """What kind it is, for a client of the chat or of the events."""
        return str(self.data.get("type", ""))


async def frames_of(response: httpx2.Response) -> AsyncIterator[Frame]:
    """The frames of a stream as they come; comments too."""
    lines: list[str] = []
    async for line in response.aiter_lines():
        if line:
            lines.append(line)
            continue
        if lines:
            yield _frame(lines)
        lines = []


def _frame(lines: list[str]) -> Frame:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found[name or "comment"] = value.removeprefix(" ")
    data: Data = json.loads(found["data"]) if "data" in found else {}
    return Frame(data, found.get("event", ""), found.get("id", ""), found.get("comment", ""))


class Stream:
    """An open stream: take frames from it one by one, or all."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.session = response.headers.get("x-session-id", "")
        self.frames = frames_of(response)
        self.seen: list[Frame] = []
        self.marks: list[tuple[int, Frame]] = []
        """``caught_up`` and ``end``, each with how many frames were seen before it."""

    async def next(self) -> Frame:
        """The next frame that is no comment and no mark: what says where a stream stands is in ``marks``."""
        while True:
            frame = await anext(self.frames)
            if frame.event in ("caught_up", "end"):
                self.marks.append((len(self.seen), frame))
            elif not frame.comment:
                self.seen.append(frame)
                return frame

    async def until(self, kind: str) -> Frame:
        """The next frame of that type."""
        while (frame := await self.next()).type != kind:
            assert frame.type not in ("done", "error"), f"waited for {kind}, got {frame}"
        return frame

    async def rest(self) -> list[Frame]:
        """Every frame until the server closes the stream."""
        while True:
            try:
                await self.next()
            except StopAsyncIteration:
                return self.seen

    @property
    def text(self) -> str:
        """What the deltas seen so far say."""
        return "".join(frame.data["text"] for frame in self.seen if frame.type == "delta")


@asynccontextmanager
async def opened(client: httpx2.AsyncClient, method: str, path: str, **more: Any) -> AsyncGenerator[Stream]:
    """A stream that must open."""
    async with client.stream(method, path, **more) as response:
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(f"{response.status_code} {response.text}")
        yield Stream(response)


@asynccontextmanager
async def chatting(client: httpx2.AsyncClient, message: str = "go", **more: Any) -> AsyncGenerator[Stream]:
    """A chat, with the agent ``agent`` unless another is given."""
    headers = more.pop("headers", None)
    body = {"agent": "agent", "message": message, **more}
    async with opened(client, "POST", "/chat", json=body, headers=headers) as stream:
        yield stream


@asynccontextmanager
async def answering(
    client: httpx2.AsyncClient, session: str, answer: object, *, headers: dict[str, str] | None = None, **more: Any
) -> AsyncGenerator[Stream]:
    """An answer to what a session asks."""
    body = {"session_id": session, "answer": answer, **more}
    async with opened(client, "POST", "/chat/resume", json=body, headers=headers) as stream:
        yield stream


async def refusal(client: httpx2.AsyncClient, path: str, body: object, **headers: str) -> tuple[int, str]:
    """The status and code of what must not be granted."""
    response = await client.post(path, json=body, headers=headers)
    return response.status_code, response.json()["code"]


class Latch:
    """Set in one thread, waited for on the loop of another."""

    def __init__(self) -> None:
        self._set = threading.Event()

    def set(self) -> None:
        """Let go whoever waits."""
        self._set.set()

    @property
    def is_set(self) -> bool:
        """Whether it was."""
        return self._set.is_set()

    async def wait(self) -> None:
        """Until it is set; the test's own timeout is the guard."""
        while not self._set.is_set():
            await asyncio.sleep(0.003)


async def eventually(look: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    """What ``look`` finds, once it is what is wanted; the test's own timeout is the guard."""
    while not wanted(found := await look()):
        await asyncio.sleep(0.01)
    return found


async def until_status(client: httpx2.AsyncClient, session: str, *statuses: str) -> Data:
    """The session, once it stands at one of ``statuses``."""

    async def look() -> Data:
        return (await client.get(f"/sessions/{session}")).json()

    return await eventually(look, lambda found: found["status"] in statuses)


async def events_of(client: httpx2.AsyncClient, session: str, *, limit: int = 1000) -> list[Data]:
    """The journal as it is now."""
    events: list[Data] = []
    after: int | None = 0
    while after is not None:
        page = (await client.get(f"/sessions/{session}/events", params={"after": after, "limit": limit})).json()
        events += page["events"]
        after = page["next"]
    return events


async def count_of(client: httpx2.AsyncClient, session: str, kind: str) -> int:
    """How often something happened to a session."""
    return sum(event["type"] == kind for event in await events_of(client, session))


@contextmanager
def served(place: Place, *agents: midcourse.Agent[Any], **more: Any) -> Generator[Running]:
    """The agents behind a real server on the store of ``place``: a second server finds the same sessions."""
    store: Any = MemoryStore(place.memory) if place.kind == "memory" else place.url
    more.setdefault("settings", QUICK)
    with serving(store, *agents, durability="process", **more) as running:
        yield running
