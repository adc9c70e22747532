"""Promise 3: resumed once. Of a hundred simultaneous resumes one wins, from whichever process they come."""

import asyncio
from collections import Counter
from typing import Any

import pytest

import midcourse
from midcourse.handle import SessionHandle
from tests.control.remote import Remote
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, types, until_status, until_true

RESUMES = 100


async def _outcome(session: SessionHandle[Any], pause: str | None) -> str:
    try:
        return (await session.resume(pause)).level
    except midcourse.Refused as refused:
        return refused.code


@pytest.mark.parametrize("named", [True, False])
async def test_of_a_hundred_simultaneous_resumes_from_one_process_one_wins(place: Place, *, named: bool) -> None:
    """The others are told `already_resumed`, and the step that waited runs once."""
    tool = Tool()
    gate = asyncio.Event()

    async def agent(run: midcourse.Run) -> object:
        await gate.wait()
        return await run.step("fetch", tool.run, "page")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        paused = await session.pause()
        gate.set()
        assert await until_status(session, "paused") == "paused"
        pause = paused.pause if named else None
        outcomes = await asyncio.gather(*(_outcome(session, pause) for _ in range(RESUMES)))
        assert outcomes.count("decided") == 1
        # A resume that names no pause may also come when the session has ended already.
        assert set(outcomes) <= {"decided", "already_resumed", "session_ended"}
        assert await session.result() == "page"
        assert len(tool.begun) == 1
        assert types(await history(session)).count("session.resumed") == 1


async def test_of_a_hundred_resumes_of_a_parked_session_by_several_programs_one_wins(place: Place) -> None:
    """Nobody owns it: whoever takes it decides, and all others find it decided."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    async with place.open(one, drive=False) as mc:
        session = await mc.start(one, session_id="s")
        await session.pause()
    async with (
        place.open(one) as first,
        place.open(one) as second,
        place.open(drive=False) as third,
        place.open(drive=False) as fourth,
    ):
        handles = [await mc.get("s") for mc in (first, second, third, fourth)]
        outcomes = await asyncio.gather(
            *(_outcome(handles[number % 4], "pause_1") for number in range(RESUMES)),
        )
        assert Counter(outcomes) == {"decided": 1, "already_resumed": RESUMES - 1}
        tool.may_end.set()
        assert await handles[0].result() == "page"
        assert len(tool.begun) == 1


async def test_of_a_hundred_simultaneous_resumes_from_several_processes_one_wins(place: Place) -> None:
    """Four real processes on one file, or four programs on one memory."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        outcomes: list[str] = []
        if place.kind == "sqlite":
            async with Remote.several(4, place.url, drive=False) as remotes:
                asked = [remote.do("resume_often", session="s", pause="pause_1", times=25) for remote in remotes]
                for outcome in await asyncio.gather(*asked):
                    outcomes.extend(outcome["codes"])
        else:
            async with place.open(drive=False) as second, place.open(drive=False) as third:
                handles = [session, await second.get("s"), await third.get("s"), session]
                outcomes.extend(
                    await asyncio.gather(*(_outcome(handles[number % 4], "pause_1") for number in range(RESUMES))),
                )
        assert Counter(outcomes) == {"decided": 1, "already_resumed": RESUMES - 1}
        tool.may_end.set()
        assert await session.result() == "page"
        assert len(tool.begun) == 2  # once before the pause aborted it, and once after the one resume


async def test_an_unknown_pause_is_checkpoint_not_found(place: Place) -> None:
    """Whether the session is paused, running or failed."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        for unknown in ("pause_7", "nonsense", "pause_0", "pause_01"):
            assert await _outcome(session, unknown) == "checkpoint_not_found"
        await session.pause(grace=0, until="stopped")
        assert await _outcome(session, "pause_2") == "checkpoint_not_found"
        with pytest.raises(midcourse.Refused, match="never a pause 'pause_2'; it is paused by 'pause_1'") as refused:
            await session.resume("pause_2")
        assert "resume" in refused.value.allowed
        assert await session.status() == "paused"


async def test_a_late_resume_does_not_lift_a_later_pause(place: Place) -> None:
    """A resume names the pause it lifts."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        first = await session.pause()
        await session.resume(first.pause)
        second = await session.pause()
        assert (first.pause, second.pause) == ("pause_1", "pause_2")
        assert await _outcome(session, "pause_1") == "already_resumed"
        assert await session.status() == "pausing"
        assert await _outcome(session, "pause_2") == "decided"
        tool.may_end.set()


async def test_a_resume_that_was_journaled_is_not_done_again_after_the_process_is_gone(place: Place) -> None:
    """What was decided stays decided: the retry of the winner's command wins again, all others are too late."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one, drive=False) as mc:
        session = await mc.start(one, session_id="s")
        await session.pause()
        await session.resume(command_id="winner")
    async with place.open(one) as mc:
        session = await mc.get("s")
        await tool.entered.wait()
        assert (await session.resume(command_id="winner")).level == "decided"
        assert await _outcome(session, "pause_1") == "already_resumed"
        tool.may_end.set()
        await session.result()
        assert types(await history(session)).count("session.resumed") == 1


@pytest.mark.parametrize("write", ["create", "take"])
async def test_a_caller_who_goes_away_leaves_no_session_that_nobody_drives(place: Place, write: str) -> None:
    """What this process took for a caller is driven, whether the caller still waits or was cancelled meanwhile."""
    tool = Tool()
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one, drive=False) as mc:
        session = await mc.start(one, session_id="s")
        await session.pause(until="stopped")
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        store.holds = lambda name: name == write
        session = await mc.get("s")
        calling = asyncio.ensure_future(session.resume() if write == "take" else mc.start(one))
        await until_true(lambda: write in store.held)
        calling.cancel()
        await asyncio.wait([calling])
        store.let_through()
        await until_true(lambda: bool(tool.ended))


async def test_whoever_resumes_is_told_who_else_had_paused_it(place: Place) -> None:
    """People's pauses are one: the second is told whom it joins, and a resume names everybody whose pause it lifts."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        first = await session.pause("mine", grace=0, until="stopped", by="ann")
        second = await session.pause("mine", grace=0, until="stopped", by="bob")
        again = await session.pause(grace=0, until="stopped", by="bob")
        assert (first.paused_by, second.paused_by, again.paused_by) == ((), ("ann",), ("ann",))
        assert str(second) == "stopped, paused, had been paused by ann"
        pause = (await session.state()).pause
        assert pause is not None
        assert (pause.by, pause.joined) == ("ann", ("bob",))
        assert types(await history(session)).count("session.pause_requested") == 2
        resumed = await session.resume(first.pause, by="ann")
        assert resumed.paused_by == ("bob",)
        assert str(resumed).endswith("had been paused by bob")
        tool.may_end.set()
        await session.result()


async def test_whoever_resumes_at_the_same_time_as_another_is_told_the_same_by_a_retry(place: Place) -> None:
    """The names are in the command's answer, which lies in the inbox."""
    one = resumable(lambda run: run.step("fetch", Tool().run))
    async with place.open(one, drive=False) as mc:
        session = await mc.start(one)
        for name in ("ann", "bob", "cyd"):
            await session.pause(by=name)
        replies = [await session.resume(by="dan", command_id="r") for _ in range(2)]
        assert [reply.paused_by for reply in replies] == [("ann", "bob", "cyd")] * 2
