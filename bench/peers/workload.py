"""The work that every peer does: a model of 100 tokens and a tool that acts every 2 ms, with 1 KB of text a step.

A call leaves its moments in this process, where the sessions of every peer run. With a log it also appends its name to
a file, which outlives a kill.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

TICK: Final = 0.002
"""Seconds between two effects of a tool that takes its time."""
PATIENCE: Final = 280.0
"""Seconds after which something that has not happened is an error."""
LOG: Final = "PEERS_LOG"
"""The variable that names the log."""
_HALF: Final = 500
# Text that hardly compresses, so that a store which compresses is not compared by that.
_TEXT: Final = "".join(
    random.Random(7).choices("abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=1 << 20)
)


class Work(msgspec.Struct, frozen=True):
    """What one session does: so many steps, each a model call and a tool call."""

    steps: int
    tool: float = 0.0
    """Seconds that a tool call takes."""
    acts: bool = True
    """Whether the tool acts while it runs; otherwise it sleeps."""
    history: int = 0
    """So many of the first steps have a tool that takes no time."""

    def seconds(self, step: int) -> float:
        """Return how long the tool of a step takes."""
        return 0.0 if step < self.history else self.tool

    def plain(self) -> dict[str, Any]:
        """Return the same as a dictionary, for a framework that wants JSON."""
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Work":
        """Return the work that a dictionary describes."""
        return msgspec.convert(plain, cls)


KILLED: Final = Work(steps=8, tool=0.25, acts=False)
"""What a session does whose process is killed."""


@dataclass
class Trace:
    """The moments of one session's calls."""

    tools: int = 0
    """Tool calls that have begun."""
    effects: list[float] = field(default_factory=list)
    aborted: int = 0
    """Tool calls that were cut."""
    ended: int = 0
    """Tool calls that ran to their end."""
    over: float = 0.0
    """When the last call was cut or ran to its end."""
    first: float = 0.0
    """The first token or the first beginning of a tool since ``rearm``."""

    def rearm(self) -> None:
        """Forget the first moment."""
        self.first = 0.0

    def saw(self) -> float:
        """Note a moment, and return it."""
        moment = time.perf_counter()
        self.first = self.first or moment
        return moment


traces: Final[dict[str, Trace]] = {}


def trace(session: str) -> Trace:
    """Return the trace of a session of this process."""
    return traces.setdefault(session, Trace())


def _log(kind: str, step: int) -> None:
    if path := os.environ.get(LOG):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{time.perf_counter():.6f} {kind} {step} {os.getpid()}\n".encode())
        os.close(descriptor)


class Logged(NamedTuple):
    """A line of the log."""

    moment: float
    kind: str
    step: int
    pid: int


def logged(path: Path) -> list[Logged]:
    """Return what the log holds."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Logged(float(a), b, int(c), int(d)) for a, b, c, d in (line.split() for line in lines)]


def model_text(step: int) -> str:
    """Return what the model says in a step."""
    start = (step * 2 * _HALF) % (len(_TEXT) - 2 * _HALF)
    return _TEXT[start : start + _HALF]


def tool_text(step: int) -> str:
    """Return what the tool returns in a step."""
    start = (step * 2 * _HALF) % (len(_TEXT) - 2 * _HALF) + _HALF
    return _TEXT[start : start + _HALF]


async def model(session: str, step: int) -> str:
    """Say 100 tokens at once."""
    _log("model", step)
    seen = trace(session)
    for _ in range(2):
        await asyncio.sleep(0)
        seen.saw()
    return model_text(step)


async def tool(session: str, step: int, seconds: float, acts: bool) -> str:
    """Act until the time is over."""
    _log("tool", step)
    seen = trace(session)
    seen.tools += 1
    end = seen.saw() + seconds
    try:
        if seconds and not acts:
            await asyncio.sleep(seconds)
        while acts and (left := end - time.perf_counter()) > 0:
            seen.effects.append(time.perf_counter())
            await asyncio.sleep(min(TICK, left))
    except asyncio.CancelledError:
        seen.aborted += 1
        seen.over = time.perf_counter()
        raise
    seen.ended += 1
    seen.over = time.perf_counter()
    _log("done", step)
    return tool_text(step)


async def until(condition: Callable[[], object], what: str, *, every: float = 0.001) -> None:
    """Wait until something of this process is so.

    Raises:
        RuntimeError: it was not in time.
    """
    end = time.perf_counter() + PATIENCE
    while not condition():
        if time.perf_counter() > end:
            raise RuntimeError(f"After {PATIENCE:g} s there was still no {what}.")
        await asyncio.sleep(every)
