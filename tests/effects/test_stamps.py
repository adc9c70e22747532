"""Stop means stop, in the world: a call that leaves a mark every 2 ms leaves none after `stopped` was answered."""

import asyncio
import time
from pathlib import Path
from typing import Literal

import pytest

import midcourse
from tests.effects.stampers import STAMPERS, WRITERS, once, stamps, until_told
from tests.promises.harness import Place, resumable, until_true

A_WHILE = 0.06
"""Seconds in which thirty stamps would be seen. A test that waits too short sees too little; it never fails by it."""


async def _begun(path: Path, writers: int) -> None:
    await until_true(lambda: len({stamp.pid for stamp in stamps(path)}) == writers and len(stamps(path)) > 10)


@pytest.mark.parametrize("stop", ["pause", "cancel"])
@pytest.mark.parametrize("kind", STAMPERS)
async def test_there_is_no_stamp_after_stopped_was_answered(
    kind: str, stop: Literal["pause", "cancel"], tmp_path: Path
) -> None:
    """Whatever it had started is dead, too."""
    path = tmp_path / "stamps"

    async def agent(run: midcourse.Run) -> None:
        await run.step("stamp", STAMPERS[kind], str(path))

    one = resumable(agent)
    async with Place("memory", tmp_path).open(one) as mc:
        session = await mc.start(one)
        await _begun(path, WRITERS.get(kind, 1))
        reply = await (session.pause if stop == "pause" else session.cancel)(grace=0, until="stopped")
        answered, at_answer = time.monotonic_ns(), stamps(path)
        assert (reply.level, reply.running) == ("stopped", ())
        await asyncio.sleep(A_WHILE)
        assert stamps(path) == at_answer
        assert max(at_answer).at < answered
        if stop == "pause":  # and it goes on only when somebody says so
            await session.resume()
            await until_true(lambda: len(stamps(path)) > len(at_answer))
            await session.cancel(grace=0, until="stopped")


@pytest.mark.parametrize("grace", [0, 0.05])
@pytest.mark.parametrize("kind", STAMPERS)
async def test_while_stopping_only_calls_that_the_answer_lists_leave_stamps(
    kind: str, grace: float, tmp_path: Path
) -> None:
    """One may be aborted, one may not, one has ended: the answer tells them apart."""
    may_be, may_not, ended = (tmp_path / name for name in ("may be", "may not", "ended"))
    paths = {"may be": may_be, "may not": may_not, "ended": ended}

    async def agent(run: midcourse.Run) -> None:
        await run.step("ended", once, str(ended))
        await asyncio.gather(
            run.step("may be", STAMPERS[kind], str(may_be)), run.step("may not", until_told, str(may_not))
        )

    one = resumable(agent)
    async with Place("memory", tmp_path).open(one) as mc:
        session = await mc.start(one)
        await asyncio.gather(_begun(may_be, WRITERS.get(kind, 1)), _begun(may_not, 1))
        reply = await session.pause(grace=grace)
        answered = time.monotonic_ns()
        listed = {call.name for call in reply.running}
        assert (reply.level, reply.status) == ("stopping", "pausing")
        # Once the grace is over only the one that cannot be undone is left, and still said to be there.
        while [call.name for call in (await session.pause(until="stopped", wait=0.02)).running] != ["may not"]:
            pass
        over, at_over = time.monotonic_ns(), stamps(may_be)
        await asyncio.sleep(A_WHILE)
        later = {name for name, path in paths.items() if max(stamps(path)).at > answered}
        assert "may not" in later <= listed <= {"may be", "may not"}
        assert stamps(may_be) == at_over
        assert max(at_over).at < over
        assert max(stamps(may_not)).at > over
        assert await session.status() == "pausing"
        may_not.with_name("may not.end").touch()
        assert (await session.pause(until="stopped")).level == "stopped"
        at_end = stamps(may_not)
        await asyncio.sleep(A_WHILE)
        assert stamps(may_not) == at_end
        assert len(stamps(ended)) == 1
        await session.cancel(grace=0, until="stopped")
