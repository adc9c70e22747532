"""One run: what a plan says is done; then quiet; then a person answers and resumes everything."""

import asyncio
import gc
import logging
import sys
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec

from midcourse import Damaged, Midcourse, MidcourseError, Refused, Reply, Scope, SessionHandle, Terms
from midcourse.core.budget import needed
from midcourse.core.events import Recorded, decode_record
from midcourse.core.ids import Position, SessionId
from midcourse.core.pauses import finishes_first
from midcourse.core.session import ENDED, Session
from midcourse.handle import LocalTransport
from midcourse.projections.checkpoints import Unconfigured
from midcourse.runtime.control import Control
from midcourse.runtime.journal import Journal
from midcourse.runtime.settings import Settings
from midcourse.runtime.worker import Worker
from tests.faults.checker import NO_FACT, Answer, Evidence, Violation, answered, stuck, violations
from tests.simulate import agents
from tests.simulate.agents import AGENTS, Course, Remote
from tests.simulate.machine import START, Loop, Machine, Process
from tests.simulate.plan import Deed, Plan
from tests.simulate.ports import SPOILS, Bus, Clock, Disk, Store, Wires

PATIENCE: Final = 12.0
"""Seconds without a new fact after which a session stands still, once nothing is done any more."""
HEAL: Final = 90.0
"""Seconds in which everything has to end, once everything is answered and resumed."""
SLOWEST: Final = 0.5
"""Seconds that a read or a write of a slow disk takes at most."""
LATE: Final = 0.6
"""Seconds that an answer may come late: the half second that it is promised in, and what the loops take."""
DAY: Final = 86_400.0
TERMS: Final = (None, None, Terms(budget=0.9), Terms(task_class="protected"))
SPINS: Final = 50
"""Events of a journal without a fact; more, and the run ends there."""
LOOK: Final = 1.0
SETTINGS: Final = Settings(park_after=1.0, poll=0.3, cleanup=2.0, undo_timeout=5.0)
PEOPLE: Final = ("ann", "bob", "cem")
DONE, NOT_DONE = "it happened", "it did not happen"


@dataclass(kw_only=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list[Violation])
    trace: Sequence[str] = ()
    digest: str = ""
    seconds: float = 0.0
    turns: int = 0
    journals: dict[str, list[Recorded]] = field(default_factory=dict[str, list[Recorded]])
    counts: Counter[str] = field(default_factory=Counter[str])

    @property
    def kinds(self) -> frozenset[str]:
        """Which promises were broken."""
        return frozenset(one.promise for one in self.violations)


class Node(Process):
    """A process with an open store: a worker, or (``drives=False``) a controller."""

    def __init__(self, world: "World", name: str, *, drives: bool) -> None:
        super().__init__(world.machine, name)
        self.midcourse: Midcourse | None = None
        self.worker: Worker | None = None
        self.drives = drives
        self.is_leaving = False
        self._world = world
        self.start(self._open())

    async def _open(self) -> None:
        world = self._world
        store = Store(world.disk, self)
        worker = Worker(
            store, Bus(self, world.wires), Clock(self), SETTINGS, AGENTS, drives=self.drives, checkpoints=Unconfigured()
        )
        control = Control(worker)
        try:
            await worker.open(control)
        except MidcourseError:  # the disk is full: somebody starts it again
            self.kill()
            return
        self.midcourse, self.worker = Midcourse(LocalTransport(control)), worker

    async def leave(self, grace: float, *, twice: bool, stays: float) -> None:
        """What SIGTERM does. It waits for calls that cannot be aborted, unless it comes ``twice``.

        The program ``stays`` for some seconds after it has closed the store.
        """
        if self.worker is not None:
            with suppress(MidcourseError):
                await self.worker.close(grace)
                if not twice:
                    await self.worker.closed()
                    await asyncio.sleep(stays)
        self.kill()


class World:
    """A machine, its disk, its processes, and the people who use it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.machine = Machine(plan.seed)
        self.disk = Disk(self.machine)
        if plan.forgets:
            self.disk.durability = "process"
            if any(deed.what == "power" for deed in plan.deeds):
                self.disk.sync()
        self.wires = Wires(self.machine)
        self.answers: list[Answer] = []
        self.faults: list[float] = []
        self.senders: dict[int, Node] = {}
        """The process in which a command was sent, for those without an answer."""
        self.damaged: set[str] = set()
        self.named: dict[str, float] = {}
        self.lost: list[tuple[float, float]] = []
        self._nodes = 0
        self._known: dict[str, list[Recorded]] = {}
        self.remote = agents.remote = Remote(self.now, self.machine.tell)
        self.people = self.open("people", drives=False)
        self.workers = [self.open("worker", drives=True) for _ in range(plan.workers)]

    def now(self) -> float:
        """The one time that everything is told in."""
        return START + self.machine.time

    def open(self, kind: str, *, drives: bool) -> Node:
        """A new process."""
        self._nodes += 1
        return Node(self, f"{kind} {self._nodes}", drives=drives)

    # ---- a run

    def play(self) -> Outcome:
        """All of it."""
        machine, outcome = self.machine, Outcome(plan=self.plan)
        machine.run(0.2)
        for deed in self.plan.deeds:
            machine.run(0.2 + deed.at)
            if machine.spins:
                break
            self.do(deed)
        self._calm()
        outcome.violations += self._rest()
        outcome.violations += self._heal()
        if machine.spins:
            outcome.violations.append(Violation(promise="spins", session="-", what=machine.spins, at=self.now()))
        for number, node in self.senders.items():
            if node.alive:
                asked = self.answers[number]
                self.answers[number] = replace(asked, took=self.now() - asked.sent_at)
        seen = self.evidence()
        outcome.violations += violations(seen)
        for process in machine.processes:
            outcome.violations += [
                Violation(promise="unexpected error", session="-", what=f"{process.name}: {what}", at=self.now())
                for what in process.errors[:3]
            ]
        outcome.journals = self.journals()
        outcome.trace, outcome.digest = machine.trace, machine.digest
        outcome.seconds, outcome.turns = machine.time, machine.turns
        outcome.counts = Counter(str(one.status) for one in seen.sessions.values())
        return outcome

    def end(self) -> None:
        """Leave nothing behind that could still run."""
        for process in [*self.machine.living]:
            process.kill()
        for loop in [loop for process in self.machine.processes for loop in process.loops]:
            for task in loop.tasks:
                coroutine = task.get_coro()
                if not task.done() and isinstance(coroutine, Coroutine):
                    with suppress(BaseException):
                        coroutine.close()
        agents.remote = Remote(float, str)

    def _run(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        self.machine.run(self.machine.time + seconds, done=done)

    def _calm(self) -> None:
        """Nothing is done any more."""
        self.wires.lost, self.wires.delay = 0.0, 0.01
        self.disk.full = self.disk.unreadable = False
        self.disk.held_until, self.disk.write, self.disk.read = 0.0, 0.003, 0.001
        for process in self.machine.processes:
            if process.stopped:
                process.go_on()
        self._replace_workers()

    def _replace_workers(self) -> None:
        self.workers = [one for one in self.workers if one.alive and not one.is_leaving]
        if not self.workers:
            self.workers.append(self.open("worker", drives=True))
            self.faults.append(self.now())
        if not self.people.alive:
            self.people = self.open("people", drives=False)

    def _rest(self) -> list[Violation]:
        """Every session ends, waits for a person or is paused. What does not is stuck."""
        quiet = self.machine.time
        while not self.machine.spins and not self._has_grown():
            self._run(LOOK)
            self._replace_workers()
            self._find_named()
            seen = Evidence(journals=self.journals(), named=self.named)
            if not stuck(seen, now=self.now(), patience=-1.0):
                return []
            if self.machine.time - quiet > PATIENCE:
                found = stuck(seen, now=self.now(), patience=PATIENCE)
                if found or self.machine.time - quiet > 4 * PATIENCE:
                    return found
        return []

    def _heal(self) -> list[Violation]:
        """Lift, answer and resume everything, as a person would who cleans up. Then everything ends."""
        began = self.machine.time
        self._replace_workers()
        while not self.machine.spins and not self._has_grown():
            self._find_named()
            seen = Evidence(journals=self.journals(), named=self.named)
            living = [name for name, one in seen.sessions.items() if one.status not in ENDED and name not in self.named]
            if not living and not seen.unfolded:
                return []
            if self.machine.time - began > PATIENCE:
                found = stuck(seen, now=self.now(), patience=PATIENCE, must_end=True)
                if found and (len(found) >= len(living) or self.machine.time - began > HEAL):
                    return found
                if self.machine.time - began > 2 * HEAL:
                    names = ", ".join(living)
                    what = f"still at it after {2 * HEAL:.0f} s: {names}"
                    return [Violation(promise="does not end", session="-", what=what, at=self.now())]
            mending = self.people.start(self._mend(living))
            self._run(20.0, done=mending.done)
            self._run(LOOK)
        return []

    def _find_named(self) -> None:
        """Find the damaged sessions that lists show as failed, or whose damage everybody is told of who asks."""
        # Its owner may have had a head whole in memory, and have written it again since.
        self.named = {name: since for name, since in self.named.items() if since < inf}
        if self.damaged - self.named.keys():
            asking = self.people.start(self._ask_for_damaged())
            self._run(20.0, done=asking.done)

    async def _ask_for_damaged(self) -> None:
        inside = self.people.midcourse
        if inside is None:
            return
        for name in sorted(self.damaged - self.named.keys()):
            try:
                await (await inside.get(name)).state()
            except Damaged:
                if self.disk.statuses()[SessionId(name)] == "paused":  # children may wait for it to continue
                    with suppress(MidcourseError):
                        handle = await inside.get(name)
                        await self._send("resume", name, partial(handle.resume, wait=2.0), by="healer")
                # Its owner may still have it whole in memory; marked as failed, nothing of it begins any more.
                marked = self.disk.statuses()[SessionId(name)] == "failed"
                self.named[name] = self.now() if marked else inf
            except MidcourseError:
                pass

    def _has_grown(self) -> bool:
        """Whether something spins: a journal grows, and none of its last events is a fact."""
        for name, journal in self.journals().items():
            if len(journal) > SPINS and all(isinstance(record.event, NO_FACT) for record in journal[-SPINS:]):
                self.machine.spins = f"the last {SPINS} events of {name} say nothing new"
        return bool(self.machine.spins)

    async def _mend(self, living: Sequence[str]) -> None:
        inside = self.people.midcourse
        if inside is None:
            return
        with suppress(MidcourseError):
            for report in await inside.kill_switch.reports():
                if report.switch.stands:
                    await self._lift(inside, str(report.switch.id))
        for name in living:
            with suppress(MidcourseError):
                await self._mend_one(inside, name)

    async def _mend_one(self, inside: Midcourse, name: str) -> None:
        handle = await inside.get(name)
        session = await handle.state()
        budget = needed(session)
        if budget is not None and session.status == "paused":
            await self._send("budget", name, partial(handle.raise_budget, budget + 1, wait=2.0), by="healer")
        elif session.status == "halted":
            await self._send("lift", name, partial(handle.lift, wait=2.0), by="healer")
        elif session.status == "paused":
            if session.pause is not None and session.pause.wants is not None:
                with suppress(MidcourseError):  # what is damaged above it decides no more
                    await self._pay_above(inside, session, session.pause.wants)
            await self._send("resume", name, partial(handle.resume, wait=2.0), by="healer")
        for ask in session.asks:
            value = "yes"
            if ask.reason == "did_it_happen":
                step = ask.step.rpartition("!")[0]
                key = next((call.key for call in session.calls.values() if call.step == step), "")
                value = DONE if key in self.remote.there else NOT_DONE
            await self._send("answer", name, partial(handle.answer, value, ask=ask.id, wait=2.0), by="healer")

    async def _pay_above(self, inside: Midcourse, session: Session, dollars: float) -> None:
        """Raise the budgets above a child that waits for them: of parents that ended before it."""
        while session.parent is not None:
            handle = await inside.get(session.parent)
            session = await handle.state()
            if session.terms.budget is not None and session.status in ENDED:
                enough = max(session.terms.budget, session.cost) + dollars + 1
                await self._send("budget", session.id, partial(handle.raise_budget, enough, wait=2.0), by="healer")

    # ---- what is seen

    def journals(self) -> dict[str, list[Recorded]]:
        """Every journal, as it lies on the disk."""
        found: dict[str, list[Recorded]] = {}
        for name in self.disk.sessions():
            known = self._known.setdefault(name, [])
            for position, content, _ in self.disk.rows(name, len(known)):
                record = decode_record(content)
                at = START + self.machine.moments[record.at]
                known.append(Recorded(Position(position), at, record.event))
            if known:
                found[name] = known
        return found

    def evidence(self) -> Evidence:
        """Everything."""
        return Evidence(
            journals=self.journals(),
            answers=self.answers,
            deeds=self.remote.deeds,
            faults=sorted(self.faults),
            lateness=LATE,
            named=self.named,
            lost=self.lost,
        )

    # ---- deeds of fate

    def do(self, deed: Deed) -> None:
        """Do it, or begin to."""
        self.machine.tell(f"plan: {deed.what}")
        chance = deed.chance()
        act = getattr(self, f"_fate_{deed.what}", None)
        if act is not None:
            self.faults.append(self.now())
            act(chance)
            return
        opened = [one for one in (self.people, *self.workers) if one.turns and one.midcourse and not one.is_leaving]
        if not opened:
            return
        # Mostly from elsewhere, now and then in the process of a worker.
        node = self.people if self.people in opened and chance.random() < 0.6 else chance.choice(opened)
        node.start(self._command(node, deed.what, chance))

    def _victim(self, chance: Random) -> Node | None:
        some = [one for one in self.workers if one.alive]
        return chance.choice(some) if some else None

    def _again(self, chance: Random) -> None:
        """Somebody starts a worker in the place of one that is gone."""

        def start() -> None:
            self.faults.append(self.now())
            self.workers = [one for one in self.workers if one.alive]
            self.workers.append(self.open("worker", drives=True))

        if chance.random() < 0.8:
            self.machine.at(self.machine.time + chance.uniform(0, 1.5), start)

    def _fate_kill(self, chance: Random) -> None:
        victim = self._victim(chance)
        if victim is not None:
            victim.kill()
            self._again(chance)

    def _fate_stop(self, chance: Random) -> None:
        victim = self._victim(chance)
        if victim is not None and not victim.stopped:
            victim.stop()

            def go_on() -> None:
                self.faults.append(self.now())
                victim.go_on()

            self.machine.at(self.machine.time + chance.uniform(0.05, 4), go_on)

    def _fate_term(self, chance: Random) -> None:
        victim = self._victim(chance)
        if victim is not None and victim.turns and not victim.is_leaving:
            victim.is_leaving = True
            grace, twice = chance.choice((0.0, 0.2, 2.0)), chance.random() < 0.3
            self._again(chance)
            victim.start(victim.leave(grace, twice=twice, stays=4.0))

    def _fate_power(self, chance: Random) -> None:
        for process in [*self.machine.living]:
            process.kill()
        lost = self.disk.forget()
        if lost is not None:
            self.lost.append((START + lost[0], START + lost[1]))
            there = {*self.disk.sessions()}
            self._known = {
                name: known[: len(self.disk.rows(SessionId(name), 0))]
                for name, known in self._known.items()
                if name in there
            }
        self.wires.heard.clear()
        count = self.plan.workers

        def start() -> None:
            self.faults.append(self.now())
            self.people = self.open("people", drives=False)
            self.workers = [self.open("worker", drives=True) for _ in range(count)]

        self.machine.at(self.machine.time + chance.uniform(0.1, 2), start)

    def _fate_full(self, chance: Random) -> None:
        self.disk.full = True

        def end() -> None:
            self.faults.append(self.now())
            self.disk.full = False

        self.machine.at(self.machine.time + chance.uniform(0.05, 1.5), end)

    def _fate_slow(self, chance: Random) -> None:
        self.disk.write = self.disk.read = chance.uniform(0.05, SLOWEST)

        def end() -> None:
            self.disk.write, self.disk.read = 0.003, 0.001

        self.machine.at(self.machine.time + chance.uniform(0.5, 3), end)

    def _fate_held(self, chance: Random) -> None:
        self.disk.held_until = self.machine.time + chance.uniform(1, 8)

    def _fate_unreadable(self, chance: Random) -> None:
        self.disk.unreadable = True

        def end() -> None:
            self.faults.append(self.now())
            self.disk.unreadable = False

        self.machine.at(self.machine.time + chance.uniform(0.05, 1.5), end)

    def _fate_emergency(self, chance: Random) -> None:
        """The store fails, and somebody stops a session in the process that drives it."""
        driven = [
            (node, driver.id)
            for node in self.workers
            if node.turns and node.worker and not node.is_leaving
            for driver in node.worker.drivers()
        ]
        if driven:
            node, name = chance.choice(driven)
            node.start(self._stop_without_store(node, name, chance))

    async def _stop_without_store(self, node: Node, name: str, chance: Random) -> None:
        assert node.midcourse is not None
        with suppress(MidcourseError):
            handle = await node.midcourse.get(name)
            session = await handle.state()
            chance.choice((self._fate_full, self._fate_unreadable))(chance)
            await chance.choice((self._pause, self._cancel))(handle, session, chance)

    def _fate_damage(self, chance: Random) -> None:
        sessions = sorted(self.journals())  # all that is there is known before something of it is damaged
        what = chance.choice(tuple(SPOILS))
        if sessions and self.disk.spoil(SessionId(name := chance.choice(sessions)), what, chance):
            self.machine.tell(f"fate: damages the {what} of {name}")
            self.damaged.add(name)

    def _fate_clock(self, chance: Random) -> None:
        ahead = chance.choice((5.0, -5.0, DAY, -DAY))
        living = [one for one in self.machine.living if one.alive]
        for process in living if chance.random() < 0.5 else [chance.choice(living)] if living else []:
            process.ahead += ahead
            self.machine.tell(f"fate: sets the clock of {process.name} by {ahead} s")

    def _fate_controller(self, chance: Random) -> None:
        self.people.kill()

        def start() -> None:
            self.faults.append(self.now())
            self.people = self.open("people", drives=False)

        self.machine.at(self.machine.time + chance.uniform(0, 1.5), start)

    def _fate_lossy(self, chance: Random) -> None:
        self.wires.lost, self.wires.delay = chance.choice((0.5, 1.0)), chance.uniform(0.01, 1.0)

        def end() -> None:
            self.wires.lost, self.wires.delay = 0.0, 0.01

        self.machine.at(self.machine.time + chance.uniform(0.5, 5), end)

    # ---- deeds of people

    async def _command(self, node: Node, what: str, chance: Random) -> None:
        inside = node.midcourse
        assert inside is not None
        with suppress(MidcourseError):
            if what == "start":
                await self._start(inside, chance)
            elif what == "halt":
                await self._halt(inside, chance)
            else:
                names = sorted(self.disk.sessions())
                if names:
                    await self._steer(inside, what, names, chance)

    async def _start(self, inside: Midcourse, chance: Random) -> None:
        name = chance.choices(("sim-solo", "sim-payer", "sim-looper", "sim-parent", "sim-leaver"), (3, 3, 1, 6, 2))[0]
        goal = Course(seed=chance.randrange(10**9), depth=chance.randint(1, 2), odd=self.plan.odd, wide=self.plan.wide)
        session = f"sess_{name[4:]}{chance.randrange(16**6):06x}"
        terms = chance.choice(TERMS) if self.plan.wide else None
        await inside.start(name, msgspec.json.encode(goal).decode(), session_id=session, by="ann", terms=terms)

    async def _halt(self, inside: Midcourse, chance: Random) -> None:
        scope = chance.choice((Scope("agent", "sim-solo"), Scope("agent", "sim-parent"), Scope("all")))
        sent = self.now()
        report = await inside.kill_switch.throw(scope, "simulated", by="operator", wait=3.0)
        for one in report.sessions:
            level = "stopped" if one.state == "stopped" else "accepted"
            self.answers.append(
                Answer(
                    session=one.session, verb="halt", sent_at=sent, answered_at=self.now(), by="operator", level=level,
                    status="halted", durable=report.durable,
                )
            )  # fmt: skip
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        await self._lift(inside, str(report.switch.id))

    async def _lift(self, inside: Midcourse, switch: str) -> None:
        await inside.kill_switch.lift(switch, "enough", by="operator")
        report = await inside.kill_switch.report(switch)
        names = [one.session for one in report.sessions]
        self.answers += [Answer(session=name, verb="lift", sent_at=self.now(), by="operator") for name in names]
        if names:
            await inside.kill_switch.release(switch, names, by="operator", wait=3.0)

    async def _steer(self, inside: Midcourse, what: str, names: Sequence[str], chance: Random) -> None:
        handle = await inside.get(chance.choice(names))
        session = await handle.state()
        if what == "answer":
            asking = [name for name in names if self._asks(name)]
            if asking:
                handle = await inside.get(chance.choice(asking))
                session = await handle.state()
            if session.asks:
                await self._answer(handle, chance.choice(session.asks), chance)
        elif what == "family":
            await self._family(inside, names, chance)
        elif what == "undo":
            if session.status in ENDED:
                self.machine.tell(f"ann: undo {handle.id}")
                # The receipt is read after the wait: two heads, a snapshot and the events.
                async with self._timed("undo", handle.id, wait=2.0 + 4 * SLOWEST):
                    await handle.undo("the wrong house", wait=2.0)
        else:
            await getattr(self, f"_{what}")(handle, session, chance)

    def _asks(self, name: str) -> bool:
        journal = self.journals().get(name, ())
        return any(record.type == "ask.opened" for record in journal)

    async def _family(self, inside: Midcourse, names: Sequence[str], chance: Random) -> None:
        """What two people do who look at a parent and at a child of it."""
        children = [name for name in names if "." in name]
        if not children:
            return
        child = await inside.get(chance.choice(children))
        parent = await inside.get(child.id.rpartition(".")[0])
        here, there = chance.choice(((parent, child), (child, parent)))
        courses = (
            (("pause", here), ("resume", there), ("pause", here)),
            (("pause", here), ("pause", there), ("resume", here)),
            (("pause", here), ("cancel", there), ("resume", here)),
            (("cancel", there), ("resume", here)),
        )
        for verb, one in chance.choice(courses):
            with suppress(MidcourseError):
                await getattr(self, f"_{verb}")(one, await one.state(), chance)
            await asyncio.sleep(chance.uniform(0, 0.3))

    async def _pause(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        grace = chance.choice((None, None, 0.0, 0.1))
        until = chance.choice(("stopping", "stopped"))
        wait = chance.uniform(0.5, 4)
        lapses = chance.choice((None, None, None, 2.0))
        await self._send(
            "pause",
            handle.id,
            partial(handle.pause, "wait", grace=grace, until=until, wait=wait, lapses=lapses),
            by=chance.choice(PEOPLE),
            lapses=lapses,
        )

    async def _resume(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        if session.status == "halted":
            return  # an operator's, who lifts the switch
        pause = session.pause.id if session.pause is not None and chance.random() < 0.5 else None
        by = chance.choice(PEOPLE)
        await self._send("resume", handle.id, partial(handle.resume, pause, wait=3.0), by=by, pause=pause or "")

    async def _redirect(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        level, grace, resume = (
            chance.choice(("step", "goal", "clarify")),
            chance.choice((None, 0.0)),
            chance.random() < 0.3,
        )
        act = partial(handle.redirect, "do it differently", level=level, grace=grace, resume=resume, wait=3.0)
        await self._send("redirect", handle.id, act, by=chance.choice(PEOPLE), opens=resume)

    async def _cancel(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        undo, grace = chance.choice((None, "in-flight", "all", "none")), chance.choice((0.0, 0.3, 2.0))
        act = partial(handle.cancel, "enough", undo=undo, grace=grace, until=chance.choice(("stopping", "stopped")))
        await self._send("cancel", handle.id, partial(act, wait=4.0), by=chance.choice(PEOPLE))

    async def _force(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        act = partial(handle.cancel, "at once", force=True, restart=chance.random() < 0.5, until="stopped")
        await self._send("cancel", handle.id, partial(act, wait=4.0), by="operator")

    async def _budget(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        budget = session.cost + chance.uniform(0.1, 1.0)
        act = partial(handle.raise_budget, budget, resume=chance.random() < 0.5, wait=3.0)
        await self._send("budget", handle.id, act, by=chance.choice(PEOPLE))

    async def _event(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        act = partial(handle.event, "the market has closed", wait=3.0)
        await self._send("event", handle.id, act, by=chance.choice(PEOPLE))

    async def _message(self, handle: SessionHandle[Any], session: Session, chance: Random) -> None:
        del session
        behaviour = chance.choice(("enqueue", "redirect", "reject"))
        act = partial(handle.message, "and then?", behaviour=behaviour, wait=3.0)
        await self._send("message", handle.id, act, by=chance.choice(PEOPLE))

    async def _answer(self, handle: SessionHandle[Any], ask: Any, chance: Random) -> None:
        """Truly or falsely: whoever is asked may not know either."""
        value = chance.choice((DONE, NOT_DONE)) if ask.reason == "did_it_happen" else "yes"
        answer = partial(handle.answer, value, ask=ask.id, wait=3.0)
        await self._send("answer", handle.id, answer, by="ann", opens=ask.is_review)

    @asynccontextmanager
    async def _timed(self, verb: str, about: str, *, wait: float) -> AsyncGenerator[None]:
        """Write down how long something took that is no command to one session."""
        asked = Answer(session=about, verb=verb, sent_at=self.now(), by="operator", refused="timed alone", wait=wait)
        number, node = self._note(asked), _node()
        stood = node.stood
        try:
            yield
        finally:
            if node.turns:
                del self.senders[number]
                self.answers[number] = replace(asked, took=self.now() - asked.sent_at - (node.stood - stood))

    def _note(self, asked: Answer) -> int:
        self.answers.append(asked)
        self.senders[len(self.answers) - 1] = _node()
        return len(self.answers) - 1

    async def _send(self, verb: str, session: str, act: "partial[Any]", *, by: str = "ann", **more: Any) -> None:
        """Write a command down, send it, and write down what came of it."""
        node = _node()
        assert node.worker is not None
        driver = None if node.is_leaving else node.worker.driver(SessionId(session))
        if driver is not None and finishes_first(driver.session):
            driver = None  # what is protected stops at its end, and only if that can be written
        asked = Answer(session=session, verb=verb, sent_at=self.now(), by=by, wait=act.keywords["wait"], **more)
        number, stood = self._note(asked), node.stood
        self.machine.tell(f"{by}: {verb} {session}")
        try:
            reply: Reply = await act(by=by)
        except MidcourseError as error:
            asked = replace(asked, took=self.now() - asked.sent_at - (node.stood - stood))
            del self.senders[number]
            self.machine.tell(f"{by}: {verb} {session} -> {error.code}")
            if isinstance(error, Refused):
                self.answers[number] = replace(asked, answered_at=self.now(), refused=error.code)
            else:  # it may have got there all the same
                owned = driver is not None and node.worker.driver(SessionId(session)) is driver
                self.answers[number] = replace(asked, failed=error.code, at_owner=owned)
            return
        del self.senders[number]
        asked = replace(asked, took=self.now() - asked.sent_at - (node.stood - stood))
        self.answers[number] = answered(asked, reply, self.now())
        self.machine.tell(f"{by}: {verb} {session} -> {reply.level}, {reply.status}")


def _node() -> Node:
    """The process that does this."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    assert isinstance(loop.process, Node)
    return loop.process


@contextmanager
def quietly() -> Generator[None]:
    """What dead processes leave to the collector says nothing, and is gone before anything else runs."""
    hook, level = sys.unraisablehook, logging.getLogger("midcourse").level
    was_enabled = gc.isenabled()
    gc.disable()
    logging.getLogger("midcourse").setLevel(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
            gc.collect()
    finally:
        sys.unraisablehook = hook
        logging.getLogger("midcourse").setLevel(level)
        if was_enabled:
            gc.enable()


@contextmanager
def kept_moments() -> Generator[None]:
    """Keep the time that it was for each that a journal tells: its owner's clock may have been set."""
    told = Journal.now.fget
    assert told is not None

    def now(journal: Journal) -> float:
        value = told(journal)
        clock: Clock = journal._clock  # pyright: ignore[reportAssignmentType, reportPrivateUsage]  # noqa: SLF001
        clock.machine.moments[value] = clock.machine.time
        return value

    with patch.object(Journal, "now", property(now)):
        yield


def play(plan: Plan) -> Outcome:
    """Play a plan, from an empty disk to the end."""
    with quietly(), kept_moments():
        world = World(plan)
        outcome = world.play()
        world.end()
        del world
    return outcome
