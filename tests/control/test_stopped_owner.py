"""An owner that was stopped with SIGSTOP lives, and does nothing: its session is not taken, and nothing is claimed."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.control.agents import lines
from tests.control.remote import Remote
from tests.promises.harness import Place, history, types, until, until_status, until_true

IMPATIENT = 0.4
"""Seconds after which a silent owner is called unreachable."""


async def freeze_between_two_commits(owner: Remote, place: Place) -> None:
    """Stopped in the middle of a commit it would hold the file, and nobody could write a command until it goes on."""
    while True:
        owner.freeze()
        with closing(sqlite3.connect(place.path, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                owner.thaw()
                await asyncio.sleep(0.01)
            else:
                connection.execute("ROLLBACK")
                return


@pytest.mark.parametrize(("verb", "time"), [*(("pause", time) for time in range(5)), ("cancel", 0), ("cancel", 1)])
async def test_a_stop_to_a_stopped_owner_is_accepted_never_stopped_and_carried_out_first(
    place: Place, effects: Path, verb: str, time: int
) -> None:
    """`accepted, owner not reachable since …`; after SIGCONT the command comes before any further call."""
    del time  # again and again: whether the process was just beginning a call is chance
    async with (
        Remote.open(place.url, unreachable_after=IMPATIENT) as owner,
        Remote.open(place.url, drive=False, unreachable_after=IMPATIENT) as other,
        place.open(drive=False) as here,
    ):
        await owner.do("start", agent="full_speed", goal=str(effects), session="s")
        await until_true(lambda: len(lines(effects)) > 50)
        await freeze_between_two_commits(owner, place)
        try:
            reply = await other.control("s", verb, until="stopped")
            assert reply["level"] == "accepted"
            assert reply["text"].startswith("accepted, owner not reachable since ")
            again = await other.control("s", verb, until="stopped")
            assert again["level"] == "accepted"
            before = lines(effects)
        finally:
            owner.thaw()
        session = await here.get("s")
        wanted = {"pause": "paused", "cancel": "cancelled"}[verb]
        assert await until_status(session, wanted) == wanted
        # One call may have stood behind the gate when the process was stopped; none began after it went on.
        assert len(lines(effects)) <= len(before) + 1
        story = types(await history(session))
        asked = story.index({"pause": "session.pause_requested", "cancel": "session.cancel_requested"}[verb])
        assert "step.begun" not in story[asked:]
        assert "session.taken" not in story


async def test_every_control_to_a_stopped_owner_is_accepted_and_carried_out_in_order(
    place: Place, effects: Path
) -> None:
    """Redirect, pause, resume: all durable, none lost, and decided in the order they came."""
    async with (
        Remote.open(place.url, unreachable_after=IMPATIENT) as owner,
        Remote.open(place.url, drive=False, unreachable_after=IMPATIENT) as other,
        place.open(drive=False) as here,
    ):
        await owner.do("start", agent="asker", goal=str(effects), session="s")
        session = await here.get("s")
        await until_status(session, "waiting")
        owner.freeze()
        try:
            for verb, arguments in (
                ("redirect", {"text": "left"}),
                ("pause", {}),
                ("redirect", {"text": "right"}),
                ("resume", {}),
            ):
                assert (await other.control("s", verb, **arguments))["level"] == "accepted"
        finally:
            owner.thaw()
        await until(session, "session.resumed")
        story = types(await history(session))
        decided = [
            event for event in story if event in ("session.redirected", "session.pause_requested", "session.resumed")
        ]
        assert decided == [
            "session.redirected",
            "session.pause_requested",
            "session.redirected",
            "session.resumed",
        ]


async def test_a_stopped_owners_session_is_not_taken_by_others(place: Place, effects: Path) -> None:
    """A process that lives and stands still may go on at any moment; two owners would do things twice."""
    async with (
        Remote.open(place.url, unreachable_after=IMPATIENT) as owner,
        Remote.open(place.url, unreachable_after=IMPATIENT) as heir,
    ):
        await owner.do("start", agent="ten_notes", goal=str(effects), session="done")
        await owner.do("watch", session="done")
        await owner.do("start", agent="two_waits", goal=str(effects) + "w", session="s")
        await until_true(lambda: lines(effects.with_name("effectsw")) == ["one"])
        owner.freeze()
        try:
            assert (await heir.control("s", "redirect", text="hurry"))["level"] == "accepted"
            assert (await heir.do("status", session="s"))["status"] == "running"
        finally:
            owner.thaw()
        for name in ("one", "two"):
            effects.with_name(f"effectsw.{name}").touch()
        assert (await owner.do("result", session="s"))["result"] == ["one", "two"]
        assert lines(effects.with_name("effectsw")) == ["one", "two"]
