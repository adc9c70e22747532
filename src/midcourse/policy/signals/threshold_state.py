"""Track which thresholds may still lead to a decision: after a notice, a signal has to go back first.

The policy tells how far back, and for how many actions: a value that only wavers about its threshold leads to one
notice.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from midcourse.policy.document import Restraint
from midcourse.policy.observation import Latch
from midcourse.policy.thresholds import Rule, armed, behind, rests

_ADDS_UP = frozenset({"duration", "cost", "budget", "resources", "api_calls", "compute_seconds", "bytes"})
"""Signals that only ever grow in a turn, or whose share begins anew where a budget is set."""


class Latches:
    """The notices of one run, and where its next thresholds are."""

    def __init__(self, restraint: Restraint) -> None:
        self._restraint = restraint
        self.told: dict[tuple[str, str], Latch] = {}
        self.went_back: set[tuple[str, str]] = set()
        self._arms: list[tuple[str, float, bool]] = []
        self._present: list[tuple[str, float, bool]] = []
        self._measured = -1
        self._disarmed: list[tuple[tuple[str, str], float, bool, int]] = []
        self._back_since: dict[tuple[str, str], int] = {}
        self._durations: list[float] = []
        self._ages: list[float] = []
        self._is_past = False

    def arm(self, rules: Sequence[Rule], nearby: Sequence[tuple[str, float]], *, tells_only: bool) -> None:
        """Set the next thresholds: those of the rules that have not had their effect, and what is just short of one."""
        self._arms = armed(rules, self.told, tells_only=tells_only)
        self._arms += [(signal, mark, False) for signal, mark in nearby]
        self._measured = -1
        self._is_past = False
        marks = {
            (rule.signal, stage): (behind(self._restraint, rule, mark), rule.below, rests(self._restraint, rule.signal))
            for rule in rules
            for stage, mark in rule.steps
        }
        self._disarmed = [(key, *marks[key]) for key in self.told if key in marks and key[0] not in _ADDS_UP]
        self._back_since = {key: since for key, since in self._back_since.items() if key in self.told}
        times = {rule.signal: [mark for _, mark in rule.steps] for rule in rules}
        near_times = [mark for signal, mark in nearby if signal == "duration"]
        self._durations = sorted([*times.get("duration", []), *near_times])
        self._ages = times.get("hypothesis", [])

    def forget_what_went_back(self, values: Mapping[str, float], actions: int) -> bool:
        """Forget the notices of signals that have clearly gone back; return True if there was one.

        ``actions`` is how many the turn has had: between two of them, nothing has gone back any longer.
        """
        if not self._disarmed:
            return False
        gone: list[tuple[str, str]] = []
        for key, mark, below, least in self._disarmed:
            value = values.get(key[0])
            if value is None or (value <= mark if below else value >= mark):
                self._back_since.pop(key, None)
            elif actions - self._back_since.setdefault(key, actions) + 1 >= least:
                gone.append(key)
        for key in gone:
            del self.told[key]
            self.went_back.add(key)
        return bool(gone)

    def begin_turn(self) -> None:
        """Begin a turn: count its actions anew, and forget the notices."""
        self._back_since.clear()
        self.went_back.clear()

    def is_past(self, values: Mapping[str, float], shape: int) -> bool:
        """Return True if a value is past its next threshold, so that there may be something to decide.

        ``shape`` is another number whenever other signals have a value.
        """
        if shape != self._measured:  # most signals of a run are never measured, and need not be checked
            self._measured = shape
            self._present = [arm for arm in self._arms if arm[0] in values]
        self._is_past = False
        for signal, mark, below in self._present:
            value = values[signal]
            if value <= mark if below else value >= mark:
                self._is_past = True
                break
        return self._is_past

    def next_time(self, elapsed: float, age: float | None, first_after: float) -> float | None:
        """Return the next threshold of time, in working seconds of the turn; ``age`` is its hypothesis's."""
        place = bisect_right(self._durations, elapsed)
        ahead = self._durations[place : place + 1]
        if age is not None:
            ahead += [elapsed - age + one for one in self._ages if one > age]
        if self._is_past and elapsed < first_after:
            ahead.append(first_after)
        return min(ahead) if ahead else None
