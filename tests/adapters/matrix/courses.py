"""The one story that every adapter plays: its tools, what its model says, and the lines that are counted afterwards.

A tool leaves a line in a file when it begins and when it is done, so that executions are counted across processes. It
waits in between for as long as ``hold.<tool>`` lies in the folder.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import midcourse
from midcourse.models.script import Call, Piece, Script, Text, replies

FOLDER = "MATRIX_FOLDER"
"""The environment variable that says where the lines are left."""
URL = "MATRIX_URL"
"""The environment variable that says where the model is."""
INSTRUCTIONS = "You plan a trip. Use your tools."
GOAL = "Plan the trip to Rome"
INSTEAD = "Go to Oslo instead"


# ---- the world


def folder() -> Path:
    """Where the lines are."""
    return Path(os.environ[FOLDER])


def leave_a_line(text: str) -> None:
    """One line, whole or not at all, whatever dies."""
    descriptor = os.open(folder() / "lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def lines() -> list[str]:
    """What was done so far, in order."""
    path = folder() / "lines"
    return path.read_text().splitlines() if path.exists() else []


def counted() -> Mapping[str, int]:
    """How often each thing was done."""
    return Counter(lines())


def hold(*tools: str) -> None:
    """Have the calls of these tools wait."""
    for name in tools:
        (folder() / f"hold.{name}").touch()


def let(*tools: str) -> None:
    """Have them go on."""
    for name in tools:
        (folder() / f"hold.{name}").unlink()


def _held(name: str) -> bool:
    return (folder() / f"hold.{name}").exists()


async def _act(name: str) -> None:
    leave_a_line(f"{name} begun")
    while _held(name):
        await asyncio.sleep(0.005)
    leave_a_line(f"{name} done")


# ---- the tools


@midcourse.tool(effect="read")
async def look(at: str) -> str:
    """Look at something."""
    await _act("look")
    return f"{at} is nice"


@midcourse.tool(effect="idempotent")
async def note(text: str) -> str:
    """Note something down, once under each key."""
    leave_a_line(f"note under {midcourse.current_call().key}")
    await _act("note")
    return f"noted {text}"


async def unbook(arguments: Mapping[str, object], result: object, key: str) -> None:
    """Give the room back."""
    leave_a_line(f"{arguments['room']} unbooked")


@midcourse.tool(effect="write", undo=unbook, settle=0)
async def book(room: str) -> str:
    """Book a room. It can be given back."""
    await _act("book")
    return f"{room} is booked"


async def send(to: str) -> str:
    """Send a letter. It declares nothing, so it counts as irreversible."""
    await _act("send")
    return f"sent to {to}"


async def pay(amount: int) -> str:
    """Pay. Every framework declares in its own way that a person is asked first."""
    await _act("pay")
    return f"paid {amount}"


async def wire(amount: int) -> str:
    """Wire money. It asks a person itself, in Midcourse's way."""
    answer = midcourse.current_call().answer
    if answer is None:
        raise midcourse.Interrupt("need_approval", f"Wire {amount}?")
    if answer != "yes":
        return f"not wired: {answer}"
    await _act("wire")
    return f"wired {amount}"


async def stumble() -> str:
    """Fail, in the way of a programmer's mistake."""
    leave_a_line("stumble begun")
    while _held("stumble"):
        await asyncio.sleep(0.005)
    raise ValueError("the ground is uneven")


A_MINUTE = 60.0


@midcourse.tool(effect="idempotent")
def nap() -> str:
    """Sleep for a minute in a thread, which nobody can end. The test can."""
    leave_a_line("nap begun")
    until = time.monotonic() + A_MINUTE
    while _held("nap") and time.monotonic() < until:
        time.sleep(0.01)
    leave_a_line("nap done")
    return "rested"


@midcourse.tool(effect="idempotent", run_in="process")
def nap_apart(mark: str) -> str:
    """Sleep for a minute in a process of its own, unless it is done a second time."""
    if Path(mark).exists():
        return "rested apart"
    Path(mark).touch()
    time.sleep(A_MINUTE)
    return "overslept"


ASYNC: dict[str, Callable[..., Any]] = {
    "look": look,
    "note": note,
    "book": book,
    "send": send,
    "wire": wire,
    "stumble": stumble,
}
SYNC: dict[str, Callable[..., Any]] = {"nap": nap, "nap_apart": nap_apart}
TOOLS = (*ASYNC.values(), *SYNC.values())
"""All but ``flush``, which each framework declares itself."""


# ---- what the model says

NOTED = Call("note", {"text": "Rome"})
LOOK = Call("look", {"at": "Rome"})
BOOK = Call("book", {"room": "room 1"})
SEND = Call("send", {"to": "Ann"})
ALL_DONE = Text("All is done.")
LONG = Text("word " * 500, every=0.02)
"""Ten seconds of words, for a stop to cut."""
IN_PARALLEL: tuple[Piece, ...] = (Text("Now all at once. "), LOOK, BOOK, SEND)


def after_a_note(*rounds: Piece | tuple[Piece, ...]) -> Script:
    """A script that has something noted down first, so that there is a finished call that must not be repeated."""
    return replies(NOTED, *rounds)


def says(*pieces: Piece) -> Script:
    """A script that says the same whatever it hears."""
    return lambda _conversation: pieces
