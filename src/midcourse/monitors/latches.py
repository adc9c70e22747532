"""Which thresholds may still lead to a decision: one that was told of waits until its signal has gone back."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from midcourse.core.policy.evaluation import Rule, armed
from midcourse.core.policy.observed import Latch

_CLEARLY = 0.8
"""Of a threshold: what has come back behind it only just may be past it again with the next act."""
_ADDS_UP = frozenset({"duration", "cost", "budget", "resources", "api_calls", "compute_seconds", "bytes"})
"""Signals that only ever grow in a turn, or whose share begins anew where a budget is set."""


class Latches:
    """What was told of one run, and where its next thresholds are."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], Latch] = {}
        self._arms: list[tuple[str, float, bool]] = []
        self._present: list[tuple[str, float, bool]] = []
        self._measured = -1
        self._disarmed: list[tuple[tuple[str, str], float, bool]] = []
        self._durations: list[float] = []
        self._ages: list[float] = []
        self._is_past = False

    def arm(self, rules: Sequence[Rule], nearby: Sequence[tuple[str, float]], *, tells_only: bool) -> None:
        """Set the next thresholds: those of the rules that have not had their effect, and what is just short of one."""
        self._arms = armed(rules, self.told, tells_only=tells_only)
        self._arms += [(signal, mark, False) for signal, mark in nearby]
        self._measured = -1
        self._is_past = False
        marks = {(rule.signal, stage): (mark, rule.below) for rule in rules for stage, mark in rule.steps}
        self._disarmed = [(key, *marks[key]) for key in self.told if key in marks and key[0] not in _ADDS_UP]
        times = {rule.signal: [mark for _, mark in rule.steps] for rule in rules}
        near_times = [mark for signal, mark in nearby if signal == "duration"]
        self._durations = sorted([*times.get("duration", []), *near_times])
        self._ages = times.get("hypothesis", [])

    def forget_what_went_back(self, values: Mapping[str, float]) -> bool:
        """A signal that has gone back behind its threshold counts anew the next time. Says whether one has."""
        if not self._disarmed:
            return False
        back = [
            key
            for key, mark, below in self._disarmed
            if (value := values.get(key[0])) is not None
            and (value * _CLEARLY > mark if below else value < mark * _CLEARLY)
        ]
        for key in back:
            del self.told[key]
        return bool(back)

    def is_past(self, values: Mapping[str, float]) -> bool:
        """Whether a value is past its next threshold, so that there may be something to decide."""
        if len(values) != self._measured:  # most signals of a run are never measured, and need not be looked at
            self._measured = len(values)
            self._present = [arm for arm in self._arms if arm[0] in values]
        self._is_past = False
        for signal, mark, below in self._present:
            value = values[signal]
            if value <= mark if below else value >= mark:
                self._is_past = True
                break
        return self._is_past

    def next_time(self, elapsed: float, age: float | None, first_after: float) -> float | None:
        """The next threshold of time, in working seconds of the turn; ``age`` is its hypothesis's."""
        place = bisect_right(self._durations, elapsed)
        ahead = self._durations[place : place + 1]
        if age is not None:
            ahead += [elapsed - age + one for one in self._ages if one > age]
        if self._is_past and elapsed < first_after:
            ahead.append(first_after)
        return min(ahead) if ahead else None
