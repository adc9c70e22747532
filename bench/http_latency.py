"""How long does a request take while 1,000 sessions work and others send requests, too?

Eight connections send one request after the other for some seconds: mostly looks, some redirects. The ninth is timed.
The floor is a bare Starlette route that answers from memory, under the same load.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import midcourse
from bench import web
from bench.harness import Result, ask, folder, median, p99, store_in
from bench.stop_latency import CLICKED, start_sessions

QUESTION: Final = "request latency under load, p99"
SESSIONS: Final = 1000
OTHERS: Final = 8
TIMED: Final = 300
Request = tuple[str, str, object]


async def serve(store: str, path: str) -> None:
    """The child: the server and its sessions."""

    async def prepare(mc: midcourse.Midcourse) -> None:
        await start_sessions(mc, SESSIONS, Path(path))

    await web.serve(store, prepare)


async def _load(port: int, path: str, until: asyncio.Event) -> int:
    sent = 0
    async with web.connected(port) as connection:
        while not until.is_set():
            await connection.ask("GET", path)
            sent += 1
            await asyncio.sleep(0.005)
    return sent


async def _timed(port: int, load: str, request: Request) -> list[float]:
    over = asyncio.Event()
    others = [asyncio.create_task(_load(port, load, over)) for _ in range(OTHERS)]
    taken: list[float] = []
    async with web.connected(port) as connection:
        for _ in range(TIMED):
            start = time.perf_counter()
            await connection.ask(*request)
            taken.append((time.perf_counter() - start) * 1000)
            await asyncio.sleep(0.005)
    over.set()
    await asyncio.gather(*others)
    return taken


async def measured() -> list[Result]:
    """A look, a list, a command."""
    with folder() as path:
        async with web.child("web:bare_server", path, SESSIONS) as port:
            floor = await _timed(port, "/look", ("GET", "/look", None))
        async with web.child("http_latency:serve", store_in(path), path / "effects") as port:
            place = f"/api/v1/sessions/{CLICKED}"
            cases: dict[str, Request] = {
                "look at a session": ("GET", place, None),
                "list 50 sessions": ("GET", "/api/v1/sessions?limit=50", None),
                "queue a message": ("POST", f"{place}/message", {"text": "and then?"}),
            }
            taken = {case: await _timed(port, place, request) for case, request in cases.items()}
    return [
        Result(
            QUESTION,
            case,
            p99(ours),
            "ms",
            len(ours),
            median=median(ours),
            floor=p99(floor),
            floor_is="a bare Starlette route that answers from memory, under the same load",
        )
        for case, ours in taken.items()
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(measured)
