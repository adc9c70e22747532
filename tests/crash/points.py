"""Which kill points there are: every call of every scenario, before and after; and every call of some recoveries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from midcourse.testing.killer import When
from tests.crash.scenarios import SCENARIOS
from tests.crash.trial import End, Kill, Point, Rehearsal, rehearse

SECOND_DEATHS: Final[Mapping[str, str]] = {"pause": "put", "cancel": "put", "parking": "take", "plain": "save_snapshot"}
"""Scenarios whose recovery is killed, too; their first life ends after their first call of this kind."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Every kill point, and the end each of them must lead to."""

    points: tuple[Point, ...]
    ends: Mapping[str, End]

    def end_of(self, point: Point) -> End:
        """The end the point must lead to."""
        return self.ends[point.scenario]

    def sample(self, size: int) -> "Plan":
        """A fixed choice of ``size`` points, spread over all."""
        every = len(self.points) / size if size else 1
        chosen = [self.points[int((place + 0.5) * every)] for place in range(min(size, len(self.points)))]
        return Plan(tuple(chosen), self.ends)


Told = Callable[[str], None]


def plan(names: Sequence[str] = tuple(SCENARIOS), *, recoveries: bool = True, tell: Told = lambda _: None) -> Plan:
    """Play each scenario once to count its calls, and its recovery where that is killed as well."""
    points: list[Point] = []
    ends: dict[str, End] = {}
    for name in names:
        whole = rehearse(name)
        ends[name] = whole.end
        points += [Point(name, (kill,)) for kill in _kills(whole)]
        said = f"{name}: {len(whole.calls)} calls"
        if recoveries and name in SECOND_DEATHS:
            call = SECOND_DEATHS[name]
            first = Kill(whole.calls.index(call) + 1, "after", call)
            again = rehearse(name, first)
            points += [Point(name, (first, second)) for second in _kills(again)]
            said += f", and {len(again.calls)} of its recovery"
        tell(said)
    return Plan(tuple(points), ends)


def _kills(rehearsal: Rehearsal) -> Iterator[Kill]:
    for number, call in enumerate(rehearsal.calls, 1):
        for when in get_args(When):
            yield Kill(number, when, call)
