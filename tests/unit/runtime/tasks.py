"""What the tests of processes and commands let other processes do, and how they see from outside that it goes on."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

WAIT = 30.0
SRC = str(Path(__file__).parents[3] / "src")

told: object = None


def stamp(path: Path, *, with_children: bool = False) -> None:
    """Write to ``path`` for ever; the children beside it."""
    if with_children:
        subprocess.Popen(["/bin/sh", "-c", stamping(path.with_suffix(".child"))], stdin=subprocess.DEVNULL)
    with path.open("ab", buffering=0) as file:
        while True:
            file.write(b"%d\n" % os.getpid())
            time.sleep(0.002)


def stamping(path: Path) -> str:
    """A shell line that writes to ``path`` for ever, from a child and a grandchild."""
    return f"(while :; do echo $$ >> '{path}2'; sleep 0.01; done) & while :; do echo $$ >> '{path}'; sleep 0.01; done"


def hear(about: object) -> None:
    """Remember what a call is about."""
    global told  # noqa: PLW0603 - it is the process that is told
    told = about


def what_was_told() -> object:
    return told


def pid() -> int:
    return os.getpid()


def add(left: int, *, right: int) -> int:
    return left + right


class Particular(Exception):
    """Its ``__init__`` does not take what pickle gives it."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"because of {reason}")
        self.reason = reason


class Holding(Exception):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


def fail(kind: str) -> None:
    """Raise it."""
    match kind:
        case "particular":
            raise Particular(reason="age")
        case "holding":
            raise Holding
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            raise ValueError(kind)


def give_lock() -> object:
    return threading.Lock()


def leave(how: str) -> None:
    """End the process in the middle of the call."""
    match how:
        case "exit":
            sys.exit(3)
        case "at once":
            os._exit(4)
        case _:
            os.kill(os.getpid(), signal.SIGSEGV)


def leave_child() -> int:
    return subprocess.Popen(["sleep", "100"]).pid


def leave_thread() -> int:
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    return os.getpid()


def hold_the_interpreter(path: Path) -> None:
    """Let no other thread of this process run, for longer than any test."""
    path.write_text(str(os.getpid()))
    re.match(r"(a+)+$", "a" * 64 + "b")


def wait_for(path: Path) -> str:
    """Return when it is there."""
    while not path.exists():
        time.sleep(0.002)
    return path.name


def is_dead(process: int) -> bool:
    """Whether it has ended, reaped or not. The first process of a container often reaps nobody."""
    try:
        os.kill(process, 0)
        stat = Path(f"/proc/{process}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (ProcessLookupError, FileNotFoundError):
        return True


def is_reaped(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(WAIT):
        while not condition():
            await asyncio.sleep(0.005)


async def until_growing(*paths: Path) -> None:
    def sizes() -> list[int]:
        return [path.stat().st_size if path.exists() else 0 for path in paths]

    before = sizes()
    await until(lambda: all(now > then for now, then in zip(sizes(), before, strict=True)))


async def is_still(*paths: Path) -> bool:
    """Whether nothing is written to them any more. What is still running would write ten times meanwhile."""
    before = [path.read_bytes() for path in paths]
    await asyncio.sleep(0.1)
    return before == [path.read_bytes() for path in paths]


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


class Program:
    """A program in a process of its own, to be killed."""

    def __init__(self, path: Path, source: str, *arguments: object) -> None:
        path.write_text(source)
        self.process = subprocess.Popen(
            [sys.executable, str(path), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((SRC, str(Path(__file__).parents[3])))},
        )

    def hear(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """With SIGKILL, so that it can do nothing about it."""
        self.process.kill()
        self.process.wait(WAIT)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what it forked
