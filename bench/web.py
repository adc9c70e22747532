"""The server in a process of its own, a client on one connection, and the floor: the barest server that could do it."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import midcourse
from bench import children, effects, floors
from midcourse.cli.process import own_process
from midcourse.server import CallerLimits, Server
from midcourse.server.http_protocol import PatientProtocol

TOKEN: Final = "mct_the-token-of-the-benches-0000000000000000"
PATIENT: Final = midcourse.Settings(silent_after=1e6)
NO_LIMITS: Final = CallerLimits(rate=1e6, burst=1_000_000, streams_each=10_000, streams=10_000)


@asynccontextmanager
async def serving(app: Any, *, http: Any = "auto", lifespan: Any = "auto") -> AsyncGenerator[int]:
    """Uvicorn on a free port of this loop."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(app, http=http, lifespan=lifespan, log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await task


async def serve(store: str, prepare: Callable[[midcourse.Midcourse], Awaitable[None]], *, grace: float = 0.0) -> None:
    """The child: a server, whose sessions ``prepare`` starts, until it is told to end."""
    own_process()
    server = Server(store=store, token=TOKEN, settings=PATIENT, limits=NO_LIMITS, grace=grace)
    async with serving(server.app, http=PatientProtocol) as port:
        assert server.local is not None
        await prepare(midcourse.Midcourse(server.local))
        children.say(port=port)
        await children.heard()


@asynccontextmanager
async def child(function: str, *arguments: object) -> AsyncGenerator[int]:
    """A child that serves, and its port."""
    async with children.child(function, *arguments) as one:
        yield (await one.hear())["port"]


class Connection:
    """One kept connection that posts and gets JSON: as little client as there can be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request and read its answer."""
        content = b"" if body is None else json.dumps(body).encode()
        self._writer.write(_head(method, path, len(content)) + content)
        length = 0
        while (line := await self._reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(await self._reader.readexactly(length) or b"null")

    async def follow(self, path: str) -> asyncio.StreamReader:
        """Ask for a stream of events; the reader stands before its first line."""
        self._writer.write(_head("GET", path, 0, b"Accept: text/event-stream\r\n"))
        while (await self._reader.readline()).strip():
            pass
        return self._reader

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def _head(method: str, path: str, length: int, more: bytes = b"") -> bytes:
    first = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    return first + b"Content-Type: application/json\r\nContent-Length: %d\r\n" % length + more + b"\r\n"


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Connection]:
    """A connection to a server on this machine."""
    one = Connection(*await asyncio.open_connection("127.0.0.1", port, limit=4 * 1024 * 1024))
    try:
        yield one
    finally:
        one.close()


# ---- floors


async def bare_server(folder: str, sessions: str) -> None:
    """The child of the floor: a bare Starlette that commits a row, and cancels a task, at a request."""
    effect = Path(folder) / "floor-effects"
    tasks: list[asyncio.Task[None]] = []

    with closing(floors.connect(Path(folder) / "floor.db")) as connection:

        async def begin(_request: Request) -> Response:
            tasks.append(asyncio.create_task(effects.go_on(effect)))
            return JSONResponse({})

        async def stop(request: Request) -> Response:
            await request.json()
            floors.commit(connection, b"x" * 300)
            task = tasks.pop()
            task.cancel()
            await asyncio.wait({task})
            return JSONResponse({"level": "stopped"})

        async def look(_request: Request) -> Response:
            return JSONResponse({"status": "running"})

        async def stream(request: Request) -> Response:
            count = int(request.query_params["count"])

            async def frames() -> AsyncIterator[bytes]:
                for number in range(count):
                    yield b"id: %d\nevent: step.begun\ndata: %s\n\n" % (number, b"x" * 400)
                    if number % 100 == 0:
                        await asyncio.sleep(0)

            return StreamingResponse(frames(), media_type="text/event-stream")

        routes = [
            Route("/begin", begin, methods=["POST"]),
            Route("/stop", stop, methods=["POST"]),
            Route("/look", look),
            Route("/stream", stream),
        ]
        async with floors.bare_sessions(int(sessions) - 1), serving(Starlette(routes=routes), http="httptools") as port:
            children.say(port=port)
            await children.heard()
