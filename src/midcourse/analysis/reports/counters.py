"""Count rates and times over many sessions, for reports and for ``/metrics`` alike. Pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from midcourse.analysis.reports.facts import SessionFacts
from midcourse.analysis.reports.intervals import Range, Verdict, rate
from midcourse.analysis.reports.report import (
    MOST_NAMED,
    Consistency,
    Durations,
    Estimates,
    Outcomes,
    Recoveries,
    Return,
    Spread,
    Times,
)
from midcourse.core.rates import Stopper
from midcourse.policy.signals.calls_left import CallHistory, calls_left
from midcourse.runtime.past_runs import RUNS

CURVE: Final = 20
"""Parts into which the curve of a spread is divided."""
ALWAYS: Final = (1.0, 1.0)
RIGHT_ENOUGH: Final = 0.2
"""Share of what was left by which an estimate of the calls may be wrong."""
OFTEN_ENOUGH: Final = (0.8, 1.0)
"""Share of the runs in which it must be no more."""
_HALF: Final = (0.0, 0.5)


def floats() -> "array[float]":
    """Return an empty list of numbers that takes eight bytes for each."""
    return array("d")


def times(values: Iterable[float], p50: float | None = None, p99: float | None = None) -> Times:
    """Return the figures of a list of seconds, against targets if there are any."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return Times(count=0, target_p50=p50, target_p99=p99)
    slow = [0 if one is None else count - bisect_right(ordered, one) for one in (p50, p99)]
    return Times(
        count=count,
        p50=ordered[(count - 1) // 2],
        p99=ordered[max(0, -(-99 * count // 100) - 1)],
        most=ordered[-1],
        target_p50=p50,
        target_p99=p99,
        verdict_p50="too few to say" if p50 is None else rate(slow[0], count, (0.0, 0.5)).verdict,
        verdict_p99="too few to say" if p99 is None else rate(slow[1], count, (0.0, 0.01)).verdict,
    )


def spread(values: Iterable[float]) -> Spread:
    """Return where values lie, each by its nearest rank."""
    ordered = sorted(values)
    last = len(ordered) - 1
    if last < 0:
        return Spread(count=0)
    found = times(ordered)
    curve = tuple(ordered[round(part * last / CURVE)] for part in range(CURVE + 1))
    return Spread(count=found.count, p50=found.p50, p99=found.p99, most=found.most, curve=curve)


@dataclass(slots=True)
class Shares:
    """Takes in one session's facts after the other. What each figure means is said in ``core/rates.py``."""

    sessions: int = 0
    stopped: int = 0
    stopped_by: "Counter[Stopper]" = field(default_factory=Counter[Stopper])
    ended: int = 0
    completed: int = 0
    right: int = 0
    wrong: int = 0
    cancelled: int = 0
    stopped_ended: int = 0
    stopped_completed: int = 0
    checked: int = 0
    flaws: dict[str, str] = field(default_factory=dict[str, str])
    flawed: int = 0
    recovered: "Counter[tuple[str, bool | None]]" = field(default_factory=Counter[tuple[str, bool | None]])
    automatic: int = 0
    valued: int = 0
    worth: float = 0.0
    cost: float = 0.0
    worked: "array[float]" = field(default_factory=floats)
    declared_worked: "array[float]" = field(default_factory=floats)
    token_rates: "array[float]" = field(default_factory=floats)

    def count(self, facts: SessionFacts) -> None:
        self.sessions += 1
        self.stopped += facts.was_stopped
        self.stopped_by.update(facts.stopped_by)
        self.ended += bool(facts.outcome)
        self.completed += facts.outcome == "completed"
        self.cancelled += facts.outcome == "cancelled"
        if facts.was_stopped and facts.outcome in ("completed", "failed"):
            self.stopped_ended += 1
            self.stopped_completed += facts.outcome == "completed"
        if facts.outcome == "completed":
            self.worked.append(facts.worked)
            if facts.is_class_declared:
                self.declared_worked.append(facts.worked)
        self.token_rates.extend(facts.token_rates)
        self.recovered.update((one.after, one.worked) for one in facts.recoveries)
        self.checked += facts.flaw is not None
        if facts.flaw:
            self.add_flaw(facts.id, facts.flaw)
        for one in facts.judged:
            self.right += one.label == "right"
            self.wrong += one.label == "wrong"
        for one in facts.interruptions:
            self.automatic += one.is_by_policy
            if one.is_by_policy and one.expected is not None and one.cost is not None:
                self.valued += 1
                self.worth += 0.0 if one.label == "wrong" else one.expected.avoided
                self.cost += one.cost

    def add_flaw(self, session: str, why: str) -> None:
        """Count a session whose journal does not come to what the store has of it; some are named."""
        self.flawed += 1
        if len(self.flaws) < MOST_NAMED:
            self.flaws[session] = why

    @property
    def interruption(self) -> float | None:
        """None while there is no session."""
        return _share(self.stopped, self.sessions)

    @property
    def interruption_by(self) -> Mapping[str, float]:
        """The rate by source; those who stopped nothing are left out."""
        return {one: count / self.sessions for one, count in self.stopped_by.items() if self.sessions}

    @property
    def completion(self) -> float | None:
        """None while none has ended."""
        return _share(self.completed, self.ended)

    @property
    def false_positives(self) -> float | None:
        """The false-positive rate; None before the first label of right or wrong."""
        return _share(self.wrong, self.right + self.wrong)

    def durations(self, allowed: tuple[float, float | None] | None) -> Durations:
        """Return how long runs worked, against the range of their class."""
        ordered = sorted(self.declared_worked)
        count = len(ordered)
        low, high = allowed or (0.0, None)
        short = bisect_left(ordered, low)
        long = 0 if high is None else count - bisect_right(ordered, high)
        verdicts: tuple[Verdict, Verdict] = ("too few to say", "too few to say")
        if allowed is not None:
            verdicts = (rate(short, count, _HALF).verdict, rate(long, count, _HALF).verdict)
        verdict: Verdict = (
            "below"
            if verdicts[0] == "above"
            else "above"
            if verdicts[1] == "above"
            else "kept"
            if verdicts == ("kept", "kept")
            else "too few to say"
        )
        inside = rate(count - short - long, count) if allowed is not None else rate(0, 0)
        return Durations(worked=spread(self.worked), range=allowed, inside=inside, verdict=verdict)

    def outcomes(self, target: Range | None = None) -> Outcomes:
        """Return how many completed of those that were stopped, and of those that were not."""
        stopped = rate(self.stopped_completed, self.stopped_ended, target)
        ended = self.ended - self.cancelled
        others = rate(self.completed - self.stopped_completed, ended - self.stopped_ended, target)
        known = stopped.share is not None and others.share is not None
        return Outcomes(
            stopped=stopped,
            unstopped=others,
            difference=(stopped.share or 0.0) - (others.share or 0.0) if known else None,
            cancelled=self.cancelled,
        )

    def recoveries(self) -> Recoveries:
        """Return how often sessions continued that were to."""

        def of(*after: str) -> tuple[int, int]:
            worked = sum(self.recovered[one, True] for one in after)
            return worked, worked + sum(self.recovered[one, False] for one in after)

        return Recoveries(
            all=rate(*of("stop", "loss"), ALWAYS),
            after_stop=rate(*of("stop"), ALWAYS),
            after_loss=rate(*of("loss"), ALWAYS),
            open=self.recovered["stop", None] + self.recovered["loss", None],
        )

    def consistency(self, unreadable: Mapping[str, str]) -> Consistency:
        """Return how many journals come to what the store has of them; those that cannot be read do not."""
        of = self.checked + len(unreadable)
        named = dict(list({**unreadable, **self.flaws}.items())[:MOST_NAMED])
        return Consistency(sessions=rate(self.checked - self.flawed, of, ALWAYS), flaws=named)

    def returns(self) -> Return:
        """Return what automatic interventions brought above what they cost."""
        roi = (self.worth - self.cost) / self.cost if self.valued and self.cost else None
        return Return(roi=roi, worth=self.worth, cost=self.cost, counted=self.valued, of=self.automatic)


class Remaining:
    """Holds the estimate of an agent's remaining calls against what its runs then needed, as it was at half of each."""

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[float, float, int]]] = {}

    def add(self, facts: SessionFacts) -> None:
        """Take in a run, if it is one that estimates rest on: of one turn, and completed."""
        if facts.outcome == "completed" and facts.turns == 1 and facts.calls and facts.ended is not None:
            self._runs.setdefault(facts.agent, []).append((facts.started, facts.ended, facts.calls))

    def estimates(self) -> Estimates:
        """Return how often the estimate was right."""
        errors = [error for runs in self._runs.values() for error in _errors(runs)]
        known = sorted(error for error in errors if error is not None)
        right = bisect_right(known, RIGHT_ENOUGH + 1e-9)
        middle = known[(len(known) - 1) // 2] if known else None
        return Estimates(
            within=rate(right, len(known), OFTEN_ENOUGH), known=rate(len(known), len(errors)), error=middle
        )


def _errors(runs: list[tuple[float, float, int]]) -> Iterable[float | None]:
    """Yield each run's error as a share of the rest, by the runs that had ended when it began."""
    ended = sorted((end, calls) for _, end, calls in runs)
    for started, _, calls in runs:
        before = [count for _, count in ended[: bisect_left(ended, (started, 0))]][-RUNS:]
        made = calls // 2
        left = calls_left(made, CallHistory(calls=tuple(sorted(before))))
        yield None if left is None else abs(left - (calls - made)) / (calls - made)


def _share(part: int, of: int) -> float | None:
    return part / of if of else None
