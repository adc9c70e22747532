"""``run.history``: what a ``state`` agent gathers is written once, and is there again wherever it goes on."""

from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.runtime.run_history import RunHistory
from tests.promises.harness import Place, history, resumable, until_status
from tests.unit.runtime.tasks import WAIT, Program

ITEM = {"role": "user", "content": "x" * 400}

GATHERS = """
import asyncio, sys, midcourse

@midcourse.agent(mode="state", name="gatherer")
async def gatherer(run):
    while len(run.history) < 20:
        run.history.append({"item": len(run.history)})
        await run.checkpoint()
        if len(run.history) == 5:
            print("gathered", flush=True)
            await asyncio.sleep(3600)

async def main():
    async with midcourse.open(sys.argv[1]) as mc:
        session = await mc.start(gatherer, session_id="sess_gatherer")
        await session.result()

asyncio.run(main())
"""


def gathering(count: int, item: object = ITEM) -> midcourse.Agent[Any]:
    """Gathers ``count`` items, asks, gathers one more, and says how many there are."""

    async def agent(run: midcourse.Run) -> int:
        while len(run.history) < count:
            run.history.append(item)
            await run.checkpoint(durable=False)
        await run.ask("Enough?")
        run.history.append("the end")
        return len(run.history)

    return resumable(agent, name="gatherer", mode="state")


async def _bytes(folder: Path, count: int) -> int:
    """What a store holds after ``count`` items."""
    folder.mkdir()
    place = Place("sqlite", folder)
    agent = gathering(count)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def test_an_item_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    """A list in ``run.state`` would cost ten times as much at ten times the length."""
    none, few, many = [await _bytes(tmp_path / str(count), count) for count in (0, 200, 2_000)]
    assert ((many - none) / 2_000) / ((few - none) / 200) <= 1.2


async def test_it_is_there_again_when_the_session_goes_on_cold(place: Place) -> None:
    agent = gathering(30)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.answer("yes")
        assert await again.result(20) == 31
        assert list((await again.inspect()).history) == [*[ITEM] * 30, "the end"]


async def test_every_item_is_written_once(place: Place) -> None:
    agent = gathering(30)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        journal = "".join(
            bytes(one.event.history.raw).decode()
            for one in await history(session)
            if isinstance(one.event, midcourse.events.CheckpointTaken)
        )
    assert journal.count("x" * 400) == 30


async def test_it_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    with Program(tmp_path / "gathers.py", GATHERS, place.url) as program:
        assert program.hear() == "gathered"
        program.kill()

    async def agent(run: midcourse.Run) -> list[Any]:
        run.history.append("after")
        return list(run.history)

    async with place.open(resumable(agent, name="gatherer", mode="state")) as mc:
        session = await mc.get("sess_gatherer")
        assert await session.result(WAIT) == [*({"item": number} for number in range(5)), "after"]


async def test_a_fork_has_what_its_origin_had_and_grows_by_itself(place: Place) -> None:
    agent = gathering(3)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        fork = await session.fork()
        await until_status(fork, "waiting")
        await fork.answer("yes")
        assert await fork.result(20) == 4
        assert list((await session.inspect()).history) == [ITEM] * 3
        assert list((await fork.inspect()).history) == [*[ITEM] * 3, "the end"]


async def test_an_inspection_shows_it_as_it_was_at_that_point(place: Place) -> None:
    agent = gathering(3)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        checkpoints = [one.position for one in await history(session) if one.type == "checkpoint.taken"]
        assert [len((await session.inspect(at=position)).history) for position in checkpoints] == [1, 2, 3]


async def test_large_items_are_kept_outside_the_journal(place: Place) -> None:
    large = "y" * 100_000
    agent = gathering(2, large)
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        taken = [one.event for one in await history(session) if one.type == "checkpoint.taken"]
        assert all(getattr(event, "history").blob for event in taken)  # noqa: B009
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        assert list((await again.inspect()).history) == [large, large]
        await again.answer("yes")
        assert await again.result(20) == 3


async def test_what_was_appended_and_not_saved_is_gathered_again(place: Place) -> None:
    """Since the last checkpoint: the agent starts from there."""
    seen: list[int] = []

    async def agent(run: midcourse.Run) -> int:
        seen.append(len(run.history))
        if not run.history:
            run.history.append("saved")
            await run.checkpoint()
        run.history.append("not saved")
        await run.ask("Go on?")
        return len(run.history)

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made)
        await until_status(session, "waiting")
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.answer("yes")
        assert await again.result(20) == 2
    assert seen == [0, 1]


async def test_the_next_turn_has_what_the_turn_before_had_gathered(place: Place) -> None:
    async def agent(run: midcourse.Run) -> list[str]:
        run.history.append(run.messages[-1].text)
        return list(run.history)

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made, "one")
        assert await session.result(20) == ["one"]
        await session.redirect("two")
        assert await session.result(20) == ["one", "two"]


async def test_what_cannot_be_journaled_is_refused_when_it_is_saved(place: Place) -> None:
    async def agent(run: midcourse.Run) -> None:
        run.history.append("fine")
        run.history.append(object())
        with pytest.raises(midcourse.Unencodable, match="run.history"):
            await run.checkpoint()

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        with pytest.raises(midcourse.SessionEnded, match=r"run.history cannot be journaled: \[1\] is of type object"):
            await (await mc.start(made)).result(20)


async def test_a_checkpoint_that_does_not_wait_is_durable_with_what_comes_later(place: Place) -> None:
    async def agent(run: midcourse.Run) -> int:
        if run.state.get("round", 0) == 0:
            run.state["round"] = 1
            await run.checkpoint(durable=False)
        await run.ask("Go on?")
        return int(run.state["round"])

    made = resumable(agent, mode="state")
    async with place.open(made) as mc:
        session = await mc.start(made)
        await until_status(session, "waiting")
    async with place.open(made) as mc:
        again = await mc.get(session.id)
        await again.answer("yes")
        assert await again.result(20) == 1


def test_it_reads_like_a_list() -> None:
    grown = RunHistory()
    grown.append("a")
    grown.append("b")
    grown.extend(["c", "d"])
    assert (len(grown), grown[0], grown[-1], grown[1:3], list(grown)) == (4, "a", "d", ["b", "c"], list("abcd"))
    assert "c" in grown
    with pytest.raises(IndexError):
        grown[9]
