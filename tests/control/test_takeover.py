"""A process that is gone: its sessions go on elsewhere, once."""

import asyncio
from pathlib import Path

import pytest

from tests.control.agents import lines
from tests.control.remote import Remote
from tests.promises.harness import Place, history, types, until_status, until_true


async def test_a_process_killed_while_running_is_taken_over_by_another_that_has_the_agent(
    place: Place, effects: Path
) -> None:
    """By itself, and no finished step runs twice."""
    async with Remote.open(place.url) as heir, place.open(drive=False) as here:
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="two_waits", goal=str(effects), session="s")
            await until_true(lambda: lines(effects) == ["one"])
            effects.with_name("effects.one").touch()
            await until_true(lambda: lines(effects) == ["one", "two"])
            await owner.kill()
        effects.with_name("effects.two").touch()
        assert (await heir.do("result", session="s"))["result"] == ["one", "two"]
        # The first had its result in the journal; the second had only begun, and was done again.
        assert lines(effects) == ["one", "two", "two"]
        story = types(await history(await here.get("s")))
        assert story.count("session.taken") == 1
        assert story.count("session.started") == 1


async def test_of_many_heirs_one_takes_the_session(place: Place, effects: Path) -> None:
    """However many processes see it at the same time."""
    async with Remote.several(4, place.url) as heirs, place.open(drive=False) as here:
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="two_waits", goal=str(effects), session="s")
            await until_true(lambda: lines(effects) == ["one"])
            await owner.kill()
        for name in ("one", "two"):
            effects.with_name(f"effects.{name}").touch()
        results = await asyncio.gather(*(heir.do("result", session="s") for heir in heirs))
        assert [result["result"] for result in results] == [["one", "two"]] * 4
        assert lines(effects) == ["one", "one", "two"]
        story = types(await history(await here.get("s")))
        assert story[: story.index("session.completed")].count("session.taken") == 1


@pytest.mark.parametrize(
    ("verb", "status", "repeated"),
    [("pause", "paused", 0), ("cancel", "cancelled", 0), ("redirect", "completed", 1)],
)
async def test_a_command_that_was_durable_when_its_owner_died_is_carried_out(
    place: Place, effects: Path, verb: str, status: str, repeated: int
) -> None:
    """By whoever comes next, before anything else; a cancel redoes nothing."""
    async with (
        Remote.open(place.url, drive=False, unreachable_after=0.2) as other,
        place.open(drive=False) as here,
    ):
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="two_waits", goal=str(effects), session="s")
            await until_true(lambda: lines(effects) == ["one"])
            owner.freeze()
            arguments = {"text": "hurry"} if verb == "redirect" else {}
            reply = await other.control("s", verb, **arguments)
            assert reply["level"] == "accepted", reply
            await owner.kill()
        for name in ("one", "two"):
            effects.with_name(f"effects.{name}").touch()
        async with Remote.open(place.url):
            session = await here.get("s")
            assert await until_status(session, status) == status
        assert lines(effects) == ["one"] * (1 + repeated) + ["two"] * repeated
        if verb == "cancel":
            assert [(line.name, line.outcome) for line in (await session.receipt()).lines] == [("wait", "unknown")]


async def test_several_programs_drive_different_sessions_of_one_file(place: Place, tmp_path: Path) -> None:
    """Each its own, all of them to the end, and none touches another's."""
    async with Remote.several(3, place.url) as programs, place.open(drive=False) as here:
        for number, program in enumerate(programs):
            for letter in "abc":
                path = tmp_path / f"{letter}{number}"
                await program.do("start", agent="ten_notes", goal=str(path), session=path.name)
        for number in range(3):
            for letter in "abc":
                session = await here.get(f"{letter}{number}")
                assert await session.result() == 10
                assert lines(tmp_path / session.id) == [f"note {one}" for one in range(10)]
                assert "session.taken" not in types(await history(session))
        assert len(await here.list()) == 9


async def test_a_program_without_the_agent_leaves_the_session_to_one_that_has_it(place: Place, effects: Path) -> None:
    """It may decide commands to it; it never runs what it does not have."""
    async with place.open() as without:
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="two_waits", goal=str(effects), session="s")
            await until_true(lambda: lines(effects) == ["one"])
            await owner.kill()
        session = await without.get("s")
        assert (await session.redirect("hurry")).level == "decided"
        assert await session.status() == "running"
        for name in ("one", "two"):
            effects.with_name(f"effects.{name}").touch()
        async with Remote.open(place.url) as heir:
            assert (await heir.do("result", session="s"))["result"] == ["one", "two"]


async def test_a_forked_child_is_told_to_open_the_store_again_and_does_not_disturb_its_parent(
    place: Place, effects: Path
) -> None:
    """A fork inherits connections and locks it must not use; the parent goes on as if nothing had happened."""
    async with Remote.open(place.url) as owner, Remote.open(place.url) as heir:
        await owner.do("start", agent="two_waits", goal=str(effects), session="s")
        await until_true(lambda: lines(effects) == ["one"])
        assert await owner.do("fork", session="s") == {"id": 2, "code": "store_forked"}
        # The child has ended, and the parent's liveness with it would let the heir take the session.
        for name in ("one", "two"):
            effects.with_name(f"effects.{name}").touch()
        assert (await owner.do("result", session="s"))["result"] == ["one", "two"]
        assert lines(effects) == ["one", "two"]
        story = (await heir.do("watch", session="s"))["events"]
        assert "session.taken" not in [kind for _, kind in story]


async def test_a_program_that_ends_lets_its_sessions_go_and_another_goes_on(place: Place, effects: Path) -> None:
    """An orderly end is a parking: nothing is lost, nothing is done again."""
    async with Remote.open(place.url) as heir:
        async with Remote.open(place.url) as owner:
            await owner.do("start", agent="asker", goal=str(effects), session="s")
            await owner.do("watch", session="s", until="session.waiting")
        assert (await heir.control("s", "answer", value="yes"))["level"] == "decided"
        assert (await heir.do("result", session="s"))["result"] == "yes"
        assert lines(effects) == ["asking", "answered yes"]
