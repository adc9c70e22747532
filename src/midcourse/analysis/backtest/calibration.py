"""Thresholds from a user's own recorded runs: as early as a given rate of false stops allows.

One signal after the other is tightened, each time the one that stops the most failing runs for every run it stops
wrongly, until the allowance is used up. What only one failing run would show is not believed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from midcourse.analysis.backtest.recordings import Recording
from midcourse.errors import InvalidInput
from midcourse.policy.document import Policy
from midcourse.policy.durations import Span
from midcourse.policy.signals.drift import Drift
from midcourse.policy.signals.encoders import find_encoder, why_none
from midcourse.policy.signals.measurements import DriftGauge
from midcourse.policy.signals.run_monitor import RunMonitor

FALSE_STOPS: Final = 0.10
"""The default share of succeeding runs that may be stopped."""
LEAST: Final = 10
"""Failing and succeeding runs that a threshold needs."""
_BELIEVED: Final = 2
"""Failing runs that a threshold must stop to be believed."""
_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "duration": ("duration", "intervene"),
    "cost": ("cost", "stop"),
    "cost.per_action": ("cost", "per_action"),
    "errors": ("errors", "intervene"),
    "errors.streak": ("errors", "streak"),
    "scope_drift": ("scope_drift", "intervene"),
    "resources": ("resources", "intervene"),
    "loops": ("loops", "intervene"),
    "api_calls": ("api_calls", "intervene"),
    "compute_seconds": ("compute_seconds", "intervene"),
}
"""The signals that are calibrated, and where their threshold stands in a policy."""
_STEPS_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "duration": ("explain", "intervene"),
    "cost": ("per_action",),
    "errors": ("intervene",),
    "scope_drift": ("intervene", "alignment"),
    "resources": ("intervene",),
    "token_rate": ("intervene",),
    "calls_left": ("intervene",),
    "hypothesis": ("intervene",),
    "scope": ("expansion", "new_domain"),
    "loops": ("intervene",),
    "api_calls": ("intervene",),
    "compute_seconds": ("intervene",),
    "bytes": ("intervene",),
}
"""The thresholds that step in before a stop does: those that the allowance is for."""
_WHOLE: Final = frozenset({"errors.streak"})


class RunCourse(msgspec.Struct, frozen=True):
    """One run as thresholds see it: for each signal the rows at which it reached a new height, and that height."""

    failed: bool
    heights: Mapping[str, tuple[tuple[int, float], ...]]

    def reaches(self, signal: str, mark: float) -> bool:
        """Return True if a threshold there would stop it."""
        heights = self.heights.get(signal)
        return bool(heights) and heights[-1][1] >= mark


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds, and what they would have done to the runs they were made from: too good to be true of others."""

    marks: Mapping[str, float]
    failures: int
    successes: int
    stopped: int
    stopped_wrongly: int
    policy: Policy


def course_of(recording: Recording, policy: Policy, drift: DriftGauge | None = None) -> RunCourse:
    """Return how the signals of a run rose. The policy's decisions do not change it."""
    oversight = RunMonitor(policy, asks=False)
    if drift is not None:
        oversight.measure_drift(drift)
    heights: dict[str, list[tuple[int, float]]] = {}
    values, restraint = oversight.values, policy.restraint
    for step, act in zip(recording.steps, recording.acts, strict=True):
        oversight.see(act, past=True)
        # As long as nothing is decided, nothing counts: one dear request in the first minute stops no run.
        if values.get("duration", restraint.first_after) < restraint.first_after:
            continue
        if values.get("api_calls", 0) < restraint.first_after_actions:
            continue
        for signal in _FIELDS:
            value = values.get(signal)
            if value:
                known = heights.setdefault(signal, [])
                if not known or value > known[-1][1]:
                    known.append((step, value))
    return RunCourse(recording.outcome == "failure", {name: tuple(found) for name, found in heights.items()})


def calibrate_runs(
    recordings: Iterable[Recording], policy: Policy, false_stops: float = FALSE_STOPS, *, drift: bool = False
) -> Calibrated:
    """Calibrate from recorded runs, those with a known outcome.

    Raises:
        InvalidInput: too few runs, or drift cannot be measured here.
    """
    encoder = find_encoder() if drift else None
    if drift and encoder is None:
        raise InvalidInput(f"Drift cannot be measured: {why_none()}", code="drift_not_installed", field="drift")
    domain = policy.signals.scope_drift.domain
    courses = [
        course_of(recording, policy, None if encoder is None else Drift(encoder, domain=domain))
        for recording in recordings
        if recording.outcome != "unknown"
    ]
    return calibrate(courses, policy, false_stops)


def calibrate(courses: Sequence[RunCourse], policy: Policy, false_stops: float = FALSE_STOPS) -> Calibrated:
    """Thresholds that stop at most that share of the succeeding runs, as a policy that extends ``policy``.

    Raises:
        InvalidInput: too few runs, or a rate that is none.
    """
    if not 0 < false_stops < 1:
        raise InvalidInput(f"false_stops is {false_stops:g}; it is a share above 0 and below 1.", field="false_stops")
    failed = [course for course in courses if course.failed]
    fine = [course for course in courses if not course.failed]
    if len(failed) < LEAST or len(fine) < LEAST:
        raise InvalidInput(
            f"{len(failed)} failing and {len(fine)} succeeding runs: at least {LEAST} of each are needed to calibrate "
            "thresholds. Record more runs with their outcomes, or keep the policy as it is.",
            code="too_few_runs",
            field="runs",
        )
    allowed = int(false_stops * len(fine))
    marks: dict[str, float] = {}
    # What stops a run whatever the thresholds are has used up a part of the allowance before the first is set.
    caught = {place for place, course in enumerate(failed) if _is_stopped(course, policy)}
    lost = {place for place, course in enumerate(fine) if _is_stopped(course, policy)}
    while best := _best(failed, fine, marks, caught, lost, allowed):
        signal, mark = best
        marks[signal] = mark
        caught |= {place for place, course in enumerate(failed) if course.reaches(signal, mark)}
        lost |= {place for place, course in enumerate(fine) if course.reaches(signal, mark)}
    return Calibrated(
        marks=marks,
        failures=len(failed),
        successes=len(fine),
        stopped=len(caught),
        stopped_wrongly=len(lost),
        policy=_with(policy, marks),
    )


def _is_stopped(course: RunCourse, policy: Policy) -> bool:
    """Return True if a stop or a milestone of the policy would have ended this run."""
    signals = policy.signals
    costs = [*signals.cost.milestones, *([] if signals.cost.stop is None else [signals.cost.stop])]
    stops: tuple[tuple[str, float | None], ...] = (
        ("duration", signals.duration.stop),
        ("cost", min(costs) if costs else None),
        ("errors.streak", signals.errors.streak),
        ("resources", signals.resources.stop),
        ("api_calls", signals.api_calls.stop),
        ("compute_seconds", signals.compute_seconds.stop),
    )
    return any(mark is not None and course.reaches(signal, mark) for signal, mark in stops)


def _best(
    failed: Sequence[RunCourse],
    fine: Sequence[RunCourse],
    marks: Mapping[str, float],
    caught: set[int],
    lost: set[int],
    allowed: int,
) -> tuple[str, float] | None:
    """Return the threshold that adds the most failing runs for every succeeding one, within what is allowed."""
    found: tuple[str, float] | None = None
    most = len(failed) / len(fine)
    for signal in _FIELDS:
        free = _peaks((course for place, course in enumerate(failed) if place not in caught), signal)
        spared = _peaks((course for place, course in enumerate(fine) if place not in lost), signal)
        for mark in sorted(peak for peak in set(_peaks(failed, signal)) if peak < marks.get(signal, inf)):
            more = len(free) - bisect_left(free, mark)
            wrong = len(spared) - bisect_left(spared, mark)
            gain = (more - 1) / (wrong + 1)
            if more >= _BELIEVED and len(lost) + wrong <= allowed and gain > most:
                found, most = (signal, mark), gain
    return found


def _peaks(courses: Iterable[RunCourse], signal: str) -> list[float]:
    """Return how high a signal rose in each run that showed it, the lowest first."""
    return sorted(heights[-1][1] for course in courses if (heights := course.heights.get(signal)))


def _out_of_order(rule: object, field: str, mark: float) -> list[str]:
    """Return the other thresholds of a rule that a new one leaves on the wrong side."""
    standing = {name: getattr(rule, name, None) for name in ("warn", "explain", "stop") if name != field}
    return [
        name
        for name, value in standing.items()
        if value is not None and (value <= mark if name == "stop" else value >= mark)
    ]


def _with(policy: Policy, marks: Mapping[str, float]) -> Policy:
    """Return the policy with these thresholds as the only ones that step in; stops, milestones and warnings stay.

    A warning or a stop that would be on the wrong side of a new threshold is removed, too.
    """
    signals = policy.signals
    for part, fields in _STEPS_IN.items():
        rule = getattr(signals, part)
        signals = msgspec.structs.replace(signals, **{part: msgspec.structs.replace(rule, **dict.fromkeys(fields))})
    for signal, mark in marks.items():
        part, field = _FIELDS[signal]
        rule = getattr(signals, part)
        written: float = Span(mark) if part == "duration" else int(mark) if signal in _WHOLE else mark
        changes: dict[str, object] = {field: written}
        if field in ("intervene", "stop"):
            changes |= dict.fromkeys(_out_of_order(rule, field, mark))
        if part == "cost" and field == "stop":
            changes["milestones"] = tuple(one for one in rule.milestones if one < mark)
        signals = msgspec.structs.replace(signals, **{part: msgspec.structs.replace(rule, **changes)})
    return msgspec.structs.replace(
        policy,
        name=f"{policy.name}-calibrated",
        version=0,
        extends=policy.name,
        about=f"{policy.name}, its thresholds calibrated from recorded runs.",
        signals=signals,
    )
