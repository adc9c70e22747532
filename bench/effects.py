"""Side effects that any process can look at: moments and process ids, appended to a file.

``time.perf_counter`` reads one clock for all processes of a machine, on Linux and on macOS.
"""

import asyncio
import os
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

EVERY: Final = 0.0005
"""Seconds between two effects of a tool that goes on until it is aborted."""

_record: Final = struct.Struct("dq")


class Effect(NamedTuple):
    """When something was done to the world, and by which process."""

    moment: float
    pid: int


def do(path: str | os.PathLike[str]) -> None:
    """Do one thing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, _record.pack(time.perf_counter(), os.getpid()))
    finally:
        os.close(descriptor)


async def go_on(path: str | os.PathLike[str]) -> NoReturn:
    """Do one thing after the other until aborted."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while True:
            os.write(descriptor, _record.pack(time.perf_counter(), os.getpid()))
            await asyncio.sleep(EVERY)
    finally:
        os.close(descriptor)


def seen(path: Path) -> list[Effect]:
    """All that was done."""
    return [Effect(*fields) for fields in _record.iter_unpack(path.read_bytes())] if path.exists() else []


def last(path: Path) -> Effect:
    """The last thing that was done."""
    with path.open("rb") as file:
        file.seek(-_record.size, os.SEEK_END)
        return Effect(*_record.unpack(file.read(_record.size)))


def count(path: Path) -> int:
    """How much was done."""
    return path.stat().st_size // _record.size if path.exists() else 0


async def until_more_than(path: Path, number: int) -> None:
    """Wait until more was done."""
    async with asyncio.timeout(60):
        while count(path) <= number:
            await asyncio.sleep(0.001)
