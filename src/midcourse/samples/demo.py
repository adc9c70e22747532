"""The demonstration of ``make demo``: an agent is paused from outside, its process killed, and it goes on in a third.

Everything printed is measured in this run, read from the journal, or counted in a file outside of Midcourse.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import midcourse
from midcourse.samples.moon import GOAL, INSTRUCTION, WRITE, bodies
from midcourse.samples.processes import SESSION, store
from midcourse.samples.screen import Screen, facts

CUT_AFTER = 20
"""Words after which the person at the terminal changes their mind."""
PATIENCE = 60.0


class Child:
    """One of the other processes, and the lines it says."""

    def __init__(self, letter: str, process: asyncio.subprocess.Process) -> None:
        self.letter = letter
        self.pid = process.pid
        self.process = process

    @classmethod
    async def start(cls, letter: str, *arguments: str) -> "Child":
        """Start it."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "midcourse.samples.processes", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(letter, process)

    async def said(self) -> dict[str, Any]:
        """The next thing it says."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = await self.process.stdout.readline()
        if not line:
            complaint = (await self.process.stderr.read()).decode()
            raise RuntimeError(f"process {self.letter} ({self.pid}) ended without a word:\n{complaint}")
        return json.loads(line)

    def cue(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def end(self) -> None:
        """Make sure that it is gone."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass
class Speech:
    """The text of one attempt at the model call: previews as they come, durable segments in their place."""

    pieces: dict[int, str] = field(default_factory=dict[int, str])

    def hear(self, offset: int, text: str) -> None:
        """A piece; of two at one place the longer one is the segment that replaces the previews."""
        if len(text) > len(self.pieces.get(offset, "")):
            self.pieces[offset] = text

    @property
    def text(self) -> str:
        """From its beginning up to the first piece that is missing."""
        text = ""
        while len(text) in self.pieces:
            text += self.pieces[len(text)]
        return text


@dataclass
class Story:
    """What this terminal has seen of the session."""

    begun: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    ended: dict[str, list[tuple[str, float]]] = field(default_factory=dict[str, list[tuple[str, float]]])
    lost: int = 0
    speeches: dict[int, Speech] = field(default_factory=dict[int, Speech])
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, told: Callable[[], bool]) -> None:
        """Wait until this terminal has seen it."""
        async with self.moved:
            await self.moved.wait_for(told)

    @property
    def attempt(self) -> int:
        """Which time the model is speaking; 0 before the first."""
        return max(self.speeches, default=0)

    @property
    def words(self) -> str:
        """What it has said this time."""
        return self.speeches[self.attempt].text if self.speeches else ""

    def hear(self, attempt: int, offset: int, text: str) -> None:
        """A piece of what the model says."""
        self.speeches.setdefault(attempt, Speech()).hear(offset, text)

    def note(self, seen: midcourse.Recorded) -> None:
        """An event of the journal."""
        event: Any = seen.event
        match seen.type:
            case "segment.written":
                self.hear(event.attempt, event.offset, event.text)
            case "session.taken":
                self.lost += len(event.lost)
            case "step.begun":
                self.begun.setdefault(event.name, []).append(seen.at)
            case "step.finished" | "step.cut" | "step.aborted" | "step.failed":
                name = event.step.partition("/")[2].partition("#")[0]
                self.ended.setdefault(name, []).append((seen.type.partition(".")[2], seen.at))
            case _:
                pass


async def watch(session: midcourse.SessionHandle[Any], story: Story, screen: Screen) -> None:
    """Follow the session from its first event to its last, whichever process works on it."""
    position = 0
    ended = False
    while not ended:
        ended = True
        async for seen in session.watch(after=position, deltas=True):
            if isinstance(seen, midcourse.Delta):
                story.hear(seen.attempt, seen.offset, seen.text)
            else:
                position = seen.position
                story.note(seen)
                screen.session(await session.state())
            screen.text(story.words)
            async with story.moved:
                story.moved.notify_all()
            if isinstance(seen, midcourse.Recorded) and seen.type == "session.taken":
                ended = False
                break  # previews come from the owner: listen to the new one


class Demo:
    """The scenes, in order."""

    def __init__(self, console: Console, folder: Path, *, fast: bool) -> None:
        self.console = console
        self.folder = folder
        self.fast = fast
        self.pace = 0.15 if fast else 1.0
        self.children: list[Child] = []
        self.timings: list[tuple[str, str]] = []

    async def play(self) -> None:
        """All of it. Whatever happens, no process is left behind."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._play()
        finally:
            for child in self.children:
                await child.end()

    async def _play(self) -> None:
        story = Story()
        with Screen(self.console) as screen:
            a, b = await self._begin(screen)
            async with midcourse.open(store(self.folder), drive=False) as mc:
                session = await mc.get(SESSION)
                watching = asyncio.create_task(watch(session, story, screen))
                pause = await self._pause(b, screen)
                await self._kill(a, session, screen)
                c = await self._resume(pause, screen)
                await self._redirect(session, story, screen)
                answer = str(await session.result())
                await watching
                await c.process.wait()
        self._sum_up(story, answer, {child.pid: child.letter for child in self.children})

    async def _start(self, letter: str, role: str, *more: str) -> Child:
        child = await Child.start(letter, role, str(self.folder), str(self.pace), *more)
        self.children.append(child)
        return child

    async def _beat(self, seconds: float = 1.0) -> None:
        """Time for a person to read. No result depends on it."""
        if not self.fast:
            await asyncio.sleep(seconds)

    def _took(self, what: str, milliseconds: float) -> str:
        spelled = f"{milliseconds:,.1f} ms"
        self.timings.append((what, spelled))
        return spelled

    async def _begin(self, screen: Screen) -> tuple[Child, Child]:
        screen.scene("An agent works")
        screen.line(f"goal: {GOAL}")
        a, b = await self._start("A", "work"), await self._start("B", "pause")
        await a.said()
        await b.said()
        a.cue()
        said = await a.said()
        b.cue()
        screen.line(
            f"process A (pid {a.pid}) runs {said['started']} on runs.db; an answer survives: {said['durability']}"
        )
        screen.line(f"this terminal (pid {os.getpid()}) only watches, through the same file")
        screen.owner(f"process A, pid {a.pid}")
        return a, b

    async def _pause(self, b: Child, screen: Screen) -> str:
        first = await b.said()
        screen.scene("Somebody presses pause, in the middle of a step")
        screen.line(f"process B (pid {b.pid}) pauses it from outside")
        took = self._took("pause in B: click to stopping", first["milliseconds"])
        running = ", ".join(f"{name} ({seconds:.2f} s)" for name, seconds in first["running"])
        screen.line(f"{first['level']} after {took}: from here nothing new begins", style="bold yellow")
        screen.line(f"still running: {running}")
        last = await b.said()
        took = self._took("pause in B: click to stopped, the call in flight included", last["milliseconds"])
        screen.line(f"{last['level']} after {took}: {last['status']}, {last['running']} calls run", style="bold yellow")
        await b.process.wait()
        await self._beat()
        return first["pause"]

    async def _kill(self, a: Child, session: midcourse.SessionHandle[Any], screen: Screen) -> None:
        screen.scene("The process is killed")
        began = time.perf_counter()
        os.kill(a.pid, signal.SIGKILL)
        code = await a.process.wait()
        took = self._took("kill -9 to process A gone", (time.perf_counter() - began) * 1000)
        screen.line(f"kill -9 {a.pid}: process A ended with signal {-code} after {took}", style="bold red")
        screen.line(f"process {a.pid} {'still exists' if exists(a.pid) else 'does not exist any more'}")
        state = await session.state()
        screen.owner("no process")
        screen.line(f"in the file: {state.status}, {state.finished_steps} steps finished, {len(state.plan)} planned")
        await self._beat(1.5)

    async def _resume(self, pause: str, screen: Screen) -> Child:
        screen.scene("Another process goes on")
        c = await self._start("C", "resume", pause)
        said = await c.said()
        took = self._took("resume in C: click to running", said["milliseconds"])
        screen.line(f"process C (pid {c.pid}) opened the file in {said['opened']:,.1f} ms")
        screen.line(f"and lifted {pause}: {said['status']} after {took}", style="bold green")
        screen.owner(f"process C, pid {c.pid}")
        return c

    async def _redirect(self, session: midcourse.SessionHandle[Any], story: Story, screen: Screen) -> None:
        await story.until(lambda: len(story.words.split()) >= CUT_AFTER)
        attempt = story.attempt
        screen.scene("Somebody changes the course, in the middle of a sentence")
        click = time.perf_counter()
        await session.redirect(INSTRUCTION)
        took = self._took("redirect from this terminal: click to decided", (time.perf_counter() - click) * 1000)
        screen.line(f"“{INSTRUCTION}” is durable after {took}", style="bold yellow")
        await story.until(lambda: len(story.ended.get(WRITE, [])) >= attempt)
        screen.line(f"cut, and kept in the journal: “{story.speeches[attempt].text} …”")
        await story.until(lambda: story.attempt > attempt)
        took = self._took("redirect: click to first new words seen here", (time.perf_counter() - click) * 1000)
        screen.line(f"the model speaks again after {took}")

    def _sum_up(self, story: Story, answer: str, letters: dict[int, str]) -> None:
        ran: dict[str, list[int]] = {}
        for line in bodies(self.folder).read_text(encoding="utf-8").splitlines():
            pid, _, step = line.split("\t")
            ran.setdefault(step, []).append(int(pid))
        rows: list[tuple[str, ...]] = []
        again = 0
        for step, pids in ran.items():
            ends = [end for end, _ in story.ended[step]]
            again += len(pids) - 1 - (len(ends) - ends.count("finished"))
            seconds = " + ".join(
                f"{at - begun:.2f}" for begun, (_, at) in zip(story.begun[step], story.ended[step], strict=True)
            )
            where = ", ".join(dict.fromkeys(f"{letters[pid]} {pid}" for pid in pids))
            rows.append((step, where, str(len(pids)), seconds, ", ".join(ends)))
        self.console.print()
        self.console.print(f"   “{answer}”", style="italic", soft_wrap=True)
        facts(
            self.console,
            title="Steps: process and count from a file outside, the rest from the journal",
            columns=("step", "process", "ran", "seconds", "how it ended"),
            rows=rows,
        )
        facts(self.console, title="Timings of this run", columns=("what", "measured"), rows=self.timings)
        self.console.print()
        torn = sum(end != "finished" for ends in story.ended.values() for end, _ in ends)
        self.console.print(
            f"{len(rows)} steps finished, in {len({pid for pids in ran.values() for pid in pids})} processes; "
            f"calls cut by the redirect: {torn}; finished steps that ran again: {again}; "
            f"calls lost with a process: {story.lost}.",
            style="bold",
            soft_wrap=True,
            highlight=False,
        )


def exists(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m midcourse.samples.demo", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="no waiting for a person to read; for tests")
    options = parser.parse_args(arguments)
    logging.getLogger("midcourse").setLevel(logging.ERROR)
    console = Console(width=None if sys.stdout.isatty() else 110)
    with tempfile.TemporaryDirectory(prefix="midcourse-demo-") as folder:
        try:
            asyncio.run(Demo(console, Path(folder), fast=options.fast).play())
        except KeyboardInterrupt:
            raise SystemExit(130) from None


if __name__ == "__main__":
    main()
