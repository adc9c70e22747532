"""A thousand pauses and resumes from other processes, against a driver that appends at full speed."""

import asyncio
from pathlib import Path

from tests.control.agents import lines
from tests.control.remote import Remote
from tests.promises.harness import Place, history, types, until_true

PAIRS = 500
"""Five hundred pauses and as many resumes, half of them from each of two processes."""


async def test_a_thousand_pauses_and_resumes_from_other_processes_stop_no_driver_and_lose_no_command(
    place: Place, effects: Path
) -> None:
    """Every command is decided, in its place; the driver never meets a conflict; nothing runs while it is paused."""
    async with (
        Remote.open(place.url, unreachable_after=50.0) as owner,
        Remote.open(place.url, drive=False, unreachable_after=50.0) as first,
        Remote.open(place.url, drive=False, unreachable_after=50.0) as second,
    ):
        await owner.do("start", agent="full_speed", goal=str(effects), session="s")
        await owner.do("start", agent="full_speed", goal=str(effects) + "2", session="s2")
        # A session that is paused before it began is parked at once, and taken again: no conflict, but no speed.
        await until_true(lambda: len(lines(effects)) > 20 and len(lines(effects.with_name("effects2"))) > 20)
        answers = await asyncio.gather(
            first.do("pause_often", session="s", times=PAIRS // 2, prefix="first"),
            second.do("pause_often", session="s2", times=PAIRS // 2, prefix="second"),
        )
        assert [answer["wrong"] for answer in answers] == [[], []]
        async with place.open(drive=False) as here:
            for name in ("s", "s2"):
                session = await here.get(name)
                assert (await session.cancel(until="stopped")).level == "stopped"
                story = types(await history(session))
                assert story.count("session.pause_requested") == PAIRS // 2
                assert story.count("session.resumed") == PAIRS // 2
                # One owner from beginning to end: nobody took it, and it never had to be taken again.
                assert "session.taken" not in story
                assert "session.failed" not in story
                _assert_nothing_began_while_paused(story)
    assert len(lines(effects)) > 0


def _assert_nothing_began_while_paused(story: list[str]) -> None:
    paused = False
    for event in story:
        if event == "session.pause_requested":
            paused = True
        elif event == "session.resumed":
            paused = False
        elif event == "step.begun":
            assert not paused


async def test_two_processes_that_pause_and_resume_the_same_session_never_hang_it(place: Place, effects: Path) -> None:
    """Each resume names its own pause; whoever comes second is told so; in the end the session runs on."""
    async with (
        Remote.open(place.url, unreachable_after=50.0) as owner,
        Remote.open(place.url, drive=False, unreachable_after=50.0) as first,
        Remote.open(place.url, drive=False, unreachable_after=50.0) as second,
    ):
        await owner.do("start", agent="full_speed", goal=str(effects), session="s")

        async def pester(remote: Remote, name: str) -> int:
            refused = 0
            for number in range(40):
                paused = await remote.control("s", "pause", command_id=f"{name}{number}")
                try:
                    await remote.control("s", "resume", pause=paused["pause"])
                except Exception as error:  # noqa: BLE001 - the other one was quicker
                    assert getattr(error, "code", "") == "already_resumed"
                    refused += 1
            return refused

        await asyncio.gather(pester(first, "first"), pester(second, "second"))
        async with place.open(drive=False) as here:
            session = await here.get("s")
            assert await session.status() == "running"
            assert (await session.cancel(until="stopped")).level == "stopped"
            story = types(await history(session))
            assert story.count("session.resumed") == story.count("session.pause_requested")
