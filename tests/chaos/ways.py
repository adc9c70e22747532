"""What a round of chaos may do: all of it, unless something is left out."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from midcourse import Settings

FILE: Final = "ways"
READY: Final = "ready"
"""How the line begins that a process says once it has begun."""
LEFT_OUT: Final = ("odd", "leaves", "children", "answers", "halts", "full", "held")
"""What ``--without`` takes."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """For every process of a round; it lies in the round's folder."""

    seed: str
    plant: str = ""
    workers: int = 3
    people: int = 2
    seconds: float = 30.0
    live: int = 20
    """Sessions that people keep alive at a time."""
    every: float = 0.15
    """Seconds between two deeds of a person, on average."""
    fault_every: float = 1.5
    """Seconds between two faults, on average."""
    odd: bool = True
    """Tools raise StopIteration, SystemExit and their like."""
    leaves: bool = True
    """Agents end while a child has hardly begun."""
    children: bool = True
    """People steer children, too."""
    answers: bool = True
    """People answer while faults happen; else at the end only."""
    halts: bool = True
    """An operator throws the kill switch."""
    full: bool = True
    """Stores of workers are full for a while."""
    held: bool = True
    """Another program holds the store's lock for a while."""

    def settings(self) -> Settings:
        """Short, so that much happens in little time."""
        return Settings(park_after=1.0, poll=0.3, cleanup=2.0, undo_timeout=5.0)

    def write(self, folder: Path) -> None:
        """For the processes of the round."""
        (folder / FILE).write_bytes(msgspec.json.encode(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What the round in this folder may do."""
        return cls(**msgspec.json.decode((folder / FILE).read_bytes()))
