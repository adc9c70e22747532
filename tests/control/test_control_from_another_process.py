"""All five controls, and watching, from a process that does not own the session."""

import asyncio
from pathlib import Path

import pytest

from midcourse.core.commands import Pause, encode_command
from midcourse.core.ids import CommandId, SessionId
from tests.control.agents import lines
from tests.control.remote import Remote, RemoteRefused
from tests.promises.harness import Place, history, stop_watching, types, until_status, until_true


def _allow(effects: Path, *names: str) -> None:
    """Let the waiting steps of ``two_waits`` end."""
    for name in names:
        effects.with_name(f"{effects.name}.{name}").touch()


async def test_another_process_pauses_and_resumes_a_session_of_a_running_program(place: Place, effects: Path) -> None:
    """`stopping`, with the call that runs there; then `stopped`; then on."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        session = await here.get("s")
        stopping = await session.pause()
        assert (stopping.level, stopping.status) == ("stopping", "pausing")
        assert [call.name for call in stopping.running] == ["wait"]
        _allow(effects, "one")
        assert (await session.pause(until="stopped")).level == "stopped"
        assert lines(effects) == ["one"]
        assert (await session.resume(stopping.pause)).level == "decided"
        _allow(effects, "two")
        assert await session.result() == ["one", "two"]
        assert lines(effects) == ["one", "two"]


async def test_another_process_aborts_what_runs_elsewhere(place: Place, effects: Path) -> None:
    """A grace of 0 reaches into the other process."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        session = await here.get("s")
        assert (await session.pause(grace=0, until="stopped")).level == "stopped"
        assert "step.aborted" in types(await history(session))


async def test_another_process_cancels(place: Place, effects: Path) -> None:
    """With the receipt of what ran there."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        session = await here.get("s")
        reply = await session.cancel("enough", grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert [(line.name, line.outcome) for line in reply.receipt] == [("wait", "unknown")]
        _allow(effects, "one", "two")
        assert lines(effects) == ["one"]


async def test_another_process_redirects_a_stream(place: Place) -> None:
    """The stream is cut there, and the instruction is what the agent sees next."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="talker", goal="", session="s")
        session = await here.get("s")
        watching = session.watch(deltas=True)
        async for seen in watching:
            if not hasattr(seen, "position"):  # a preview has come over from the other process
                break
        await stop_watching(watching)
        await session.redirect("Say less")
        result = await session.result()
        assert result.startswith("Say less (had said ")
        assert "step.cut" in types(await history(session))


async def test_another_process_answers(place: Place, effects: Path) -> None:
    """Once: the second answer is refused."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="asker", goal=str(effects), session="s")
        session = await here.get("s")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert ask.prompt == "Go on?"
        await session.answer("by all means", ask=ask.id)
        with pytest.raises(RemoteRefused) as refused:
            await owner.control("s", "answer", value="no", ask=ask.id)
        assert refused.value.code in ("already_answered", "session_ended")
        assert await session.result() == "by all means"
        assert lines(effects) == ["asking", "answered by all means"]


async def test_another_process_watches_from_any_position(place: Place, effects: Path) -> None:
    """What it sees is what the owner's own watchers see."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="ten_notes", goal=str(effects), session="s")
        session = await here.get("s")
        seen = [(event.position, event.type) async for event in session.watch()]
        theirs = (await owner.do("watch", session="s"))["events"]
        assert [list(event) for event in seen] == theirs
        assert [position for position, _ in seen] == list(range(1, len(seen) + 1))
        assert [(event.position, event.type) async for event in session.watch(after=7)] == seen[7:]


async def test_a_watcher_in_another_process_hears_of_events_without_polling(place: Place, effects: Path) -> None:
    """A wake-up arrives for what the owner writes: with polls an hour apart, it is still seen at once."""
    async with Remote.open(place.url) as owner, Remote.open(place.url, drive=False) as watcher:
        await owner.do("start", agent="asker", goal=str(effects), session="s")
        watching = asyncio.create_task(watcher.do("watch", session="s"))
        await owner.do("watch", session="s", until="session.waiting")
        await owner.control("s", "answer", value="yes")
        events = (await watching)["events"]
        assert events[-1][1] == "session.completed"


async def test_a_command_wakes_the_owner_at_once_and_does_not_wait_for_its_poll(place: Place, effects: Path) -> None:
    """The owner looks by itself only once an hour; the command is carried out all the same."""
    async with Remote.open(place.url, poll=3600.0, unreachable_after=7200.0) as owner:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        async with place.open(drive=False) as here:
            session = await here.get("s")
            assert (await session.pause()).level == "stopping"
            assert (await session.cancel(grace=0, until="stopped")).level == "stopped"


async def test_a_command_whose_wake_up_was_lost_is_found_by_the_owners_poll(place: Place, effects: Path) -> None:
    """No wake-up is needed for anything: a row that nobody announced is decided all the same."""
    async with Remote.open(place.url) as owner, place.open(drive=False) as here:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        store = await place.store()
        content = encode_command(Pause(id=CommandId("quiet"), grace=0))
        await store.put(SessionId("s"), CommandId("quiet"), content, 1.0)
        assert await until_status(await here.get("s"), "paused") == "paused"
        await store.close()


async def test_refusals_come_back_to_the_process_that_asked_with_code_and_hint(place: Place, effects: Path) -> None:
    """The sentence is the owner's, and says what is allowed now."""
    async with Remote.open(place.url) as owner, Remote.open(place.url, drive=False) as other:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        with pytest.raises(RemoteRefused, match="Allowed now: pause, redirect, cancel") as refused:
            await other.control("s", "resume")
        assert refused.value.code == "already_resumed"
        with pytest.raises(RemoteRefused) as refused:
            await other.control("nobody", "pause")
        assert refused.value.code == "session_not_found"
        with pytest.raises(RemoteRefused) as refused:
            await other.control("s", "answer", value="yes")
        assert refused.value.code == "ask_not_found"
        _allow(effects, "one", "two")
