"""The kill switch at a terminal: counted and asked first, its report, lifted and released; on a file and a server."""

import asyncio
from pathlib import Path

import midcourse as package
from tests.cli.conftest import Command


@package.agent(name="switch-worker", terms=package.Terms(labels=("night",)))
async def worker(run: package.Run) -> object:
    """Waits for a person."""
    return await run.ask("Go on?")


async def _tell(store: Path) -> None:
    async with package.open(f"sqlite:///{store}", durability="process") as mc:
        for number in range(2):
            session = await mc.start(worker, f"run {number}", session_id=f"sess_{number}")
            await session.next_ask()


def test_it_counts_asks_halts_reports_lifts_and_releases(midcourse: Command, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    asyncio.run(_tell(store))
    where = ("--store", f"sqlite:///{store}")
    not_sure = midcourse("kill-switch", "throw", "--label", "night", "--reason", "freeze", *where, typed="n\n")
    assert "Halt 2 sessions now: sessions of label 'night'." in not_sure.err
    nobody = midcourse("kill-switch", "throw", "--label", "night", "--reason", "freeze", *where, typed="")
    assert "Nothing was halted: the question was not answered. Add --yes" in nobody.err
    assert not_sure.code != 0
    assert "No kill switch is on" in midcourse("kill-switch", "list", *where).out
    thrown = midcourse("kill-switch", "throw", "--label", "night", "--reason", "freeze", "--yes", *where)
    assert "is on: 2 stopped." in thrown.out
    [listed] = midcourse("kill-switch", "list", "--json", *where).json()["switches"]
    switch = listed["id"]
    assert (listed["stands"], listed["reason"], len(listed["report"])) == (True, "freeze", 2)
    early = midcourse("kill-switch", "release", switch, *where)
    assert early.code == 1
    assert "lift it first" in early.err
    lifted = midcourse("kill-switch", "lift", switch, "--why", "over", *where)
    told = " ".join(lifted.out.split())
    assert "2 sessions stay halted." in told
    assert "Release them with: midcourse kill-switch release " in told
    assert "2 of 2 went back" in midcourse("kill-switch", "release", switch, *where).out
    assert "waiting" in midcourse("ps", *where).out


def test_what_is_over_must_be_said_once(midcourse: Command, tmp_path: Path) -> None:
    for scope in ((), ("--all", "--agent", "x"), ("--label", "not a label")):
        said = midcourse("kill-switch", "throw", *scope, "--reason", "x", "--store", f"sqlite:///{tmp_path / 'no.db'}")
        assert said.code == 2
