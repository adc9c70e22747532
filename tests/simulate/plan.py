"""What is done in a run: a list of deeds, each with its time and its own chance, so that one can be left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

COMMANDS: Final = {
    "start": 5,
    "pause": 5,
    "resume": 4,
    "redirect": 3,
    "cancel": 2,
    "message": 1,
    "answer": 5,
    "undo": 1,
    "family": 5,
    "halt": 1,
}
FAULTS: Final = {"kill": 5, "stop": 2, "term": 2, "power": 1, "full": 2, "lossy": 2, "slow": 1}
MORE: Final = {
    "damage": 4,
    "unreadable": 2,
    "held": 2,
    "clock": 3,
    "controller": 1,
    "emergency": 3,
    "term": 4,
    "power": 1,
    "force": 1,
    "budget": 1,
    "event": 1,
}
"""Drawn by a chance of their own: what a seed did before these were there, it does still."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that a person, or fate, does. ``seed`` is where its details come from."""

    at: float
    what: str
    seed: str

    def chance(self) -> Random:
        """For its details."""
        return Random(self.seed)

    def __str__(self) -> str:
        return f"{self.at:7.3f} {self.what} ({self.seed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run: its seed, its workers and what is done."""

    seed: int
    workers: int
    odd: bool
    deeds: Sequence[Deed]
    wide: bool = False
    """Tools that are tried again, cost money or raise ``KeyboardInterrupt``, and agents with a budget or protected."""
    forgets: bool = False
    """What the disk takes is there after the end of a process, and perhaps not after the power has failed."""


def plan_of(seed: int, *, without: frozenset[str] = frozenset()) -> Plan:
    """The plan that a seed stands for. ``without`` leaves kinds of deeds out."""
    chance = Random(f"{seed} plan")
    seconds = chance.choice((2.0, 5.0, 12.0))
    commands, faults = chance.randint(2, 14), chance.choice((0, 1, 1, 2, 4))
    kinds = ["start", *chance.choices(tuple(COMMANDS), tuple(COMMANDS.values()), k=commands)]
    times = [0.0, *sorted(chance.uniform(0, seconds) for _ in range(commands))]
    made = [Deed(at, what, f"{seed}/{number}") for number, (at, what) in enumerate(zip(times, kinds, strict=True))]
    for number in range(faults):
        what = chance.choices(tuple(FAULTS), tuple(FAULTS.values()))[0]
        made.append(Deed(chance.uniform(0, seconds), what, f"{seed}/fault {number}"))
    workers, odd = chance.randint(1, 2), "odd" not in without and chance.random() < 0.3
    more = Random(f"{seed} more")
    wide, forgets = more.random() < 0.5, more.random() < 0.3
    for number in range(more.choice((0, 0, 1, 1, 2, 3))):
        what = more.choices(tuple(MORE), tuple(MORE.values()))[0]
        made.append(Deed(more.uniform(0, seconds), what, f"{seed}/more {number}"))
    kept = sorted((one for one in made if one.what not in without), key=lambda one: one.at)
    return Plan(seed=seed, workers=workers, odd=odd, deeds=kept, wide=wide, forgets=forgets)
