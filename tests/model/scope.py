"""Promise 4 against checkpoints: is a step whose result is journaled ever executed again after a cold resume?

A `state` agent runs step a, takes its checkpoint, runs step b and ends. The owner may park (which writes a snapshot),
die, and find the newest checkpoint damaged (promise 9: it then uses the one before). A step is found in the journal by
(scope, name).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

PROGRAM: Final = ("a", "checkpoint", "b")
Scope = str | tuple["Scope", int]
Point = tuple[Scope, int]
"""Where one can start from: a scope, and the next step."""


class Reading(NamedTuple):
    """What "checkpoint scope" may mean."""

    snapshot_opens_scope: bool
    named_by_position: bool


READINGS: Final = (Reading(True, True), Reading(False, False), Reading(False, True))
"""The last is the design's."""


class State(NamedTuple):
    """A session and its journal."""

    journal: tuple[tuple[Scope, str], ...] = ()
    """(scope, step) of every finished step."""
    points: tuple[Point, ...] = (("top", 0),)
    """What one can start from, oldest first."""
    damaged: bool = False
    """The newest point cannot be read."""
    at: Point | None = ("top", 0)
    """Where the running coroutine is."""
    parks: int = 1
    deaths: int = 1
    damages: int = 1
    fresh: int = 0
    runs: tuple[str, ...] = ()


def moves(s: State, reading: Reading) -> Iterator[tuple[str, State]]:
    """What can happen next."""
    if s.at is None:
        if s.damages and not s.damaged and len(s.points) > 1:
            yield "the newest checkpoint is damaged", s._replace(damaged=True, damages=s.damages - 1)
        at = s.points[-2 if s.damaged else -1]
        points = s.points[:-1] if s.damaged else s.points
        yield f"cold resume from checkpoint {at[0]}", s._replace(at=at, points=points, damaged=False)
        return
    scope, n = s.at
    if s.deaths:
        yield "the worker is killed", s._replace(at=None, deaths=s.deaths - 1)
    if n == len(PROGRAM):
        return
    op = PROGRAM[n]
    if op == "checkpoint":
        # By position: the n-th checkpoint of its parent scope. Otherwise as a random or journal-position id would be.
        new: Scope = (scope, n) if reading.named_by_position else ("id", s.fresh)
        points = (*(p for p in s.points if p[0] != new), (new, n + 1))
        yield "run.checkpoint", s._replace(at=(new, n + 1), points=points, fresh=s.fresh + 1)
    elif (scope, op) in s.journal:
        yield f"step {op} returns its journaled result", s._replace(at=(scope, n + 1))
    else:
        t = s._replace(at=(scope, n + 1), journal=(*s.journal, (scope, op)), runs=(*s.runs, op))
        yield f"step {op} is executed and journaled", t
    if s.parks:
        t = s._replace(at=None, parks=s.parks - 1)
        if reading.snapshot_opens_scope:
            # The snapshot becomes what the agent starts from, but its own state is that of its last checkpoint.
            base = max((p for p in s.points if p[0] == scope), default=s.points[-1], key=lambda p: p[1])
            t = t._replace(points=(*s.points, (("snapshot", s.fresh), base[1])), fresh=s.fresh + 1)
        yield "the session parks (a snapshot is written)", t


def search(reading: Reading) -> tuple[int, tuple[str, ...] | None]:
    """How many states there are, and the shortest way to a step that is executed again."""
    start = State()
    todo: deque[tuple[State, tuple[str, ...]]] = deque([(start, ())])
    seen = {start}
    while todo:
        s, trace = todo.popleft()
        if len(set(s.runs)) < len(s.runs):
            return len(seen), trace
        for text, t in moves(s, reading):
            if t not in seen:
                seen.add(t)
                todo.append((t, (*trace, text)))
    return len(seen), None
