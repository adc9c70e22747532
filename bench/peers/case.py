"""What is measured, and the one protocol through which every peer is measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.peers.workload import Work


@dataclass(frozen=True)
class Figure:
    """One number of a case. Less is better."""

    name: str
    says: str
    unit: str


@dataclass(frozen=True)
class Case:
    """One question, asked of each peer in a process of its own."""

    name: str
    short: str
    says: str
    figures: tuple[Figure, ...]
    size: Mapping[str, int]
    quick: Mapping[str, int]
    """The size of a quick run."""
    rounds: int = 1000
    """Asked in so many rounds at most: some take minutes or gigabytes of some peers."""


_STOP: Final = (Figure("last", "last effect", "ms"), Figure("confirmed", "confirmed", "ms"))

CASES: Final = (
    Case("stop", "Stop", "Stop a tool of 2 s, from its own process", _STOP, {"stops": 40}, {"stops": 5}),
    Case(
        "stop_elsewhere",
        "Stop from outside",
        "Stop a tool of 2 s, from another process",
        _STOP,
        {"stops": 40},
        {"stops": 5},
    ),
    Case(
        "step",
        "Step",
        "A durable step: a model call and a tool call, 1 KB",
        (Figure("step", "a step, of 200", "ms"),),
        {"steps": 200},
        {"steps": 40},
    ),
    Case(
        "sessions",
        "Sessions",
        "1,000 sessions at once, 5 steps each, a tool of 20 ms",
        (Figure("wall", "until the last has ended", "s"),),
        {"sessions": 1000},
        {"sessions": 50},
        rounds=2,
    ),
    Case(
        "resume",
        "Cold resume",
        "Resume a session of 1,000 steps from its store",
        (Figure("first", "until its first new token or call", "ms"),),
        {"history": 1000, "resumes": 5},
        {"history": 50, "resumes": 2},
    ),
    Case(
        "store",
        "2,000 steps",
        "A session of 2,000 steps, 2 MB of texts",
        (Figure("size", "the store afterwards", "MB"), Figure("step", "a step, of 2,000", "ms")),
        {"steps": 2000},
        {"steps": 100},
        rounds=1,
    ),
    Case(
        "recover",
        "kill -9",
        "kill -9 in the fifth tool call, and a new process at once",
        (Figure("first", "until the first effect", "s"),),
        {"kills": 2},
        {"kills": 1},
    ),
    Case(
        "start",
        "Start",
        "Start a Python that imports it",
        (Figure("import", "CPU of the import", "s"), Figure("version", "CPU of its command with --version", "s")),
        {"starts": 3},
        {"starts": 1},
    ),
)
"""The questions, in the order of the report."""


class Stopper(Protocol):
    """What a program in another process can do to sessions."""

    async def stop(self, session: str) -> None:
        """Stop a session, and return when the stop is confirmed."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Peer(Protocol):
    """A framework with its sessions in this process, and its store in a folder.

    A module of a peer has a class ``Peer`` with this shape. For a case that its framework cannot do, the catalogue says
    why, and the methods of that case may be missing.
    """

    folder: Path
    """Where the store is."""

    def __init__(self, folder: Path, variant: str) -> None:
        """Open nothing yet."""
        ...

    async def serve(self) -> None:
        """Start the server that the framework needs, if it needs one."""
        ...

    async def open(self) -> None:
        """Open the store in the folder: a new one, or one that another process has left."""
        ...

    async def close(self) -> None:
        """Close the store, so that it can be opened again; keep the server."""
        ...

    async def stop_serving(self) -> None:
        """Stop the server."""
        ...

    async def start(self, session: str, work: Work) -> None:
        """Start a session."""
        ...

    async def start_stoppable(self, session: str, work: Work) -> None:
        """Start a session in the way that can be stopped, if that is another one."""
        ...

    async def result(self, session: str) -> None:
        """Wait until a session has ended."""
        ...

    async def stop(self, session: str) -> None:
        """Stop a session, and return when the stop is confirmed."""
        ...

    async def elsewhere(self) -> Stopper:
        """Connect, in another process, to sessions that run in the first."""
        ...

    async def stand(self, session: str, history: int) -> None:
        """Bring a new session to a standstill in the store, after so many steps."""
        ...

    async def resume(self, session: str) -> None:
        """Let it continue. The call may return before or after the first new thing."""
        ...

    async def stand_again(self, session: str) -> None:
        """Bring it to the same standstill again."""
        ...

    async def recover(self, session: str) -> None:
        """Continue, in a new process, a session whose process was killed; return at its end."""
        ...
