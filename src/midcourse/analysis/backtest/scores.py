"""Score a policy's verdicts: per source, per class and in all, with intervals; unknown figures are null.

Rates are over runs whose outcome is known. Savings are counted on failed runs alone, as a share of what they took.
Intervals hold 95 %: tasks (not runs, for runs of one task are alike) are drawn again and again, with a fixed seed.
Where no task shows a thing, or each does, no draw differs: there the rule of three is used.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import shake_128
from operator import itemgetter
from statistics import median
from struct import unpack
from typing import Final

import msgspec

from midcourse.analysis.backtest.replay import Verdict

RESAMPLES: Final = 1000
SHORT_MINUTES: Final = 0.5
MEDIUM_MINUTES: Final = 5.0
"""Up to where a run is of the class ``short`` or ``medium``, if none was declared."""
NO_CLASS: Final = "unknown"
Interval = tuple[float, float]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one group of runs. A rate that could not be measured is None, and ``unmeasured`` says why.

    ``before_decisive`` is the share of interventions at or before the step that the run failed by, where that is known;
    ``decisive_distance`` how many steps after it the middle one came. ``warnings`` is per run.
    """

    runs: int
    failures: int
    successes: int
    unknown: int
    interventions: int
    failures_stopped: int
    successes_stopped: int
    levels: Mapping[str, int]
    signals: Mapping[str, Mapping[str, int]]
    """The gravest reason of interventions: how many by each signal, and in which runs."""
    recall: float | None
    false_positive_rate: float | None
    precision: float | None
    steps_saved: float | None
    minutes_saved: float | None
    dollars_saved: float | None
    before_decisive: float | None
    decisive_distance: float | None
    warnings: float | None
    totals: Mapping[str, float | None]
    """Of the failed runs: what they took, and what of it would have been saved."""
    intervals: Mapping[str, Interval]
    unmeasured: Mapping[str, str]


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    sources: Mapping[str, Score]
    classes: Mapping[str, Score]
    all: Score


class _Rate(msgspec.Struct, frozen=True):
    """A figure that is one sum over another, and why there is none if the other is 0."""

    name: str
    part: Callable[[Verdict], float]
    whole: Callable[[Verdict], float]
    why: str
    is_share: bool = True


def _failed(verdict: Verdict) -> bool:
    return verdict.outcome == "failure"


def _succeeded(verdict: Verdict) -> bool:
    return verdict.outcome == "success"


def _is_labelled(verdict: Verdict) -> bool:
    return verdict.is_stopped and verdict.decisive_step is not None


def _distance(verdict: Verdict) -> int:
    """Steps from the decisive one to the stop."""
    return (verdict.stopped_at_step or 0) - (verdict.decisive_step or 0)


_RATES: Final = (
    _Rate("recall", lambda v: _failed(v) and v.is_stopped, _failed, "no run here is known to have failed"),
    _Rate(
        "false_positive_rate",
        lambda v: _succeeded(v) and v.is_stopped,
        _succeeded,
        "no run here is known to have succeeded",
    ),
    _Rate(
        "precision",
        lambda v: _failed(v) and v.is_stopped,
        lambda v: v.is_stopped and v.outcome != "unknown",
        "no run with a known outcome was interrupted",
    ),
    _Rate(
        "steps_saved",
        lambda v: v.steps_saved if _failed(v) else 0,
        lambda v: v.steps if _failed(v) else 0,
        "no run here is known to have failed",
    ),
    _Rate(
        "minutes_saved",
        lambda v: (v.minutes_saved or 0.0) if _failed(v) else 0.0,
        lambda v: (v.minutes or 0.0) if _failed(v) else 0.0,
        "no failed run here has a clock",
    ),
    _Rate(
        "dollars_saved",
        lambda v: (v.dollars_saved or 0.0) if _failed(v) else 0.0,
        lambda v: (v.dollars or 0.0) if _failed(v) else 0.0,
        "no failed run here has a cost",
    ),
    _Rate(
        "before_decisive",
        lambda v: _is_labelled(v) and _distance(v) <= 0,
        _is_labelled,
        "no interrupted run here has a labelled decisive step",
    ),
    _Rate("warnings", lambda v: v.warnings, lambda _: 1, "there are no runs here", is_share=False),
)


def scored(verdicts: Sequence[Verdict], *, resamples: int = RESAMPLES) -> Scores:
    everything = score(verdicts, resamples=resamples)

    def of(group: Sequence[Verdict]) -> Score:
        # Intervals take their time, and often there is but one source or one class.
        return everything if len(group) == len(verdicts) else score(group, resamples=resamples)

    return Scores(
        sources={name: of(group) for name, group in _grouped(verdicts, lambda v: v.source)},
        classes={name: of(group) for name, group in _grouped(verdicts, class_of)},
        all=everything,
    )


def doing_nothing(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the same runs, left alone: every policy is compared with this."""
    return [
        msgspec.structs.replace(
            one,
            stopped_at_step=None,
            level="",
            decision=None,
            warnings=0,
            steps_saved=0,
            minutes_saved=None if one.minutes is None else 0.0,
            dollars_saved=None if one.dollars is None else 0.0,
        )
        for one in verdicts
    ]


def class_of(verdict: Verdict) -> str:
    """Return the declared class; else the one of its measured time; ``unknown`` without a clock."""
    if verdict.task_class is not None:
        return verdict.task_class
    if verdict.minutes is None:
        return NO_CLASS
    if verdict.minutes <= SHORT_MINUTES:
        return "short"
    return "medium" if verdict.minutes <= MEDIUM_MINUTES else "long"


def score(verdicts: Sequence[Verdict], *, resamples: int = RESAMPLES) -> Score:
    stopped = [one for one in verdicts if one.is_stopped]
    failed = [one for one in verdicts if _failed(one)]
    rates: dict[str, float | None] = {}
    unmeasured: dict[str, str] = {}
    for rate in _RATES:
        whole = sum(map(rate.whole, verdicts))
        rates[rate.name] = sum(map(rate.part, verdicts)) / whole if whole else None
        if not whole:
            unmeasured[rate.name] = rate.why
    distances = [_distance(one) for one in stopped if _is_labelled(one)]
    if not distances:
        unmeasured["decisive_distance"] = unmeasured["before_decisive"]
    measured = [rate for rate in _RATES if rates[rate.name] is not None]
    return Score(
        runs=len(verdicts),
        failures=len(failed),
        successes=sum(map(_succeeded, verdicts)),
        unknown=sum(one.outcome == "unknown" for one in verdicts),
        interventions=len(stopped),
        failures_stopped=sum(map(_failed, stopped)),
        successes_stopped=sum(map(_succeeded, stopped)),
        levels=dict(sorted(Counter(one.level for one in stopped).items())),
        signals=_signals(stopped),
        decisive_distance=median(distances) if distances else None,
        totals=_totals(failed),
        intervals=_intervals(verdicts, measured, resamples),
        unmeasured=unmeasured,
        **rates,
    )


def _signals(stopped: Iterable[Verdict]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in stopped:
        reasons = one.decision.reasons if one.decision is not None else ()
        of = found.setdefault(
            reasons[0].signal if reasons else "other", {"interventions": 0, "failures": 0, "successes": 0}
        )
        of["interventions"] += 1
        of["failures"] += _failed(one)
        of["successes"] += _succeeded(one)
    return dict(sorted(found.items()))


def _totals(failed: Sequence[Verdict]) -> dict[str, float | None]:
    minutes = [(one.minutes, one.minutes_saved or 0.0) for one in failed if one.minutes is not None]
    dollars = [(one.dollars, one.dollars_saved or 0.0) for one in failed if one.dollars is not None]
    return {
        "steps": sum(one.steps for one in failed),
        "steps_saved": sum(one.steps_saved for one in failed),
        "minutes": sum(of for of, _ in minutes) if minutes else None,
        "minutes_saved": sum(saved for _, saved in minutes) if minutes else None,
        "dollars": sum(of for of, _ in dollars) if dollars else None,
        "dollars_saved": sum(saved for _, saved in dollars) if dollars else None,
    }


def _grouped(verdicts: Iterable[Verdict], key: Callable[[Verdict], str]) -> list[tuple[str, list[Verdict]]]:
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(key(verdict), []).append(verdict)
    return sorted(groups.items())


# ---- how sure that is

_BITS: Final = 64
"""Of a column when all columns of a task are packed into one number, to be added up at once."""
_FINEST: Final = 2.0**20
"""Parts of 1 that are told apart then, if there is room for them."""


def _intervals(verdicts: Sequence[Verdict], rates: Sequence[_Rate], resamples: int) -> dict[str, Interval]:
    """95 % of each rate, if other tasks like these had been recorded. None for a single task."""
    tasks = [of for _, of in _grouped(verdicts, lambda v: v.task_key)]
    if len(tasks) < 2 or not resamples:
        return {}
    packed = [0] * len(tasks)
    for place, rate in enumerate(rates):
        for task, (part, whole) in enumerate(_whole_numbers(tasks, rate)):
            packed[task] |= (part | whole << _BITS) << (2 * _BITS * place)
    size = 2 * _BITS * len(rates) // 8
    drawn: list[list[float]] = [[] for _ in rates]
    for picked in _draws(len(tasks), resamples):
        sums = unpack(f"<{2 * len(rates)}Q", sum(picked(packed)).to_bytes(size, "little"))
        for values, part, whole in zip(drawn, sums[::2], sums[1::2], strict=True):
            if whole:
                values.append(part / whole)
    return {
        rate.name: _widened(_middle(values), sum(any(map(rate.whole, of)) for of in tasks), rate)
        for rate, values in zip(rates, drawn, strict=True)
        if values
    }


def _widened(interval: Interval, tasks: int, rate: _Rate) -> Interval:
    """Widen an interval where every draw is all or nothing: if none of n tasks show it, up to 3 in n may (95 %)."""
    if interval not in ((0.0, 0.0), (1.0, 1.0)) or not rate.is_share:
        return interval
    room = min(1.0, 3 / tasks)
    return (0.0, room) if interval[1] == 0 else (1 - room, 1.0)


def _whole_numbers(tasks: Sequence[Sequence[Verdict]], rate: _Rate) -> list[tuple[int, int]]:
    """Return a rate's two sums for each task, as small parts that cannot become more than a column holds."""
    sums = [(max(0.0, sum(map(rate.part, of))), max(0.0, sum(map(rate.whole, of)))) for of in tasks]
    most = max(map(max, sums)) * len(tasks)
    unit = min(_FINEST, 2.0 ** (_BITS - 2) / most) if most else 1.0
    return [(round(part * unit), round(whole * unit)) for part, whole in sums]


def _draws(count: int, resamples: int) -> Iterable[Callable[[Sequence[int]], tuple[int, ...]]]:
    """Draw ``count`` of ``count``, with repetition, many times; always the same draws."""
    for number in range(resamples):
        # Numbers that look like chance and are the same on every machine and in every version of Python.
        noise = unpack(f"<{count}I", shake_128(f"{count} {number}".encode()).digest(4 * count))
        yield itemgetter(*[one % count for one in noise])


def _middle(values: list[float]) -> Interval:
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(0.025 * last)], ordered[round(0.975 * last)]
