"""One life of a scenario: ``python -m tests.crash.child <scenario> <folder> <at> <when>``.

It starts the session or, in a later life, finds it, plays the client's script, and ends when the session has; unless it
is killed at its ``at``-th call (0: it is not).
"""

import asyncio
import faulthandler
import os
import sys
from pathlib import Path
from typing import Final, cast

import midcourse
from midcourse.testing.killer import Killer, LineLedger
from midcourse.wiring import open_store
from tests.crash.effects import site
from tests.crash.scenarios import GOAL, SCENARIOS, SESSION, Client, ledger_of, world
from tests.crash.within import KillerWithin, Moment

LIMIT: Final = 45.0
"""Seconds after which a life counts as hanging, and shows where."""


def store_of(folder: Path) -> str:
    """The URL of the store in a folder."""
    return f"sqlite:///{folder.absolute() / 'store.db'}"


async def live(name: str, folder: Path, at: int, when: Moment) -> None:
    """Play the scenario to its end, or to the death of this process."""
    scenario = SCENARIOS[name]
    agent = scenario.made()
    world.enter(folder)
    site.enter(folder)
    ledger = LineLedger(ledger_of(folder))
    ledger.write(f"life {os.getpid()}")
    opened = await open_store(store_of(folder))
    killer = KillerWithin(opened, at=at, when=when, ledger=ledger_of(folder))
    onlooker = Killer(await open_store(store_of(folder)), ledger=ledger_of(folder))
    async with (
        midcourse.open(killer, settings=scenario.settings) as inside,
        midcourse.open(onlooker, drive=False) as outside,
    ):
        try:
            handle = await inside.get(SESSION)
        except midcourse.SessionNotFound:
            handle = await inside.start(agent, GOAL, session_id=SESSION)
        seen = await outside.get(SESSION)
        await scenario.play(Client(seen if scenario.outside else handle, seen, killer.inner, inside.kill_switch))
    ledger.write(f"calls {len(killer.calls)} {' '.join(killer.calls)}")


def main(arguments: list[str]) -> None:
    """Live once."""
    name, folder, at, when = arguments
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    asyncio.run(live(name, Path(folder), int(at), cast("Moment", when)))


if __name__ == "__main__":
    main(sys.argv[1:])
