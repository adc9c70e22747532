"""Promise 10: cost is linear, amortised. A step of a long session costs what one of a short session does."""

from pathlib import Path
from typing import NamedTuple

import midcourse
from midcourse.core import events as ev
from midcourse.core.snapshot import TOOL_CALLS_LIMIT
from tests.promises.faults import Faulty
from tests.promises.harness import Place, history, resumable, types

FEW, MANY = 200, 2_000


class Cost(NamedTuple):
    """What a session of some steps cost."""

    written: int
    kept: int
    snapshots: int


async def _step(number: int) -> dict[str, object]:
    return {"number": number, "found": "something worth about a hundred bytes, as a tool's answer often is" * 2}


def _agent(steps: int) -> midcourse.Agent[int]:
    async def work(run: midcourse.Run) -> int:
        run.state.setdefault("done", 0)
        while run.state["done"] < steps:
            for _ in range(10):
                await run.step("work", _step, run.state["done"])
                run.state["done"] += 1
            await run.checkpoint()
        return run.state["done"]

    return resumable(work, name=f"state-{steps}", mode="state")


async def _cost_of(kind: str, folder: Path, steps: int) -> Cost:
    folder.mkdir()
    place = Place("memory" if kind == "memory" else "sqlite", folder)
    store = Faulty(await place.store())
    agent = _agent(steps)
    async with place.open(agent, store=store) as mc:
        session = await mc.start(agent, session_id="s")
        assert await session.result() == steps
    return Cost(store.bytes_written, _kept(place), store.snapshots_saved)


def _kept(place: Place) -> int:
    with place.tables() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return pages * size


async def test_a_step_of_a_long_session_costs_what_one_of_a_short_session_does(place: Place, tmp_path: Path) -> None:
    """Bytes written and bytes kept per step, at 200 and 2,000 steps of a state agent: within a factor of 1.2."""
    few = await _cost_of(place.kind, tmp_path / "few", FEW)
    many = await _cost_of(place.kind, tmp_path / "many", MANY)
    assert many.written / MANY <= 1.2 * few.written / FEW
    # An empty file has its tables; what counts is what the steps add.
    added = (many.kept - few.kept) / (MANY - FEW)
    assert added <= 1.2 * few.kept / FEW
    assert added < 2_048  # the aim of the design, beyond the payload
    # A snapshot for each 32 KB of journal, and no more.
    for cost in (few, many):
        assert 1 <= cost.snapshots <= cost.written / 32_768


async def test_a_snapshot_is_written_at_least_every_thousand_tool_calls(place: Place) -> None:
    """However little their results take."""

    async def nothing() -> None:
        return

    async def work(run: midcourse.Run) -> None:
        for _ in range(TOOL_CALLS_LIMIT + 50):
            await run.step("s", nothing)

    store = Faulty(await place.store())
    async with place.open(resumable(work), store=store) as mc:
        session = await mc.start(resumable(work))
        await session.result()
        assert store.snapshots_saved >= 1


async def test_values_above_32_kb_become_blobs_and_are_stored_once(place: Place) -> None:
    """However often a value comes back, its bytes lie in the store one time, and outside the journal."""
    large = "x" * 100_000

    async def fetch(number: int) -> str:
        del number
        return large

    async def work(run: midcourse.Run) -> int:
        run.state = {"page": ""}
        for number in range(20):
            run.state["page"] = await run.step("fetch", fetch, number)
            await run.checkpoint()
        return len(run.state["page"])

    agent = resumable(work, mode="state")
    async with place.open(agent) as mc:
        session = await mc.start(agent, session_id="s")
        assert await session.result() == 100_000
        assert types(await history(session)).count("checkpoint.taken") == 20
    with place.tables() as connection:
        blobs = [content for (content,) in connection.execute("SELECT content FROM blobs")]
        (journal,) = connection.execute("SELECT sum(length(record)) FROM journal").fetchone()
    # The page itself, and the state that holds it: two values, each kept once.
    assert sorted(len(blob) for blob in blobs) == [100_002, 100_000 + len('{"page":""}')]
    assert journal < 32_768
    async with place.open(agent, drive=False) as mc:
        assert await (await mc.get("s")).result() == 100_000


async def test_a_value_of_exactly_32_kb_stays_in_the_journal(place: Place) -> None:
    """Above is above."""

    async def fetch(size: int) -> str:
        return "y" * size

    async def work(run: midcourse.Run) -> None:
        for size in (32 * 1024 - 2, 32 * 1024 - 1):  # and two quotation marks
            await run.step("fetch", fetch, size)

    async with place.open(resumable(work)) as mc:
        session = await mc.start(resumable(work))
        await session.result()
        events = [recorded.event for recorded in await history(session)]
        values = [event.value for event in events if isinstance(event, ev.StepFinished)]
        assert [(bool(value.blob), value.size) for value in values] == [(False, 0), (True, 32 * 1024 + 1)]
