"""How many events a second reach 1, 10 and 100 watchers of one session over HTTP?

The journal is written before; each watcher follows it from the start, on a connection of its own, in another process.
The floor is a bare Starlette that sends as many frames of the same size from memory.
"""

import asyncio
import time
from typing import Final

import midcourse
from bench import web
from bench.harness import Result, ask, folder, store_in

QUESTION: Final = "events per second over HTTP"
WATCHERS: Final = (1, 10, 100)
STEPS: Final = 1000
WATCHED: Final = "sess_watched"


@midcourse.tool(effect="read")
async def note(number: int) -> str:
    """A short step."""
    return f"note {number}"


@midcourse.agent
async def takes_notes(run: midcourse.Run) -> None:
    """So many short steps."""
    for number in range(STEPS):
        await run.step("note", note, number)


async def serve(store: str) -> None:
    """The child: the server, with a session that has ended."""

    async def prepare(mc: midcourse.Midcourse) -> None:
        session = await mc.start(takes_notes, session_id=WATCHED)
        await session.result()

    await web.serve(store, prepare)


async def _read(port: int, path: str, events: int) -> int:
    async with web.connected(port) as connection:
        reader = await connection.follow(path)
        seen = 0
        while seen < events:
            line = await reader.readline()
            assert line, "the stream ended early"
            seen += line.startswith(b"data:")
        return seen


async def rate(port: int, path: str, watchers: int, events: int) -> float:
    """Events a second that so many watchers received together."""
    start = time.perf_counter()
    read = await asyncio.gather(*(_read(port, path, events) for _ in range(watchers)))
    return sum(read) / (time.perf_counter() - start)


async def measured() -> list[Result]:
    """Each number of watchers."""
    results: list[Result] = []
    with folder() as path:
        serving = ("http_watchers:serve", store_in(path))
        async with web.child("web:bare_server", path, 1) as floor_port, web.child(*serving) as port:
            place = f"/api/v1/sessions/{WATCHED}/events"
            async with web.connected(port) as connection:
                session = await connection.ask("GET", f"/api/v1/sessions/{WATCHED}")
            events = session["position"]
            for number in WATCHERS:
                floor = await rate(floor_port, f"/stream?count={events}", number, events)
                ours = await rate(port, f"{place}?follow=false", number, events)
                results.append(
                    Result(
                        QUESTION,
                        f"{number} watcher{'s' if number > 1 else ''}, all together",
                        ours,
                        "/s",
                        events * number,
                        floor=floor,
                        floor_is="a bare Starlette that sends frames from memory",
                    )
                )
    return results


def answers() -> list[Result]:
    """The table's lines."""
    return ask(measured)
