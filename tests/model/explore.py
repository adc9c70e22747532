"""Breadth-first search over every reachable state, exact, with the shortest trace to each violation.

A state is cut into four parts; each part is numbered when it is first seen, and a state is kept as its four numbers, so
that a few million fit into 1 GB. Progress (I10) is checked on the graph of fair moves: it must have no cycle, and each
of its sinks must be at rest. Then every fair run, once the world has stopped throwing faults, ends at rest.
"""

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from tests.model.invariants import broken, resting
from tests.model.rules import Bounds, Rules
from tests.model.session import moves
from tests.model.state import State, initial

_KEY = Struct("4I")
_CALLS, _WORKERS, _REST = (State._fields.index(name) for name in ("js", "w", "api"))


@dataclass
class Result:
    """What a search found."""

    states: int = 0
    moves: int = 0
    seconds: float = 0.0
    complete: bool = False
    found: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Each violation, with the sentences that lead to it."""


class Part:
    """Numbers for the values of one part of a state."""

    def __init__(self) -> None:
        self.number: dict[tuple[Any, ...], int] = {}
        self.values: list[tuple[Any, ...]] = []

    def of(self, value: tuple[Any, ...]) -> int:
        """The number of this value, a new one if need be."""
        n = self.number.get(value)
        if n is None:
            n = self.number[value] = len(self.values)
            self.values.append(value)
        return n


class Packing:
    """States as 16 bytes."""

    def __init__(self) -> None:
        self.parts = (Part(), Part(), Part(), Part())

    def pack(self, s: State) -> bytes:
        """The key of a state."""
        a, b, c, d = self.parts
        return _KEY.pack(a.of(s[:_CALLS]), b.of(s[_CALLS:_WORKERS]), c.of(s[_WORKERS:_REST]), d.of(s[_REST:]))

    def unpack(self, key: bytes) -> State:
        """The state of a key."""
        a, b, c, d = self.parts
        i, j, k, n = _KEY.unpack(key)
        return State(*a.values[i], *b.values[j], *c.values[k], *d.values[n])


def explore(rules: Rules, bounds: Bounds, *, limit: int = 3_000_000, progress: bool = True) -> Result:
    """Visit every state, up to the limit. ``progress``: look for cycles of fair moves too."""
    began, res = time.monotonic(), Result()
    packing = Packing()
    first = packing.pack(initial(bounds))
    seen, keys, parent, text_of = {first: 0}, [first], array("i", [-1]), [""]
    fair_from, fair_to = array("I"), array("I")
    sentences: dict[str, str] = {}

    def trace(n: int) -> list[str]:
        lines: list[str] = []
        while n > 0:
            lines.append(text_of[n])
            n = parent[n]
        return lines[::-1]

    def report(bad: Sequence[str], n: int, *last: str) -> None:
        for name in bad:
            if name not in res.found:
                res.found[name] = [*trace(n), *last]

    n = 0
    while n < len(keys) <= limit:
        s = packing.unpack(keys[n])
        owes = False
        for text, fair, t, bad in moves(s, rules, bounds):
            res.moves += 1
            if bad:
                report(bad, n, text)
            key = packing.pack(t)
            m = seen.get(key)
            if m is None:
                m = seen[key] = len(keys)
                keys.append(key)
                parent.append(n)
                text_of.append(sentences.setdefault(text, text))
                report(broken(t, bounds), m)
            if fair and m != n:
                owes = True
                if progress:
                    fair_from.append(n)
                    fair_to.append(m)
        if not owes and not resting(s, bounds):
            why = "undecided command" if any(row.outcome == "" for row in s.inbox) else f"status {s.status}"
            report([f"I10 nobody has anything left to do, but: {why}"], n)
        n += 1
    res.states, res.complete = len(keys), n == len(keys)
    if progress and res.complete:
        on_cycle = cycle(len(keys), fair_from, fair_to)
        if on_cycle is not None:
            report(["I10 a cycle of fair moves"], on_cycle)
    res.seconds = time.monotonic() - began
    return res


def cycle(count: int, sources: Sequence[int], targets: Sequence[int]) -> int | None:
    """A state on a cycle of the fair moves, or None (Kahn's algorithm)."""
    into = array("I", bytes(4 * count))
    for target in targets:
        into[target] += 1
    start = array("I", bytes(4 * (count + 1)))
    for source in sources:
        start[source + 1] += 1
    for i in range(count):
        start[i + 1] += start[i]
    todo, left = [i for i in range(count) if not into[i]], count
    # edges were written in order of their source, so start[] indexes `targets` directly
    while todo:
        i = todo.pop()
        left -= 1
        for edge in range(start[i], start[i + 1]):
            target = targets[edge]
            into[target] -= 1
            if not into[target]:
                todo.append(target)
    return next((i for i in range(count) if into[i]), None) if left else None
