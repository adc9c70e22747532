"""Over HTTP: how long after the click is a stop answered, durably, and when was the last thing done to the world?

The sessions run in the server's process; the click is a request of another one, on a kept connection: pause, grace 0.
"""

import asyncio
import random
import time
from pathlib import Path
from typing import Final

import midcourse
from bench import effects, web
from bench.harness import Result, ask, folder, median, p99, store_in
from bench.stop_latency import CLICKED, start_sessions

QUESTION: Final = "stop latency over HTTP, p99"
SESSIONS: Final = (1, 100, 1000)
CLICKS: Final = 300


async def serve(store: str, number: str, path: str) -> None:
    """The child: the server and its sessions."""

    async def prepare(mc: midcourse.Midcourse) -> None:
        await start_sessions(mc, int(number), Path(path))

    await web.serve(store, prepare)


async def click(connection: web.Connection, path: Path) -> tuple[list[float], list[float]]:
    """Pause and resume, again and again: to the answer, and to the last effect."""
    answered: list[float] = []
    ended: list[float] = []
    before = 0
    place = f"/api/v1/sessions/{CLICKED}"
    for _ in range(CLICKS):
        await effects.until_more_than(path, before)
        await asyncio.sleep(random.uniform(0.0, 0.002))
        moment = time.perf_counter()
        reply = await connection.ask("POST", f"{place}/pause", {"grace": 0})
        answered.append((time.perf_counter() - moment) * 1000)
        assert reply.get("level") in ("stopping", "stopped"), reply
        reply = await connection.ask("POST", f"{place}/pause", {"grace": 0, "until": "stopped"})
        assert reply["level"] == "stopped", reply
        before = effects.count(path)
        ended.append(max(0.0, effects.last(path).moment - moment) * 1000)
        await connection.ask("POST", f"{place}/resume", {"pause": reply["pause"]})
    return answered, ended


async def bare_click(connection: web.Connection, path: Path) -> tuple[list[float], list[float]]:
    """The same at the bare server: one request that commits and cancels."""
    answered: list[float] = []
    ended: list[float] = []
    for _ in range(CLICKS):
        before = effects.count(path)
        await connection.ask("POST", "/begin", {})
        await effects.until_more_than(path, before)
        await asyncio.sleep(random.uniform(0.0, 0.002))
        moment = time.perf_counter()
        await connection.ask("POST", "/stop", {"grace": 0})
        answered.append((time.perf_counter() - moment) * 1000)
        ended.append(max(0.0, effects.last(path).moment - moment) * 1000)
    return answered, ended


async def measured(number: int) -> list[Result]:
    """With so many running."""
    with folder() as path:
        async with web.child("web:bare_server", path, number) as port, web.connected(port) as connection:
            bare_answers, bare_ends = await bare_click(connection, path / "floor-effects")
        serving = ("http_stop:serve", store_in(path), number, path / "effects")
        async with web.child(*serving) as port, web.connected(port) as connection:
            answered, ended = await click(connection, path / "effects")
    return [
        _result(f"{number:,} running: → answered", answered, bare_answers),
        _result(f"{number:,} running: → last effect", ended, bare_ends),
    ]


def _result(case: str, ours: list[float], floor: list[float]) -> Result:
    return Result(
        QUESTION,
        case,
        p99(ours),
        "ms",
        len(ours),
        median=median(ours),
        floor=p99(floor),
        floor_is="a bare Starlette that commits a row and cancels a task",
        must=100,
        aim=10,
    )


def answers() -> list[Result]:
    """The table's lines."""
    return ask(*(lambda number=number: measured(number) for number in SESSIONS))
