"""``python -m tests.chaos.damage``: stores with a damaged file, each driven to its end; ``--help`` lists the rest.

Damage ends in a sentence: each session ends, or whoever asks for it is told that it is damaged. None stands still, none
does anything twice, and none continues a history that nobody wrote.
"""

import argparse
import asyncio
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import msgspec

import midcourse
from midcourse import Midcourse, MidcourseError, SessionHandle, Settings
from midcourse.core.events import Recorded
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.session import ENDED, Session
from midcourse.runtime.call_recovery import DID_NOT, HAPPENED
from tests.faults.checker import Deed, Evidence, violations
from tests.simulate import agents
from tests.simulate.agents import AGENTS, Course, Remote

FILE: Final = "store.db"
LOG: Final = f"{FILE}-wal"
SETTINGS: Final = Settings(park_after=0.5, poll=0.3, cleanup=2.0, undo_timeout=5.0)
STILL: Final = 20.0
"""Seconds without a new event after which a session that was answered and resumed stands still."""
LOOK: Final = 0.3
WAYS: Final = {
    "byte": 8,
    "byte while it runs": 3,
    "log byte": 2,
    "log cut": 1,
    "log removed": 1,
    "log removed while it runs": 1,
}
TEMPLATES: Final = 6
DEEDS: Final = "deeds"


@dataclass(kw_only=True)
class Outcome:
    """What came of one store."""

    seed: str
    way: str
    ended: Counter[str] = field(default_factory=Counter[str])
    named: dict[str, str] = field(default_factory=dict[str, str])
    broken: list[str] = field(default_factory=list[str])


async def make(folder: Path, seed: str) -> None:
    """Write a store with sessions in every state, as it lies on the disk when its process is cut off."""
    chance = Random(seed)
    agents.remote = Remote(time.time, str)
    source = folder / "source"
    source.mkdir(parents=True)
    async with midcourse.open(f"sqlite:///{source / FILE}", settings=SETTINGS, grace=0) as inside:
        for number, name in enumerate((*AGENTS, *AGENTS)):
            goal = Course(seed=chance.randrange(10**9), depth=1)
            await inside.start(name, msgspec.json.encode(goal).decode(), session_id=f"sess_{name[4:]}_{number}")
            await asyncio.sleep(0.2)
        for head in (await inside.list())[:2]:
            with suppress(MidcourseError):
                await (await inside.get(head.id)).pause(grace=0)
        _copy(source, folder)
    (folder / DEEDS).write_bytes(msgspec.json.encode([asdict(one) for one in agents.remote.deeds]))
    shutil.rmtree(source)


async def _history(handle: SessionHandle[Any]) -> list[Recorded]:
    """Return the journal as it is now."""
    position = (await handle.state()).position
    events: list[Recorded] = []
    async for record in handle.watch(follow=True):
        events.append(record)
        if record.position >= position:
            break
    return events


async def _written(template: Path) -> dict[str, list[Recorded]]:
    """Return what the journals of a store say before it is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        copied = _copy(template, Path(folder))
        async with midcourse.open(f"sqlite:///{copied}", drive=False) as inside:
            return {head.id: await _history(await inside.get(head.id)) for head in await inside.list(limit=500)}


def _copy(template: Path, folder: Path) -> Path:
    for name in (FILE, LOG):
        with suppress(FileNotFoundError):
            shutil.copy(template / name, folder / name)
    return folder / FILE


def _damage(file: Path, way: str, chance: Random) -> None:
    log = file.with_name(LOG)
    damaged = log if way.startswith("log") else file
    if not damaged.exists() or not damaged.stat().st_size:
        return
    size = damaged.stat().st_size
    if way.startswith("log removed"):
        damaged.unlink()
    elif way == "log cut":
        os.truncate(damaged, chance.randrange(size))
    else:
        with damaged.open("r+b") as opened:
            opened.seek(chance.randrange(size))
            [byte] = opened.read(1)
            opened.seek(-1, os.SEEK_CUR)
            opened.write(bytes([byte ^ 1 << chance.randrange(8)]))


async def play(template: Path, seed: str) -> Outcome:
    """Damage a copy of a store, and have its sessions continue until each has ended or is reported as damaged."""
    chance = Random(seed)
    outcome = Outcome(seed=seed, way=chance.choices(tuple(WAYS), tuple(WAYS.values()))[0])
    written = await _written(template)
    agents.remote = Remote(time.time, str)
    agents.remote.deeds += _deeds(template)
    agents.remote.there |= {one.key for one in agents.remote.deeds if one.what == "done"}
    agents.remote.there -= {one.key for one in agents.remote.deeds if one.what == "undone"}
    with tempfile.TemporaryDirectory() as folder:
        file = _copy(template, Path(folder))
        if outcome.way.startswith("byte"):
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else most of it lies in the log
        if not outcome.way.endswith("runs"):
            _damage(file, outcome.way, chance)
        try:
            async with midcourse.open(f"sqlite:///{file}", settings=SETTINGS, grace=0) as inside:
                trial = Trial(inside, outcome, written)
                if outcome.way.endswith("runs"):
                    await asyncio.sleep(chance.uniform(0.0, 1.0))
                    _damage(file, outcome.way, chance)
                await trial.drive()
                if outcome.way.startswith("byte"):  # what is lost with a log is not known to be lost
                    await trial.compare()
        except MidcourseError as error:
            outcome.named["the store"] = error.code
    return outcome


def _deeds(template: Path) -> list[Deed]:
    return [Deed(**fields) for fields in msgspec.json.decode((template / DEEDS).read_bytes())]


class Trial:
    """One damaged store, in which a person answers and resumes everything."""

    def __init__(self, inside: Midcourse, outcome: Outcome, written: dict[str, list[Recorded]]) -> None:
        self._inside = inside
        self._outcome = outcome
        self._written = written
        self._progress: dict[str, tuple[int, float]] = {}
        self._refusals: dict[str, str] = {}
        """The codes of the errors with which a person's last command to a session failed."""

    async def drive(self) -> None:
        """Until each session has ended, is named, or stands still."""
        names = set(self._written)
        while True:
            with suppress(MidcourseError):
                names |= {head.id for head in await self._inside.list(limit=500)}
            living = [name for name in sorted(names) if await self._lives(name)]
            now = time.monotonic()
            if not living:
                return
            if all(now - self._progress[name][1] > STILL for name in living):
                for name in reversed(living):  # children before the parent that waits for them
                    await self._judge(name)
                return
            await asyncio.sleep(LOOK)

    async def _lives(self, name: str) -> bool:
        """Whether a session can be read and has not ended; it is answered and resumed."""
        position = self._progress.get(name, (-1, 0.0))[0]
        try:
            handle = await self._inside.get(name)
            session = await handle.state()
        except MidcourseError as error:
            self._outcome.named[name] = error.code
            return False
        self._outcome.named.pop(name, None)
        if session.status in ENDED:
            return False
        if session.position != position:
            self._progress[name] = (session.position, time.monotonic())
        try:
            await self._mend(handle, session)
        except MidcourseError as error:
            self._refusals[name] = error.code
        else:
            self._refusals.pop(name, None)
        return True

    async def _mend(self, handle: SessionHandle[Any], session: Session) -> None:
        if session.status == "paused":
            await handle.resume(wait=2.0)
        for ask in session.asks:
            step = ask.step.rpartition("!")[0]
            key = next((call.key for call in session.calls.values() if call.step == step), "")
            happened = HAPPENED if key in agents.remote.there else DID_NOT
            await handle.answer(happened if ask.reason == DID_IT_HAPPEN else "yes", ask=ask.id, wait=2.0)

    async def _judge(self, name: str) -> None:
        """A session without progress is named at least to those who steer it or wait for its end."""
        below = [told for child, told in self._outcome.named.items() if child.startswith(f"{name}.")]
        if name in self._refusals or below:
            self._outcome.named[name] = self._refusals.get(name) or below[0]
            return
        handle = await self._inside.get(name)
        try:
            await handle.result(timeout=5.0)
        except TimeoutError:
            status = (await handle.state()).status
            self._outcome.broken.append(f"stands still: {name}, {status} for {STILL:.0f} s, and nothing says why")
        except MidcourseError as error:
            self._outcome.named[name] = error.code

    async def compare(self) -> None:
        """What can be read continues what was written, and keeps the promises."""
        journals: dict[str, list[Recorded]] = {}
        for name in self._progress.keys() | self._written.keys():
            with suppress(MidcourseError):
                handle = await self._inside.get(name)
                journals[name] = await _history(handle)
                self._outcome.ended[str(await handle.status())] += 1
        for name, journal in journals.items():
            before = self._written.get(name, [])
            if journal[: len(before)] != before:
                self._outcome.broken.append(f"another history: {name}")
        deeds = [deed for deed in agents.remote.deeds if deed.session in journals]
        found = violations(Evidence(journals=journals, deeds=deeds))
        self._outcome.broken += [str(one) for one in found if one.promise != "journal grows without a fact"]


def _be_quiet() -> None:
    for name in ("midcourse", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _make(folder: Path, seed: str) -> None:
    _be_quiet()
    asyncio.run(make(folder, seed))


def _play(template: Path, seed: str) -> Outcome:
    _be_quiet()
    return asyncio.run(play(template, seed))


def main(arguments: Sequence[str]) -> int:
    """Damage stores, and say in numbers what came of them. 1: a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.damage", allow_abbrev=False, description=__doc__)
    parser.add_argument("--stores", type=int, default=100, help="so many stores (default: 100)")
    parser.add_argument("--seed", default="", help="what the choices come from (default: a new one)")
    parser.add_argument("--jobs", type=int, default=4, help="so many at a time: most of them wait (default: 4)")
    parser.add_argument("--again", metavar="STORE", default="", help="play this one alone, as it was called")
    options = parser.parse_args(arguments)
    seed = options.again.partition("/")[0] or options.seed or f"{SystemRandom().randrange(16**8):08x}"
    began, ways, named, ended, broken = time.monotonic(), Counter[str](), Counter[str](), Counter[str](), 0
    print(f"damage: seed {seed}")
    with (
        tempfile.TemporaryDirectory(prefix="midcourse-damage-") as folder,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        templates = [Path(folder) / str(number) for number in range(TEMPLATES)]
        list(pool.map(_make, templates, [f"{seed}/{one.name}" for one in templates]))
        numbers = [int(options.again.partition("/")[2])] if options.again else range(options.stores)
        chosen = [templates[number % TEMPLATES] for number in numbers]
        for outcome in pool.map(_play, chosen, [f"{seed}/{number}" for number in numbers]):
            ways[outcome.way] += 1
            named.update(outcome.named.values())
            ended += outcome.ended
            broken += bool(outcome.broken)
            for one in outcome.broken:
                print(f"BROKEN {outcome.seed} ({outcome.way}): {one}", flush=True)
    took = time.monotonic() - began
    print(f"damage: {sum(ways.values())} stores in {took:.0f} s ({_listed(ways)}), {broken} broken")
    print(f"  sessions read to their end: {_listed(ended)}; reported: {_listed(named)}")
    return 1 if broken else 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
