"""The processes of a round, and what can be done to them."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal

from tests.chaos import remote
from tests.chaos.ways import READY, Ways

ROOT: Final = Path(__file__).parents[2]
Kind = Literal["worker", "person", "remote"]
START: Final = 30.0
"""Seconds in which a process has to begin; this machine may have other things to do."""
DRAIN: Final = 40.0
"""Seconds in which a worker ends that was asked to: the grace, the cleanup, and the longest call."""
LAST_WORDS: Final = 10.0
"""Seconds in which the processes that a worker had started for its tools end after it."""
HELD: Final = (1.0, 4.0, 14.0)
"""Seconds for which another program holds the lock: the last ones are longer than any command waits."""
HOLDER: Final = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60.0, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
"""
NO_ROOM: Final = 4096
"""Bytes up to which a process may write files when its store is full."""


@dataclass(eq=False)
class Member:
    """A process of the round. What it says goes to a file; not by its own hand, which may be tied."""

    kind: Kind
    name: str
    process: "subprocess.Popen[str]"
    folder: Path
    ready: threading.Event = field(default_factory=threading.Event)
    said: str = ""
    """What it said when it was ready."""
    busy: bool = False
    """Whether something is being done to it."""

    def __post_init__(self) -> None:
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with (self.folder / f"{self.name}.log").open("a", buffering=1) as kept, self.process.stdout as said:
            for line in said:
                if line.startswith(READY):
                    self.said = line.removeprefix(READY).strip()
                    self.ready.set()
                if len(line) < 2000:
                    kept.write(line)
        self.ready.set()  # it never will be

    def end(self) -> None:
        """Kill it, and hear what it had said."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self._listener.join(LAST_WORDS)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Nothing, if it has ended."""
        if self.is_alive:
            self.process.send_signal(number)

    def limit(self, size: int) -> None:
        """How many bytes long the files may become that it writes: the store's, too."""
        if self.is_alive and hasattr(resource, "prlimit"):
            _, most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))

    def seconds(self) -> float:
        """Of a processor, since it began; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Crew:
    """Every process of a round. ``faults`` is what was done to them, and when."""

    def __init__(self, folder: Path, ways: Ways) -> None:
        self.folder = folder
        self.ways = ways
        self.members: list[Member] = []
        self.faults: list[tuple[float, str]] = []
        self.unwilling: list[str] = []
        """Workers that did not end when they were asked to."""
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers: Counter[str] = Counter()

    def note(self, what: str) -> None:
        """Something was done to a process."""
        self.faults.append((time.time(), what))

    @property
    def counts(self) -> Counter[str]:
        """How often each thing was done."""
        return Counter(what for _, what in self.faults)

    def those(self, kind: Kind) -> list[Member]:
        """The living ones of a kind."""
        return [one for one in self.members if one.kind == kind and one.is_alive]

    async def start(self, kind: Kind, *arguments: str) -> Member:
        """A process more, once it is ready."""
        self._numbers[kind] += 1
        command = [sys.executable, "-m", f"tests.chaos.{kind}", *arguments]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        member = Member(kind, f"{kind}-{self._numbers[kind]}", process, self.folder)
        self.members.append(member)
        if kind != "person":
            await asyncio.to_thread(member.ready.wait, START)
        return member

    async def start_remote(self) -> None:
        """What counts the effects."""
        member = await self.start("remote", str(self.folder / "deeds"))
        self._environment[remote.PORT] = os.environ[remote.PORT] = member.said

    async def start_worker(self) -> Member:
        """One worker more."""
        self.note("start")
        return await self.start("worker", str(self.folder))

    async def start_person(self, seconds: float) -> None:
        """One person more."""
        seed = f"{self.ways.seed}/{self._numbers['person']}"
        await self.start("person", str(self.folder), seed, f"{seconds:.1f}")

    # ---- what can be done to them

    async def torment(self, until: float, chance: Random) -> None:
        """One thing after the other, until that time; then everything is put right again."""
        weights = {"kill": 4, "stop": 3, "end": 2, "full": 2 if self.ways.full else 0, "kill a person": 1}
        weights["held"] = 2 if self.ways.held else 0
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, chance.expovariate(1 / self.ways.fault_every)))
            what = chance.choices(tuple(weights), tuple(weights.values()))[0]
            free = [one for one in self.those("person" if what == "kill a person" else "worker") if not one.busy]
            if not free or until - time.monotonic() < 1:
                continue
            task = asyncio.create_task(self._do(what, chance.choice(free), chance, until))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _do(self, what: str, member: Member, chance: Random, until: float) -> None:
        member.busy = True
        self.note(what)
        match what:
            case "kill":
                member.signal(signal.SIGKILL)
                await asyncio.sleep(chance.uniform(0, 0.7))
                await self.start_worker()
            case "kill a person":
                member.signal(signal.SIGKILL)
                await self.start_person(max(0.1, until - time.monotonic()))
            case "stop":
                member.signal(signal.SIGSTOP)
                await asyncio.sleep(chance.choice((0.1, 0.5, 1.5, 3.0)))
                if chance.random() < 0.2:
                    self.note("kill")
                    member.signal(signal.SIGKILL)
                    await self.start_worker()
                else:
                    self.note("continue")
                    member.signal(signal.SIGCONT)
            case "end":
                await self.drain(member)
                await self.start_worker()
            case "held":
                await self._hold(chance.choice(HELD))
                self.note("let go")
            case _:
                member.limit(NO_ROOM)
                await asyncio.sleep(chance.uniform(0.2, 2.0))
                member.limit(resource.RLIM_INFINITY)
                self.note("room")
        member.busy = False

    async def _hold(self, seconds: float) -> None:
        """Have another program hold the store's lock for writing."""
        store = str(self.folder / "store.db")
        holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, store, str(seconds))
        await holder.wait()

    async def drain(self, member: Member) -> None:
        """Ask a worker to end. One that does not is killed, and told of."""
        member.signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(member.process.wait, DRAIN)
        except subprocess.TimeoutExpired:
            self.unwilling.append(f"{member.name} did not end within {DRAIN:.0f} s of SIGTERM")
            member.signal(signal.SIGKILL)
            await asyncio.to_thread(member.process.wait)

    async def people_end(self, seconds: float) -> list[str]:
        """Until no person is at it any more. Those who wait for an answer for too long are told of, and killed."""
        until = time.monotonic() + seconds
        while self.those("person") and time.monotonic() < until:
            await asyncio.sleep(0.1)
        late = self.those("person")
        for one in late:
            one.signal(signal.SIGKILL)
        return [f"{one.name} still waits for an answer" for one in late]

    def end(self) -> None:
        """All of them, at once."""
        for member in self.members:
            member.end()

    def write(self) -> None:
        """What was done, for whoever looks at the folder later."""
        (self.folder / "faults").write_text("\n".join(map(json.dumps, self.faults)))


def faults_in(folder: Path) -> list[float]:
    """When something was done to a process of the round in this folder."""
    return [json.loads(line)[0] for line in (folder / "faults").read_text().splitlines()]
