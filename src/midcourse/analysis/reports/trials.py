"""Policies on the runs that a store has recorded: what they would have done, and what thresholds those runs propose.

The same functions as ``midcourse policy backtest`` and ``midcourse policy calibrate``. They compute for seconds and
more: see ``beside``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from midcourse.analysis.backtest import Backtest, PolicyResult, Recording, Score, Verdict, backtest
from midcourse.analysis.backtest.calibration import FALSE_STOPS, LEAST, Calibrated, calibrate_runs, course_of
from midcourse.analysis.reports.recorded_runs import Going, Runs
from midcourse.policy.document import Part, Policy
from midcourse.policy.durations import Span
from midcourse.policy.yaml_writer import from_document, to_document

SCALES: Final = (0.1, 0.25, 0.5, 0.75, 1.5, 2.5, 5.0)
"""By how much the thresholds are moved for the curve."""
TICKS: Final = 200
"""Runs that are drawn on a rail."""
_RESAMPLES: Final = 300
_TENTHS: Final = 10
_MOVED: Final = frozenset(
    {"warn", "explain", "intervene", "stop", "per_action", "streak", "milestones", "alignment", "expansion"}
    | {"new_domain", "acceleration"}
)
"""The thresholds of a signal, by their names."""
_STAYS: Final = frozenset({"budget", "calls_left"})
"""Signals whose thresholds are a share of what a session was given: those mean what they say."""
_LOWER_IS_WORSE: Final = frozenset({"token_rate"})


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The policy's result with all its thresholds at ``scale`` times their values; 1 is itself."""

    scale: float
    recall: float | None
    false_positive_rate: float | None


class TriedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on all the runs. ``version`` 0: a text that was not saved.

    ``per_hour`` is how often it steps in while a run works for an hour, ``at_most`` what its restraint allows.
    ``when`` counts stops by how far the run was, in tenths: of failing, and of succeeding runs.
    """

    name: str
    version: int
    all: Score
    sources: Mapping[str, Score]
    classes: Mapping[str, Score]
    curve: tuple[CurvePoint, ...]
    per_hour: float | None
    at_most: int
    when: Mapping[str, tuple[int, ...]]


class Rail(msgspec.Struct, frozen=True, kw_only=True):
    """The height of a signal in each run, lowest first: at most 200 of failing and as many of other runs."""

    signal: str
    failed: tuple[float, ...]
    others: tuple[float, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Policies on the same recorded runs, the proposed one first.

    ``limit`` is the share of succeeding runs that it may stop. ``is_enough`` is true if the figures say anything of
    other runs; ``sentence`` explains it. ``notes`` are what was left out, or not measured.
    """

    runs: int
    failures: int
    successes: int
    unknown: int
    since: float | None
    until: float | None
    limit: float
    is_enough: bool
    sentence: str
    policies: tuple[TriedPolicy, ...]
    baseline: Score
    rails: tuple[Rail, ...]
    notes: tuple[str, ...]


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds from recorded runs, as another version of a policy, and what that would have done to those runs."""

    document: Any
    failures: int
    successes: int
    stopped: int
    stopped_wrongly: int
    sentence: str
    notes: tuple[str, ...]

    @property
    def policy(self) -> Policy:
        return from_document(self.document)


# ---- trying


def propose(runs: Runs, policy: Policy, going: Going, false_stops: float = FALSE_STOPS) -> Proposed:
    """Thresholds that are as early as these runs allow, as the next version of ``policy``.

    Raises:
        InvalidInput: ``too_few_runs``.
    """
    going.begin("measuring", len(runs.recordings))
    found = calibrate_runs(_counted(runs.recordings, going), policy, false_stops)
    return proposed(found, policy, (*runs.notes, _NO_DRIFT))


def proposed(found: Calibrated, policy: Policy, notes: tuple[str, ...] = ()) -> Proposed:
    """Return what was calibrated, as the next version of the policy that it was made from."""
    # What differs from that version is what is proposed.
    named = replace(found.policy, name=policy.name, extends=policy.id, about=policy.about)
    return Proposed(
        document=to_document(named),
        failures=found.failures,
        successes=found.successes,
        stopped=found.stopped,
        stopped_wrongly=found.stopped_wrongly,
        sentence=_proposed(found),
        notes=notes,
    )


_NO_DRIFT: Final = "How far actions are from the goal is not measured here: midcourse policy backtest --drift does."


def tried(runs: Runs, policies: Sequence[Policy], going: Going) -> Trial:
    """Try these policies on recorded runs. The proposed one is the first.

    Raises:
        InvalidInput: two different policies have one name and version; or there is no run.
    """
    first = policies[0]
    recordings = runs.recordings
    notes = [*runs.notes, _NO_DRIFT]
    going.begin("trying", len(recordings))
    found = backtest(policies, _counted(recordings, going), resamples=_RESAMPLES)
    shown = tuple(_policy(one, recordings, going) for one in found.policies.values())
    going.begin("measuring", len(recordings))
    score = found.scores.all
    is_enough = min(score.failures, score.successes) >= LEAST
    return Trial(
        runs=score.runs,
        failures=score.failures,
        successes=score.successes,
        unknown=score.unknown,
        since=runs.since,
        until=runs.until,
        limit=first.restraint.false_positives,
        is_enough=is_enough,
        sentence=_enough(found, is_enough=is_enough),
        policies=shown,
        baseline=found.baseline.all,
        rails=_rails(recordings, first, going),
        notes=(*notes, *(one.sentence for one in found.notices)),
    )


def _enough(found: Backtest, *, is_enough: bool) -> str:
    score = found.scores.all
    runs = "run" if score.runs == 1 else "runs"
    counted = f"{score.runs:,} recorded {runs}: {score.failures:,} failed, {score.successes:,} succeeded"
    unknown = f", {score.unknown:,} unknown" if score.unknown else ""
    if is_enough:
        return f"{counted}{unknown}."
    return f"Too few to say. {counted}{unknown}; at least {LEAST} of each are needed."


def _policy(tried: PolicyResult, recordings: Sequence[Recording], going: Going) -> TriedPolicy:
    score = tried.scores.all
    curve = [CurvePoint(scale=1.0, recall=score.recall, false_positive_rate=score.false_positive_rate)]
    for scale in SCALES if score.failures and score.successes else ():
        going.begin("drawing", len(recordings))
        moved = backtest([scaled(tried.policy, scale)], _counted(recordings, going), resamples=0).scores.all
        curve.append(CurvePoint(scale=scale, recall=moved.recall, false_positive_rate=moved.false_positive_rate))
    return TriedPolicy(
        name=tried.policy.name,
        version=tried.policy.version,
        all=score,
        sources=tried.scores.sources,
        classes=tried.scores.classes,
        curve=tuple(sorted(curve, key=lambda one: one.scale)),
        per_hour=_per_hour(tried.verdicts),
        at_most=tried.policy.restraint.interventions_per_hour,
        when={outcome: _when(tried.verdicts, outcome) for outcome in ("failure", "success")},
    )


def _counted(recordings: Iterable[Recording], going: Going) -> Iterator[Recording]:
    for one in recordings:
        going.step()
        yield one


def _per_hour(verdicts: Iterable[Verdict]) -> float | None:
    minutes = stops = 0.0
    for one in verdicts:
        if one.minutes is not None:
            minutes += one.minutes - (one.minutes_saved or 0.0)
            stops += one.is_stopped
    return 60 * stops / minutes if minutes else None


def _when(verdicts: Iterable[Verdict], outcome: str) -> tuple[int, ...]:
    counts = [0] * _TENTHS
    for one in verdicts:
        if one.stopped_at_step is not None and one.outcome == outcome:
            counts[min(_TENTHS - 1, _TENTHS * one.stopped_at_step // max(1, one.steps))] += 1
    return tuple(counts)


def _rails(recordings: Sequence[Recording], policy: Policy, going: Going) -> tuple[Rail, ...]:
    heights: dict[str, tuple[list[float], list[float]]] = {}
    for one in _counted(recordings, going):
        for signal, rises in course_of(one, policy).heights.items():
            failed, others = heights.setdefault(signal, ([], []))
            (failed if one.outcome == "failure" else others).append(rises[-1][1])
    return tuple(
        Rail(signal=signal, failed=_ticks(failed), others=_ticks(others))
        for signal, (failed, others) in heights.items()
    )


def _ticks(values: list[float]) -> tuple[float, ...]:
    """Return as many ticks as can be drawn: the lowest, the highest, and those in between at even distances."""
    ordered = sorted(values)
    if len(ordered) <= TICKS:
        return tuple(ordered)
    last = len(ordered) - 1
    return tuple(ordered[round(number * last / (TICKS - 1))] for number in range(TICKS))


def scaled(policy: Policy, scale: float) -> Policy:
    """Return the policy with every threshold of its signals multiplied by ``scale``."""
    signals = policy.signals
    for place in msgspec.structs.fields(signals):
        if place.name not in _STAYS:
            rule: Part = getattr(signals, place.name)
            by = 1 / scale if place.name in _LOWER_IS_WORSE else scale
            signals = replace(signals, **{place.name: replace(rule, **_moved(rule, by))})
    return replace(policy, signals=signals)


def _moved(rule: Part, by: float) -> dict[str, Any]:
    return {
        one.name: _times(value, by)
        for one in msgspec.structs.fields(rule)
        if one.name in _MOVED and (value := getattr(rule, one.name)) is not None
    }


def _times(value: object, by: float) -> object:
    if isinstance(value, tuple):
        return tuple(_times(one, by) for one in cast("tuple[float, ...]", value))
    if isinstance(value, Span):
        return Span(value * by)
    if isinstance(value, int):  # failures in a row, actions in a new domain: of less than one there is none
        return max(1, round(value * by))
    assert isinstance(value, float)
    return value * by


# ---- words


def _proposed(found: Calibrated) -> str:
    done = (
        f"{found.stopped:,} of {found.failures:,} failing and {found.stopped_wrongly:,} of {found.successes:,} "
        "succeeding runs would have been stopped: the runs that it was made from, so expect less of others."
    )
    return done if found.marks else f"No threshold is worth it. What stops a run in any case stays: {done}"
