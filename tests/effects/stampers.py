"""Tools that leave a time stamp in a file every two milliseconds, until they are stopped: one for each way to run."""

import asyncio
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import midcourse
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.shell_commands import run_command

PAUSE: Final = 0.002
PROGRAM: Final = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(file, b"%d %d\\n" % (time.monotonic_ns(), os.getpid()))
    time.sleep(0.002)
"""


class Stamp(NamedTuple):
    """When, by the one clock of this machine, and by which process."""

    at: int
    pid: int


def stamps(path: Path) -> list[Stamp]:
    """Those that are there."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Stamp(*map(int, line.split())) for line in lines]


def _stamp(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, b"%d %d\n" % (time.monotonic_ns(), os.getpid()))
    finally:
        os.close(file)


def _program(path: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", PROGRAM, path]


@midcourse.tool(effect="read")
async def in_task(path: str) -> None:
    """An async tool."""
    while True:
        _stamp(path)
        await asyncio.sleep(PAUSE)


@midcourse.tool(effect="read")
def in_thread(path: str) -> None:
    """A plain tool, which looks whether it should end."""
    while True:
        midcourse.current_call().raise_if_cancelled()
        _stamp(path)
        time.sleep(PAUSE)


@midcourse.tool(effect="read", run_in="process")
def in_process(path: str) -> None:
    """A plain tool that looks at nothing."""
    while True:
        _stamp(path)
        time.sleep(PAUSE)


@midcourse.tool(effect="read", run_in="process")
def in_process_with_child(path: str) -> None:
    """A plain tool that has started another process."""
    with subprocess.Popen(_program(path)):
        while True:
            _stamp(path)
            time.sleep(PAUSE)


@midcourse.tool(effect="read")
async def in_shell(path: str) -> None:
    """A command."""
    await run_command(_program(path), reaper=process_group_reaper())


@midcourse.tool(effect="read")
async def in_shell_with_grandchildren(path: str) -> None:
    """A command line that has started two processes in the background, one of which nobody waits for."""
    one = shlex.join(_program(path))
    await run_command(f"({one} &) ; {one} & {one} ; wait", reaper=process_group_reaper())


@midcourse.tool(effect="write")
async def until_told(path: str) -> None:
    """Irreversible: it ends when there is a file of that name, and not before."""
    while not os.path.exists(f"{path}.end"):
        _stamp(path)
        await asyncio.sleep(PAUSE)


@midcourse.tool(effect="read")
async def once(path: str) -> None:
    """A single stamp."""
    _stamp(path)


STAMPERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "async": in_task,
    "thread": in_thread,
    "process": in_process,
    "process with a child": in_process_with_child,
    "shell": in_shell,
    "shell with grandchildren": in_shell_with_grandchildren,
}
WRITERS: Final = {"process with a child": 2, "shell with grandchildren": 3}
"""How many processes write, where it is not one."""
