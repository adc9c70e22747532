"""An HTTP server that says what a test tells it to say, byte for byte, and hangs up where it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from midcourse.core.events import Recorded, event_type
from midcourse.core.ids import SessionId
from midcourse.core.replies import Reply
from midcourse.core.session import Session, Status

SESSION = SessionId("sess_1")
LINGER = b"(linger)"
"""A piece of a stream that is none: nothing is said for as long as ``linger`` takes."""
HANG_UP = b""
"""An answer that is none: the connection is closed instead."""


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """Its body."""
        return msgspec.json.decode(self.body, type=dict[str, object])


Answer = bytes | Sequence[bytes] | Callable[[Asked], "bytes | Sequence[bytes]"]


@dataclass
class Scripted:
    """The server: answers in the order they were given, and the last of them again and again."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list[Asked])
    port: int = 0
    linger: Callable[[], Awaitable[None]] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if line}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            parts = urlsplit(target)
            asked = Asked(method, unquote(parts.path), parse_qs(parts.query), headers, body)
            answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
            self.asked.append(asked)
            said = answer(asked) if callable(answer) else answer
            for piece in [said] if isinstance(said, bytes) else said:
                if piece == LINGER:
                    assert self.linger is not None
                    await self.linger()
                    continue
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*answers: Answer, port: int = 0) -> AsyncGenerator[Scripted]:
    """A server with these answers."""
    script = Scripted(list(answers))
    server = await asyncio.start_server(script.serve, "127.0.0.1", port)
    script.port = server.sockets[0].getsockname()[1]
    async with server:
        yield script


def said(content: object, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode() + body


def problem(status: int, code: str, detail: str = "It is so.", **fields: object) -> bytes:
    """A problem document."""
    content = {"type": f"urn:midcourse:error:{code}", "title": "X", "status": status, "detail": detail, "code": code}
    return said(content | fields, status, "application/problem+json")


def stream(*frames: str, cut: bool = False) -> list[bytes]:
    """A stream of server-sent events that is closed at its end, or ``cut`` off in its middle."""
    length = "Content-Length: 1000000\r\n" if cut else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n{length}\r\n"
    return [head.encode(), *(frame.encode() for frame in frames)]


def frame(recorded: Recorded) -> str:
    """An event as a server sends it."""
    data = msgspec.json.decode(msgspec.json.encode(recorded.event))
    version = int(str(data.pop("type")).partition("@")[2])
    kind = event_type(recorded.event)
    content = {"position": recorded.position, "at": recorded.at, "type": kind, "version": version, "data": data}
    return f"id: {recorded.position}\nevent: {kind}\ndata: {msgspec.json.encode(content).decode()}\n\n"


def reply(level: str = "stopping", status: Status = Status.PAUSING, **fields: object) -> bytes:
    """A control's answer."""
    content = {"level": level, "status": status, "session": SESSION, "durability": "power", **fields}
    msgspec.convert(content, Reply)
    return said(content)


def session(status: Status = Status.RUNNING, position: int = 1, **fields: object) -> bytes:
    """A session as a server shows it."""
    content: dict[str, object] = {
        "id": SESSION,
        "agent": "a",
        "agent_version": "1",
        "mode": "replay",
        "origin": "m:a",
        "resumable": True,
        "created_at": 1.0,
        "updated_at": 2.0,
        "status": status,
        "position": position,
        "goal": "g",
        **fields,
    }
    msgspec.convert(content, Session)
    return said(content)
