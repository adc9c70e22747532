"""The state of a run: each signal beside its thresholds, and its course. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

Unit = Literal["seconds", "dollars", "share", "count", "times", "bytes", "of 1"]
"""The unit of a signal's number; a ``share`` is shown in per cent, ``of 1`` as it is."""
Past = Literal["warn", "intervene", "stop"]
MOST_POINTS: Final = 200
"""Points of a signal's history, at most."""
Point = tuple[float, float]
"""A time and a value."""

TITLES: Final[Mapping[str, tuple[str, Unit]]] = {
    "duration": ("Turn duration", "seconds"),
    "cost": ("Cost", "dollars"),
    "cost.per_action": ("Cost of an action", "dollars"),
    "cost.acceleration": ("Cost against before", "times"),
    "budget": ("Budget spent", "share"),
    "errors": ("Errors", "share"),
    "errors.streak": ("Failures in a row", "count"),
    "scope_drift": ("Distance from goal", "of 1"),
    "scope_drift.alignment": ("Distance from hypothesis", "of 1"),
    "resources": ("Resources touched", "count"),
    "token_rate": ("Tokens against its average", "share"),
    "calls_left": ("Calls left, of the estimate", "share"),
    "hypothesis": ("Hypothesis unchanged", "seconds"),
    "scope.expansion": ("Spread over domains", "times"),
    "scope.new_domain": ("Changes in new domains", "count"),
    "loops": ("Repeats without progress", "count"),
    "api_calls": ("Requests", "count"),
    "compute_seconds": ("Time in calls", "seconds"),
    "bytes": ("Bytes moved", "bytes"),
    "own_artifacts": ("Own artifacts used", "count"),
    "risk": ("Combined risk", "of 1"),
}
"""Every signal as people read it, and its unit."""


class Signal(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One signal. ``value`` is None while nothing has measured it; ``unseen`` then says why, or what is missing of it.

    ``warn``, ``intervene`` and ``stop`` are the thresholds that its policy has for it; for money, ``intervene`` is the
    next milestone. ``below``: the less the worse. ``past`` is the gravest that it is past now, ``since`` when.
    """

    name: str
    title: str
    unit: Unit
    value: float | None = None
    warn: float | None = None
    intervene: float | None = None
    stop: float | None = None
    below: bool = False
    past: Past | None = None
    since: float | None = None
    unseen: str | None = None
    history: tuple[Point, ...] = ()


class Signals(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The signals of a session, from its journal up to ``position``. An empty ``policy``: it has none."""

    policy: str
    task_class: str
    position: int
    at: float
    signals: tuple[Signal, ...]


class Curve:
    """The course of one signal, in bounded memory. The same points in the same order make the same curve."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: list[Point] = []

    def add(self, at: float, value: float) -> None:
        points = self._points
        if len(points) > 1 and points[-1][1] == value == points[-2][1]:
            points[-1] = (at, value)  # it stays where it was: two points say so
            return
        points.append((at, value))
        if len(points) > 2 * MOST_POINTS:
            self._points = thinned(points, MOST_POINTS)

    def shown(self, *more: Point) -> tuple[Point, ...]:
        """Return the points, with the newest."""
        points = [*self._points, *more]
        return tuple(thinned(points, MOST_POINTS) if len(points) > MOST_POINTS else points)


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many of them: the first, the last, and of each stretch of time the lowest and the highest."""
    if len(points) <= most:
        return list(points)
    (start, _), (end, _) = points[0], points[-1]
    stretches = max(1, (most - 2) // 2)
    width = (end - start) / stretches or 1.0
    lowest: dict[int, int] = {}
    highest: dict[int, int] = {}
    for index in range(1, len(points) - 1):
        at, value = points[index]
        # A clock that was put back must not make more stretches.
        stretch = int(min(stretches - 1, max(0.0, (at - start) / width)))
        if stretch not in lowest or value < points[lowest[stretch]][1]:
            lowest[stretch] = index
        if stretch not in highest or value > points[highest[stretch]][1]:
            highest[stretch] = index
    kept = sorted({*lowest.values(), *highest.values()})
    return [points[0], *(points[index] for index in kept), points[-1]]
