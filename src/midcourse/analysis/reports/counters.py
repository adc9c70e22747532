"""Count rates and times over sessions, for reports and for ``/metrics`` alike. Pure."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from midcourse.analysis.reports.facts import SessionFacts
from midcourse.analysis.reports.intervals import Proportion, Range, Verdict, rate
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


def times(values: Iterable[float | None], p50: float | None = None, p99: float | None = None) -> Times:
    """Return the figures of seconds, as far as they are known, against targets if there are any."""
    ordered = sorted(value for value in values if value is not None)
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


class Shares:
    """The rates of some sessions. What each figure means is said in ``core/rates.py``."""

    def __init__(self, sessions: Iterable[SessionFacts]) -> None:
        self.all = tuple(sessions)
        self._ended = [one for one in self.all if one.outcome]

    @property
    def stopped_by(self) -> Counter[Stopper]:
        """The number of stopped sessions by who stopped them; one that several stopped is in each."""
        return Counter(stopper for one in self.all for stopper in one.stopped_by)

    @property
    def token_rates(self) -> list[float]:
        return [tokens for one in self.all for tokens in one.token_rates]

    @property
    def worked(self) -> list[float]:
        """The working times of those that completed."""
        return [one.worked for one in self.all if one.outcome == "completed"]

    def interrupted(self, target: Range | None = None) -> Proportion:
        return rate(sum(one.was_stopped for one in self.all), len(self.all), target)

    def completed(self, target: Range | None = None) -> Proportion:
        return rate(sum(one.outcome == "completed" for one in self._ended), len(self._ended), target)

    def false_positives(self) -> Proportion:
        labels = [made.label for one in self.all for made in one.judged if made.is_labelled]
        return rate(labels.count("wrong"), len(labels))

    def durations(self, allowed: tuple[float, float | None] | None) -> Durations:
        """Return how long runs worked, against the range of their class."""
        ordered = sorted(one.worked for one in self.all if one.outcome == "completed" and one.is_class_declared)
        count, (low, high) = len(ordered), allowed or (0.0, None)
        short = bisect_left(ordered, low)
        long = 0 if high is None else count - bisect_right(ordered, high)
        verdict: Verdict = "too few to say"
        if allowed is not None:
            verdicts = rate(short, count, _HALF).verdict, rate(long, count, _HALF).verdict
            if "above" in verdicts:
                verdict = "below" if verdicts[0] == "above" else "above"
            elif verdicts == ("kept", "kept"):
                verdict = "kept"
        inside = rate(count - short - long, count) if allowed is not None else rate(0, 0)
        return Durations(worked=spread(self.worked), range=allowed, inside=inside, verdict=verdict)

    def outcomes(self, target: Range | None = None) -> Outcomes:
        """Return how many completed of those that were stopped, and of those that were not."""
        stopped, others = (
            Shares(one for one in self._ended if one.was_stopped is was and one.outcome != "cancelled").completed(
                target
            )
            for was in (True, False)
        )
        known = stopped.share is not None and others.share is not None
        return Outcomes(
            stopped=stopped,
            unstopped=others,
            difference=(stopped.share or 0.0) - (others.share or 0.0) if known else None,
            cancelled=sum(one.outcome == "cancelled" for one in self._ended),
        )

    def recoveries(self) -> Recoveries:
        """Return how often sessions continued that were to."""
        counts = Counter((one.after, one.worked) for facts in self.all for one in facts.recoveries)

        def of(*after: str) -> Proportion:
            worked, not_worked = (sum(counts[one, did] for one in after) for did in (True, False))
            return rate(worked, worked + not_worked, ALWAYS)

        return Recoveries(
            all=of("stop", "loss"),
            after_stop=of("stop"),
            after_loss=of("loss"),
            open=counts["stop", None] + counts["loss", None],
        )

    def consistency(self, unreadable: Mapping[str, str]) -> Consistency:
        """Return how many journals come to what the store has of them; those that cannot be read do not."""
        flaws = [one.flaw for one in self.all if one.flaw is not None]
        of = len(flaws) + len(unreadable)
        named = {**unreadable, **{one.id: one.flaw for one in self.all if one.flaw}}
        return Consistency(sessions=rate(flaws.count(""), of, ALWAYS), flaws=dict(list(named.items())[:MOST_NAMED]))

    def returns(self) -> Return:
        """Return what automatic interventions brought above what they cost."""
        automatic = [made for one in self.all for made in one.interruptions if made.is_by_policy]
        valued = [
            (0.0 if made.label == "wrong" else made.expected.avoided, made.cost)
            for made in automatic
            if made.expected is not None and made.cost is not None
        ]
        worth, cost = (sum((one[at] for one in valued), 0.0) for at in (0, 1))
        roi = (worth - cost) / cost if cost else None
        return Return(roi=roi, worth=worth, cost=cost, counted=len(valued), of=len(automatic))

    def estimates(self) -> Estimates:
        """Hold the estimate of an agent's remaining calls against what its runs then needed, at half of each.

        Runs that estimates rest on are of one turn, and completed.
        """
        runs: dict[str, list[tuple[float, float, int]]] = {}
        for one in self.all:
            if one.outcome == "completed" and one.turns == 1 and one.calls and one.ended is not None:
                runs.setdefault(one.agent, []).append((one.started, one.ended, one.calls))
        errors = [error for of in runs.values() for error in _errors(of)]
        known = sorted(error for error in errors if error is not None)
        right = bisect_right(known, RIGHT_ENOUGH + 1e-9)
        return Estimates(
            within=rate(right, len(known), OFTEN_ENOUGH),
            known=rate(len(known), len(errors)),
            error=known[(len(known) - 1) // 2] if known else None,
        )


def _errors(runs: list[tuple[float, float, int]]) -> Iterator[float | None]:
    """Yield each run's error as a share of the rest, by the runs that had ended when it began."""
    ended = sorted((end, calls) for _, end, calls in runs)
    for started, _, calls in runs:
        before = [count for _, count in ended[: bisect_left(ended, (started, 0))]][-RUNS:]
        made = calls // 2
        left = calls_left(made, CallHistory(calls=tuple(sorted(before))))
        yield None if left is None else abs(left - (calls - made)) / (calls - made)
