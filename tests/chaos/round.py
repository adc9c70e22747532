"""One round: everything at once, then quiet, then a fresh worker and a person who answers and resumes everything.

Who looks at the store (:class:`Onlooker`) is a process beside all the others, and does nothing to it until the end.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import midcourse
from midcourse import Midcourse, MidcourseError
from midcourse.core.events import Recorded
from midcourse.core.ids import Position, SessionId
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.session import ENDED
from midcourse.ports.store import Store
from midcourse.runtime.call_recovery import DID_NOT, HAPPENED
from midcourse.runtime.session_loader import read_events
from midcourse.wiring import open_store
from tests.chaos import commands, remote
from tests.chaos.commands import Commands
from tests.chaos.crew import Crew, faults_in
from tests.chaos.ways import Ways
from tests.faults.checker import Answer, Evidence, Violation, stuck, violations

PATIENCE: Final = 20.0
"""Seconds without a new fact after which a session stands still, once nothing is done to any process."""
HEAL: Final = 90.0
"""Seconds in which everything has to end, once everything is answered and resumed."""
LATE: Final = 40.0
"""Seconds in which people have had the answer to their last command, however busy this machine is."""
LATENESS: Final = 8.0
"""Seconds that an answer may be late because this machine is busy; less than the store's lock is held at most."""
BUSY: Final = 0.5
"""The share of a processor that a worker may use while every session rests."""
LOOK: Final = 0.5


@dataclass(kw_only=True)
class Outcome:
    """What came of a round, in numbers and in words."""

    ways: Ways
    folder: Path
    sessions: int = 0
    children: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    events: int = 0
    deeds: Counter[str] = field(default_factory=Counter[str])
    commands: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    violations: list[Violation] = field(default_factory=list[Violation])
    stuck: list[Violation] = field(default_factory=list[Violation])
    journals: dict[str, list[Recorded]] = field(default_factory=dict[str, list[Recorded]])
    began: float = 0.0
    phases: dict[str, float] = field(default_factory=dict[str, float])
    """How many seconds each part of the round took."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations and not self.stuck


class Onlooker:
    """Reads every journal, from where it had got to."""

    def __init__(self, inside: Midcourse, store: Store) -> None:
        self.midcourse = inside
        self.journals: dict[str, list[Recorded]] = {}
        self._store = store

    async def look(self) -> Sequence[tuple[str, str]]:
        """Every session with its status, once all that was journaled is here."""
        found: list[tuple[str, str]] = []
        before: str | None = None
        while page := await self.midcourse.list(limit=500, before=before):
            before = page[-1].id
            for head in page:
                found.append((head.id, str(head.status)))
                await self._read(head.id, head.position)
        return found

    async def _read(self, name: str, position: int) -> None:
        known = self.journals.setdefault(name, [])
        while (known[-1].position if known else 0) < position:
            known += await read_events(self._store, SessionId(name), Position(known[-1].position if known else 0))

    def evidence(self, folder: Path, faults: Sequence[float]) -> Evidence:
        """What was seen so far."""
        return Evidence(
            journals=self.journals,
            answers=commands.read(folder)[0],
            deeds=remote.read(folder / "deeds"),
            faults=faults,
            lateness=LATENESS,
        )


async def play(ways: Ways, folder: Path) -> Outcome:
    """One round in an empty folder."""
    ways.write(folder)
    outcome = Outcome(ways=ways, folder=folder, began=time.time())
    crew = Crew(folder, ways)
    store = f"sqlite:///{folder / 'store.db'}"
    try:
        async with midcourse.open(store, drive=False, settings=ways.settings()) as inside:
            read = await open_store(store)
            try:
                await _play(crew, Onlooker(inside, read), outcome)
            finally:
                await read.close()
    finally:
        crew.end()
        crew.write()
    return outcome


async def _play(crew: Crew, onlooker: Onlooker, outcome: Outcome) -> None:
    ways, folder = crew.ways, crew.folder

    @contextlib.contextmanager
    def phase(name: str) -> Generator[None]:
        began = time.monotonic()
        yield
        outcome.phases[name] = time.monotonic() - began

    with phase("start"):
        await crew.start_remote()
        await asyncio.gather(*(crew.start_worker() for _ in range(ways.workers)))
    with phase("chaos"):
        for _ in range(ways.people):
            await crew.start_person(ways.seconds)
        await crew.torment(time.monotonic() + ways.seconds, Random(ways.seed))
        for late in await crew.people_end(LATE):
            outcome.violations.append(_of_process("an answer is late", late))
    with phase("rest"):
        outcome.stuck += await _rest(onlooker)
        outcome.violations += await _idle(crew, onlooker)
    with phase("drain"):
        await asyncio.gather(*(crew.drain(one) for one in crew.those("worker")))
    with phase("heal"):
        await crew.start_worker()
        outcome.stuck += await _heal(crew, onlooker)
        await asyncio.gather(*(crew.drain(one) for one in crew.those("worker")))
    outcome.violations += [_of_process("does not end", one) for one in crew.unwilling]
    status = dict(await onlooker.look())
    seen = onlooker.evidence(folder, [at for at, _ in crew.faults])
    outcome.violations += violations(seen)
    outcome.journals = onlooker.journals
    outcome.sessions = len(status)
    outcome.children = len(seen.parents)
    outcome.ended = Counter(status.values())
    outcome.events = sum(map(len, onlooker.journals.values()))
    outcome.deeds = Counter(f"{deed.effect} {deed.what}" for deed in seen.deeds)
    outcome.commands = commands.read(folder)[1]
    outcome.faults = crew.counts


async def look_again(folder: Path) -> Outcome:
    """What the checker says of a round that was played before: its folder holds all that was seen."""
    ways = Ways.read(folder)
    outcome = Outcome(ways=ways, folder=folder)
    store = f"sqlite:///{folder / 'store.db'}"
    async with midcourse.open(store, drive=False) as inside:
        read = await open_store(store)
        try:
            onlooker = Onlooker(inside, read)
            await onlooker.look()
        finally:
            await read.close()
    faults = faults_in(folder)
    outcome.began = min(faults)
    outcome.journals = onlooker.journals
    outcome.violations = violations(onlooker.evidence(folder, faults))
    return outcome


def _of_process(promise: str, what: str) -> Violation:
    return Violation(promise=promise, session="-", what=what, at=time.time())


async def _rest(onlooker: Onlooker) -> list[Violation]:
    """Nothing is done any more: every session ends, waits for a person or is paused. What does not is stuck."""
    quiet = time.time()
    while True:
        await onlooker.look()
        seen = Evidence(journals=onlooker.journals)
        if not stuck(seen, now=time.time(), patience=-1.0):  # there is none that would have anything to do
            return []
        if time.time() - quiet > PATIENCE:
            found = stuck(seen, now=time.time(), patience=PATIENCE)
            if found or time.time() - quiet > 4 * PATIENCE:
                return found
        await asyncio.sleep(LOOK)


async def _idle(crew: Crew, onlooker: Onlooker) -> list[Violation]:
    """Every session rests, or stands still: what then uses a processor spins."""
    workers = crew.those("worker")
    before, began = [one.seconds() for one in workers], time.monotonic()
    grown = sum(map(len, onlooker.journals.values()))
    await asyncio.sleep(2.0)
    await onlooker.look()
    if sum(map(len, onlooker.journals.values())) - grown > 20:
        return []  # they are at something, or spin with the journal growing, which is seen there
    passed = time.monotonic() - began
    shares = {one.name: (one.seconds() - was) / passed for one, was in zip(workers, before, strict=True)}
    return [
        _of_process("spins", f"{name} used {share:.0%} of a processor while its sessions did nothing")
        for name, share in shares.items()
        if share > BUSY
    ]


async def _heal(crew: Crew, onlooker: Onlooker) -> list[Violation]:
    """Lift, answer and resume everything, as a person would who cleans up. Then everything ends."""
    inside, sent = onlooker.midcourse, Commands(crew.folder)
    began = time.time()
    for report in await inside.kill_switch.reports():
        if report.switch.stands:
            await sent.lift(inside, str(report.switch.id), "operator")
    while True:
        status = await onlooker.look()
        living = [name for name, where in status if where not in ENDED]
        if not living:
            return []
        if time.time() - began > PATIENCE:
            seen = Evidence(journals=onlooker.journals)
            found = stuck(seen, now=time.time(), patience=PATIENCE, must_end=True)
            if len(found) >= len(living):  # none of them is at anything any more
                return found
            if time.time() - began > HEAL:
                return found or [_of_process("does not end", f"still at it after {HEAL:.0f} s: {', '.join(living)}")]
        done = {deed.key for deed in remote.read(crew.folder / "deeds") if deed.what == "done"}
        for name in living:
            with contextlib.suppress(MidcourseError):
                await _mend(inside, sent, name, done)
        await asyncio.sleep(LOOK)


async def _mend(inside: Midcourse, sent: Commands, name: str, done: set[str]) -> None:
    handle = await inside.get(name)
    session = await handle.state()
    by = "healer"

    async def send(verb: str, act: Any) -> None:
        await sent.send(Answer(session=name, verb=verb, sent_at=0.0, by=by), partial(act, by=by, wait=2.0))

    if session.status == "halted":
        await send("lift", handle.lift)
    elif session.status == "paused":
        await send("resume", handle.resume)
    for ask in session.asks:
        value = "yes"
        if ask.reason == DID_IT_HAPPEN:
            step = ask.step.rpartition("!")[0]
            key = next((call.key for call in session.calls.values() if call.step == step), "")
            value = HAPPENED if key in done else DID_NOT
        await send("answer", partial(handle.answer, value, ask=ask.id))
