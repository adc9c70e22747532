"""Which kill points there are: every call of every scenario, before and after it and,
if it writes, between the parts of its commit; and every call of some recoveries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from tests.crash.scenarios import SCENARIOS
from tests.crash.trial import End, Failed, Kill, Point, Rehearsal, Verdict, rehearse
from tests.crash.within import WRITES, Moment

SECOND_DEATHS: Final[Mapping[str, str]] = {
    "pause": "put",
    "cancel": "put",
    "parking": "take",
    "plain": "save_snapshot",
    "undo": "put",
    "undo-ended": "put",
    "hold": "put",
    "history": "put",
    "held-pydantic": "put",
    "held-langgraph": "put",
}
"""Scenarios whose recovery is killed, too; their first life ends after their first call of this kind."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Every kill point, the end each of them must lead to, and the scenarios that fail without being killed."""

    points: tuple[Point, ...]
    ends: Mapping[str, End]
    failed: tuple[Verdict, ...] = ()

    def end_of(self, point: Point) -> End:
        """The end the point must lead to."""
        return self.ends[point.scenario]

    def sample(self, size: int) -> "Plan":
        """A fixed choice of ``size`` kill points, spread over all, and the runs that nobody kills."""
        unharmed = [point for point in self.points if not point.kills]
        deadly = [point for point in self.points if point.kills]
        size = min(size, len(deadly))
        chosen = [deadly[int((place + 0.5) * len(deadly) / size)] for place in range(size)]
        return replace(self, points=(*unharmed, *chosen))


Told = Callable[[str], None]


def plan(names: Sequence[str] = tuple(SCENARIOS), *, recoveries: bool = True, tell: Told = lambda _: None) -> Plan:
    """Play each scenario once to count its calls, and its recovery where that is killed as well."""
    points: list[Point] = []
    ends: dict[str, End] = {}
    failed: list[Verdict] = []
    for name in names:
        try:
            whole = rehearse(name)
        except Failed as failure:
            failed.append(Verdict(point=Point(name, ()), different=(str(failure),)))
            continue
        ends[name] = whole.end
        # First of all without a kill: what goes wrong then would go wrong in every comparison, unseen.
        points += [Point(name, ()), *(Point(name, (kill,)) for kill in _kills(whole))]
        said = f"{name}: {len(whole.calls)} calls"
        if recoveries and name in SECOND_DEATHS:
            call = SECOND_DEATHS[name]
            first = Kill(whole.calls.index(call) + 1, "after", call)
            try:
                again = rehearse(name, first)
            except Failed as failure:
                failed.append(Verdict(point=Point(name, (first,)), different=(str(failure),)))
                continue
            points += [Point(name, (first, second)) for second in _kills(again)]
            said += f", and {len(again.calls)} of its recovery"
        tell(said)
    return Plan(tuple(points), ends, tuple(failed))


def _kills(rehearsal: Rehearsal) -> Iterator[Kill]:
    for number, call in enumerate(rehearsal.calls, 1):
        for when in get_args(Moment):
            if when != "within" or call in WRITES:
                yield Kill(number, when, call)
