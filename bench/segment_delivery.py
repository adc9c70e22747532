"""How long after streamed text is durable does a watcher see it, and how long after it was said its preview?"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import midcourse
from bench import children, floors
from bench.harness import Result, ask, folder, median, p99, store_in
from midcourse.core.events import SegmentWritten
from midcourse.ports.store import Append, Store
from midcourse.wiring import open_store

QUESTION: Final = "segment delivery, p99"
SEGMENTS: Final = 300
PIECES: Final = 10
"""So that there are enough segments: a tenth of what a segment has by default."""
EVERY: Final = 0.0005
SESSION: Final = "sess_streaming"
SETTINGS: Final = midcourse.Settings(segment_tokens=PIECES)


async def tell_the_time() -> AsyncIterator[str]:
    """A model whose every word is the time at which it is said."""
    for _ in range(SEGMENTS * PIECES):
        yield f"{time.perf_counter():.9f} "
        await asyncio.sleep(EVERY)


@midcourse.agent
async def segment_streams(run: midcourse.Run) -> None:
    """Waits until it is watched, then streams."""
    await run.ask("Is somebody watching?")
    await run.stream("speak", tell_the_time)


class Timed:
    """A store that remembers when each position of a journal became durable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.durable: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> "asyncio.Future[None]":
        """As the store does it, and noted before anybody else hears of it."""
        written = asyncio.ensure_future(self._store.append(append))
        written.add_done_callback(lambda _: self.durable.update(dict.fromkeys((row[0] for row in append.rows), _now())))
        return written


def _now() -> float:
    return time.perf_counter()


async def watch(session: midcourse.SessionHandle[Any]) -> tuple[dict[int, float], list[float]]:
    """When each segment was seen, and how old each preview was when it was."""
    segments: dict[int, float] = {}
    previews: list[float] = []
    async for one in session.watch(deltas=True):
        if isinstance(one, midcourse.Delta):
            previews.append((_now() - float(one.text)) * 1000)
        elif isinstance(one.event, SegmentWritten):
            segments[one.position] = _now()
    return segments, previews


async def drive(path: str) -> None:
    """The child: streams here, and is watched from elsewhere."""
    timed = Timed(await open_store(store_in(Path(path))))
    async with midcourse.open(cast("Store", timed), settings=SETTINGS) as mc:
        session = await mc.start(segment_streams, session_id=SESSION)
        children.say(ready=True)
        await children.heard()
        await session.answer("yes")
        await session.result()
    children.say(durable=timed.durable)


async def in_process() -> list[Result]:
    """The watcher is a task of the program that streams."""
    event = await floors.event_ms(repeats=SEGMENTS)
    with folder() as path:
        timed = Timed(await open_store(store_in(path)))
        async with midcourse.open(cast("Store", timed), settings=SETTINGS) as mc:
            session = await mc.start(segment_streams)
            watching = asyncio.create_task(watch(session))
            await asyncio.sleep(0.1)
            await session.answer("yes")
            segments, previews = await watching
    return _results("in-process", segments, timed.durable, previews, event, "a bare wake-up of a task")


async def in_another_process() -> list[Result]:
    """The watcher is another program."""
    message = await floors.message_ms(repeats=SEGMENTS)
    with folder() as path:
        async with children.child("segment_delivery:drive", path) as driver:
            await driver.hear()
            async with midcourse.open(store_in(path), drive=False) as mc:
                session = await mc.get(SESSION)
                watching = asyncio.create_task(watch(session))
                await asyncio.sleep(0.1)
                driver.tell("somebody watches")
                segments, previews = await watching
            durable = {int(position): moment for position, moment in (await driver.hear())["durable"].items()}
    return _results("other process", segments, durable, previews, message, "a bare message between processes")


def _results(
    where: str,
    segments: dict[int, float],
    durable: dict[int, float],
    previews: list[float],
    floor: list[float],
    floor_is: str,
) -> list[Result]:
    assert len(segments) >= SEGMENTS, f"{len(segments)} of {SEGMENTS} segments were seen"
    assert len(previews) > SEGMENTS, f"{len(previews)} previews were seen"
    delivered = [max(0.0, seen - durable[position]) * 1000 for position, seen in segments.items()]
    return [
        Result(
            QUESTION,
            f"{where}, {what}",
            p99(ours),
            "ms",
            len(ours),
            median=median(ours),
            floor=p99(floor),
            floor_is=floor_is,
            must=100,
            aim=10,
        )
        for what, ours in (("durable segment → seen", delivered), ("preview said → seen", previews))
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return ask(in_process, in_another_process)
