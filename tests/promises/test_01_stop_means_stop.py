"""Promise 1: stop means stop. A control is answered with what is known, and never more."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.ports.bus import Delta
from midcourse.runtime.settings import Settings
from tests.promises.faults import Faulty
from tests.promises.harness import NEVER, QUICK, Place, Tool, history, resumable, turns, types, until, until_status


@asynccontextmanager
async def _fetching(place: Place) -> AsyncGenerator[tuple[midcourse.SessionHandle[object], Tool]]:
    """A session in its only call, which does not end before the test lets it."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("fetch", tool.run, "page"))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        yield session, tool


async def test_a_pause_is_answered_stopping_while_a_call_runs_and_stopped_once_nothing_does(place: Place) -> None:
    """`stopping`: the gate is shut, and the answer lists what had begun. `stopped`: nothing runs."""
    async with _fetching(place) as (session, tool):
        stopping = await session.pause("let me look")
        assert (stopping.level, stopping.status) == ("stopping", "pausing")
        assert [(call.name, call.attempt) for call in stopping.running] == [("fetch", 1)]
        assert str(stopping) == "stopping, pausing, still running: fetch"

        tool.may_end.set()
        stopped = await session.pause(until="stopped")
        assert (stopped.level, stopped.status, stopped.running) == ("stopped", "paused", ())
        await session.resume()
        assert await session.result() == "page"
        assert tool.begun == [("page",)]


async def test_an_answer_never_says_stopped_before_it_is(place: Place) -> None:
    """Waiting for `stopped` in vain is answered with what is known by then: `stopping`."""
    async with _fetching(place) as (session, tool):
        reply = await session.pause(until="stopped", wait=0.05)
        assert (reply.level, reply.status) == ("stopping", "pausing")
        assert [call.name for call in reply.running] == ["fetch"]
        assert await session.status() == "pausing"
        tool.may_end.set()


async def test_no_call_begins_after_stopping_was_answered(place: Place) -> None:
    """From the answer on Midcourse starts no call of the session, however many want to begin."""
    begun: list[str] = []

    async def tool(name: str) -> None:
        begun.append(name)
        await turns(3)

    async def agent(run: midcourse.Run) -> None:
        async def path(name: str) -> None:
            for number in range(1_000_000):
                await run.step("tool", tool, f"{name}{number}", key=f"{name}{number}")

        await asyncio.gather(*(path(name) for name in "abcdefgh"))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        for waited in range(10):
            await until(session, "step.finished", times=20, after=(await session.state()).position)
            await turns(waited)
            reply = await session.pause()
            at_answer = len(begun)
            assert reply.level in ("stopping", "stopped")
            stopped = await session.pause(until="stopped")
            await turns(50)
            assert stopped.level == "stopped"
            assert len(begun) == at_answer
            await session.resume()
        await session.cancel(grace=0, until="stopped")


async def test_the_answer_lists_every_call_that_had_begun_and_has_not_ended(place: Place) -> None:
    """Not one too many, not one too few."""
    tools = [Tool(holds=True) for _ in range(6)]

    async def agent(run: midcourse.Run) -> None:
        await asyncio.gather(
            *(run.step("tool", tool.run, number, key=str(number)) for number, tool in enumerate(tools)),
        )

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        for tool in tools:
            await tool.entered.wait()
        for tool in tools[:3]:
            tool.may_end.set()
        await until(session, "step.finished", times=3)
        reply = await session.pause()
        assert [call.step for call in reply.running] == ["1/tool#=3", "1/tool#=4", "1/tool#=5"]
        for tool in tools:
            tool.may_end.set()


async def test_no_token_is_emitted_after_stopping_was_answered(place: Place) -> None:
    """Every token a watcher ever saw lies in a segment that is in the journal before the stop."""
    said = 0

    async def model() -> AsyncIterator[str]:
        nonlocal said
        while True:
            said += 1
            yield f"{said} "
            await asyncio.sleep(0)

    async def agent(run: midcourse.Run) -> str:
        return await run.stream("write", model)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        seen: list[Delta] = []

        async def watch() -> None:
            async for one in session.watch(deltas=True):
                if isinstance(one, Delta):
                    seen.append(one)

        watching = asyncio.create_task(watch())
        for stop in range(5):
            before = len(seen)
            while len(seen) < before + 10 + stop:
                await asyncio.sleep(0)
            reply = await session.pause()
            at_answer = said
            assert reply.level in ("stopping", "stopped")
            assert (await session.pause(until="stopped")).level == "stopped"
            await turns(20)
            # The source may have made one piece more, which nobody was shown.
            assert said <= at_answer + 1
            written = _text_by_attempt(await history(session))
            for delta in seen:
                text = written[delta.step, delta.attempt]
                assert text[delta.offset : delta.offset + len(delta.text)] == delta.text
            await session.resume()
        await session.cancel(until="stopped")
        await watching


def _text_by_attempt(events: list[midcourse.Recorded]) -> dict[tuple[str, int], str]:
    text: dict[tuple[str, int], str] = {}
    for recorded in events:
        match recorded.event:
            case ev.SegmentWritten(step=step, attempt=attempt, offset=offset, text=said):
                assert len(text.get((step, attempt), "")) == offset
                text[step, attempt] = text.get((step, attempt), "") + said
            case _:
                pass
    return text


async def test_a_silent_owner_makes_the_answer_accepted_and_never_stopped(place: Place) -> None:
    """The command is durable; since when its owner does not answer is said; nothing more is claimed."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    owners_store = Faulty(await place.store())
    async with place.open(one, store=owners_store) as owner:
        session = await owner.start(one, session_id="s")
        await tool.entered.wait()
        owners_store.holds = lambda write: write == "decide"
        impatient = Settings(poll=0.05, unreachable_after=0.3)
        async with place.open(drive=False, settings=impatient) as other:
            reply = await (await other.get("s")).pause(until="stopped", command_id="the-pause")
            assert reply.level == "accepted"
            assert reply.unreachable_since is not None
            assert str(reply).startswith("accepted, owner not reachable since ")
            assert await session.status() == "running"

            owners_store.let_through()
            again = await (await other.get("s")).pause(command_id="the-pause")
            assert again.level == "stopping"
        tool.may_end.set()
        assert await until_status(session, "paused") == "paused"
        assert types(await history(session)).count("session.pause_requested") == 1


async def test_a_stop_of_a_session_whose_owner_died_says_that_effects_in_flight_are_unknown(place: Place) -> None:
    """Nobody can say how a call ended whose process is gone, and nobody does."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("charge", tool.run))
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off, grace=0) as owner:
        await owner.start(one, session_id="s")
        await tool.entered.wait()
        cut_off.holds = lambda _: True  # from here on this owner is as good as dead
        dying.abandon()
        async with place.open(drive=False) as other:
            session = await other.get("s")
            reply = await session.pause(until="stopped")
            assert (reply.level, reply.status) == ("stopped", "paused")
            assert reply.unknown == ("1/charge#1",)
            assert str(reply) == "stopped, paused, effects in flight unknown: 1/charge#1"
            assert (await session.state()).lost == ("1/charge#1",)
        cut_off.let_through()
        tool.may_end.set()


async def test_grace_zero_aborts_what_is_in_flight_and_it_is_done_again_on_resume(place: Place) -> None:
    """An aborting stop keeps everything that was finished."""
    first, second = Tool(), Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("first", first.run, 1), await run.step("second", second.run, 2)]

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await second.entered.wait()
        assert (await session.pause(grace=0, until="stopped")).level == "stopped"
        assert types(await history(session))[-2:] == ["step.aborted", "session.paused"]
        assert second.ended == []
        second.may_end.set()
        await session.resume()
        assert await session.result() == [1, 2]
        assert (len(first.begun), len(second.begun)) == (1, 2)


async def test_a_call_that_cannot_be_undone_finishes_whatever_the_grace(place: Place) -> None:
    """Undeclared tools are such calls: torn, nobody could say whether they happened. The answer says that it waits."""
    tool = Tool(holds=True, effect="write")

    async def agent(run: midcourse.Run) -> object:
        return await run.step("pay", tool.run, "bill")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.pause(grace=0, until="stopped", wait=0.05)
        assert (reply.level, reply.status) == ("stopping", "pausing")
        assert [(call.name, call.effect) for call in reply.running] == [("pay", "irreversible")]
        tool.may_end.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        assert "step.aborted" not in types(await history(session))
        await session.resume()
        assert await session.result() == "bill"
        assert len(tool.begun) == 1


async def test_calls_in_flight_may_go_on_for_the_seconds_of_the_grace_and_no_longer(place: Place) -> None:
    """By the journal's own clock."""
    quick, slow = Tool(holds=True), Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        await asyncio.gather(run.step("quick", quick.run), run.step("slow", slow.run))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await quick.entered.wait()
        await slow.entered.wait()
        reply = await session.pause(grace=0.3)
        assert (reply.level, len(reply.running)) == ("stopping", 2)
        quick.may_end.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        events = await history(session)
        requested = next(one for one in events if isinstance(one.event, ev.PauseRequested))
        aborted = next(one for one in events if isinstance(one.event, ev.StepAborted))
        assert isinstance(aborted.event, ev.StepAborted)
        assert aborted.event.step == "1/slow#1"
        assert aborted.at - requested.at >= 0.29
        assert (len(quick.ended), len(slow.ended)) == (1, 0)


async def test_without_a_grace_a_call_in_flight_may_take_as_long_as_it_takes(place: Place) -> None:
    """Pausing is shown as pausing until it has ended by itself, and its result is kept."""
    async with _fetching(place) as (session, tool):
        assert (await session.pause(grace=float("inf"))).level == "stopping"
        for _ in range(5):
            assert (await session.pause(until="stopped", wait=0.01)).level == "stopping"
        tool.may_end.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.resume()
        assert await session.result() == "page"
        assert len(tool.begun) == 1


async def test_the_shorter_grace_of_two_pauses_wins(place: Place) -> None:
    """Who paused patiently may lose patience; a later, more patient pause changes nothing."""
    async with _fetching(place) as (session, tool):
        first = await session.pause()
        second = await session.pause(grace=NEVER)
        third = await session.pause(grace=0)
        await session.pause(grace=NEVER)
        assert first.pause == second.pause == third.pause == "pause_1"
        assert (await session.pause(until="stopped")).level == "stopped"
        assert tool.ended == []


@pytest.mark.parametrize("stop", ["pause", "cancel"])
async def test_a_stop_in_the_very_first_moments_stops(place: Place, stop: str) -> None:
    """Whatever the session is just doing: being created, being started, beginning its first step."""
    tools: list[Tool] = []

    async def agent(run: midcourse.Run) -> object:
        return await run.step("fetch", tools[-1].run, "page")

    async with place.open(resumable(agent)) as mc:
        for moment in range(25):
            tools.append(Tool())
            session = await mc.start(resumable(agent))
            await turns(moment)
            if stop == "cancel":
                reply = await session.cancel(until="stopped")
                begun = len(tools[-1].begun)
                assert reply.level == "stopped"
                await turns(20)
                assert len(tools[-1].begun) == begun
                continue
            try:
                reply = await session.pause(until="stopped")
            except midcourse.Refused as refused:
                assert refused.code == "session_ended"  # it was quicker
                continue
            begun = len(tools[-1].begun)
            assert (reply.level, reply.status) == ("stopped", "paused")
            await turns(20)
            assert len(tools[-1].begun) == begun
            await session.resume()
            assert await session.result() == "page"
            assert len(tools[-1].begun) == 1


async def test_a_queued_session_is_paused_without_ever_starting(place: Place) -> None:
    """Nobody drives it yet: it is paused, and nothing of it has run."""
    tool = Tool()
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    async with place.open(one, drive=False) as mc:
        session = await mc.start(one, session_id="s")
        assert await session.status() == "queued"
        reply = await session.pause()
        assert (reply.level, reply.status) == ("stopped", "paused")
    async with place.open(one) as mc:
        session = await mc.get("s")
        await turns(20)
        assert tool.begun == []
        await session.resume()
        assert await session.result() == "page"


async def test_a_start_that_was_being_journaled_when_the_stop_came_is_this_attempt_not_begun(place: Place) -> None:
    """The gate is passed last: after the start is durable, and only if it still stands open then."""
    before, tool = Tool(), Tool()

    async def agent(run: midcourse.Run) -> object:
        await run.step("before", before.run)
        return await run.step("fetch", tool.run, "page")

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await before.entered.wait()
        store.holds = lambda write: write == "append"
        while "append" not in store.held:
            await asyncio.sleep(0)
        pausing = asyncio.create_task(session.pause(until="stopped"))
        while "put" not in store.held:
            await asyncio.sleep(0)
        store.let_through()
        reply = await pausing
        assert (reply.level, reply.running) == ("stopped", ())
        assert tool.begun == []
        assert "step.not_begun" in types(await history(session))
        assert [line.name for line in (await session.receipt()).lines] == ["before"]

        await session.resume()
        assert await session.result() == "page"
        assert len(tool.begun) == 1


async def test_a_thread_is_still_running_until_it_ends(place: Place) -> None:
    """A plain function cannot be torn: it is listed as running, and the session is pausing, until it returns."""
    entered, may_end = threading.Event(), threading.Event()

    def body() -> str:
        entered.set()
        may_end.wait()
        return "done"

    async def agent(run: midcourse.Run) -> str:
        return await run.step("compute", body)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await asyncio.to_thread(entered.wait)
        reply = await session.pause(grace=0, until="stopped", wait=0.05)
        assert (reply.level, reply.status) == ("stopping", "pausing")
        assert [call.name for call in reply.running] == ["compute"]
        may_end.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.resume()
        assert await session.result() == "done"


async def test_pausing_stays_pausing_while_a_call_that_cannot_be_torn_runs(place: Place) -> None:
    """A body that swallows its abort goes on; what it returns in the end is its result, and is not done again."""
    entered, torn, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs = 0

    @midcourse.tool(effect="idempotent")
    async def body() -> str:
        nonlocal runs
        runs += 1
        entered.set()
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            torn.set()
        await may_end.wait()
        return "done"

    async def agent(run: midcourse.Run) -> str:
        return await run.step("stubborn", body)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await entered.wait()
        await session.pause(grace=0)
        await torn.wait()
        reply = await session.pause(until="stopped", wait=0.05)
        assert (reply.level, reply.status, len(reply.running)) == ("stopping", "pausing", 1)
        may_end.set()
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.resume()
        assert await session.result() == "done"
        assert runs == 1


async def test_a_cancel_ends_what_runs_and_its_receipt_tells_of_each_call(place: Place) -> None:
    """Cancelled is said when nothing runs any more, and nothing begins afterwards."""
    done, torn, late = Tool(), Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("done", done.run)
        await run.step("torn", torn.run)
        await run.step("late", late.run)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await torn.entered.wait()
        reply = await session.cancel("enough", grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert [(line.name, line.outcome) for line in reply.receipt] == [("torn", "unknown")]
        receipt = await session.receipt()
        outcomes = [(line.name, line.outcome) for line in receipt.lines]
        assert outcomes == [("done", "cannot be undone"), ("torn", "unknown")]
        assert receipt.final
        await turns(20)
        assert late.begun == []
        with pytest.raises(midcourse.SessionEnded):
            await session.result()


async def test_a_second_cancel_only_makes_the_first_firmer(place: Place) -> None:
    """A cancel that waits for a call can be hurried; it cannot be softened."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        await run.step("slow", tool.run)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=NEVER)
        assert (reply.level, reply.status, len(reply.running)) == ("stopping", "cancelling", 1)
        assert (await session.cancel(grace=2 * NEVER, until="stopped", wait=0.05)).level == "stopping"
        assert (await session.cancel(grace=0, until="stopped")).level == "stopped"
        assert tool.ended == []


async def test_a_stop_reaches_an_agent_that_blocks_its_own_loop(place: Place) -> None:
    """Control runs on a thread of its own: the gate is shut although the agent's loop stands still."""
    entered, may_end = threading.Event(), threading.Event()
    tool = Tool()
    ready = asyncio.Event()

    async def agent(run: midcourse.Run) -> None:
        ready.set()
        await run.step("first", tool.run)
        entered.set()
        may_end.wait()  # blocks the loop: no await, no run.* call
        await run.step("second", tool.run)

    one = resumable(agent)

    def other_program() -> midcourse.Reply:
        async def pause() -> midcourse.Reply:
            async with place.open(drive=False) as other:
                entered.wait()
                try:
                    return await (await other.get("s")).pause()
                finally:
                    may_end.set()

        return asyncio.run(pause())

    async with place.open(one, settings=QUICK) as mc:
        session = await mc.start(one, session_id="s")
        asked = asyncio.create_task(asyncio.to_thread(other_program))
        reply = await asked
        assert (reply.level, reply.status) == ("stopping", "pausing")
        assert [call.kind for call in reply.running] == ["agent"]
        assert (await session.pause(until="stopped")).level == "stopped"
        assert len(tool.begun) == 1
        await session.resume()
        await session.result()
