"""The thresholds of a policy as plain rules, and where a value stands among them. Pure."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, Literal

import msgspec

from midcourse.core.policy_decision import Stage
from midcourse.policy.document import Part, Policy, Restraint
from midcourse.policy.observation import Latch

NEVER: Final = Latch()
_GRAVEST_FIRST: Final[tuple[Stage, ...]] = ("stop", "intervene", "explain", "warn")
_OVER: Final = frozenset({"calls_left"})
"""Signals that must be over their threshold; the others reach it."""
_ONCE: Final = frozenset(
    {"errors", "scope_drift", "scope_drift.alignment", "token_rate", "calls_left", "risk", "cost.acceleration"}
)
"""Signals that go up and down: past a threshold they count once, and again after they have been back for a while."""


class Rule(msgspec.Struct, gc=False, frozen=True):
    """The thresholds of one signal, the gravest first. ``below``: the less the worse."""

    signal: str
    steps: tuple[tuple[Stage, float], ...]
    milestones: tuple[float, ...] = ()
    below: bool = False


def rules_of(policy: Policy, risk_threshold: float | None = None, risk_warns: float | None = None) -> tuple[Rule, ...]:
    """Return the thresholds of a policy as a list.

    ``risk_threshold`` is the calibrated risk for such runs; ``risk_warns`` that for runs in general.
    """
    signals = policy.signals
    risk = signals.risk
    intervene = risk.intervene if risk.intervene is not None else risk_threshold
    # A milestone beats a warning at the same amount.
    cost_warn = None if signals.cost.warn in signals.cost.milestones else signals.cost.warn
    wanted: list[Rule] = [
        _of_part("duration", signals.duration),
        msgspec.structs.replace(
            _rule("cost", warn=cost_warn, stop=signals.cost.stop), milestones=tuple(signals.cost.milestones)
        ),
        _rule("cost.per_action", intervene=signals.cost.per_action),
        _rule("cost.acceleration", warn=signals.cost.acceleration),
        _of_part("budget", signals.budget),
        _of_part("errors", signals.errors),
        _rule("errors.streak", stop=signals.errors.streak),
        _of_part("scope_drift", signals.scope_drift),
        _rule("scope_drift.alignment", intervene=signals.scope_drift.alignment),
        _of_part("resources", signals.resources),
        _of_part("token_rate", signals.token_rate, below=True),
        _of_part("calls_left", signals.calls_left),
        _of_part("hypothesis", signals.hypothesis),
        _rule("scope.expansion", intervene=signals.scope.expansion),
        _rule("scope.new_domain", intervene=signals.scope.new_domain),
        _of_part("loops", signals.loops),
        _of_part("api_calls", signals.api_calls),
        _of_part("compute_seconds", signals.compute_seconds),
        _of_part("bytes", signals.bytes),
        _rule("own_artifacts", warn=1.0 if policy.artifacts.flag_use else None),
        _rule("risk", warn=risk.warn or risk_warns, intervene=intervene) if risk.enabled else Rule("risk", ()),
    ]
    return tuple(rule for rule in wanted if rule.steps or rule.milestones)


def _of_part(signal: str, part: Part, *, below: bool = False) -> Rule:
    """Return the thresholds of a part of a policy whose fields are stages."""
    return _rule(signal, below=below, **{stage: getattr(part, stage, None) for stage in _GRAVEST_FIRST})


def _rule(signal: str, *, below: bool = False, **marks: float | None) -> Rule:
    # Plain numbers: a reason is journaled with its threshold, and no codec knows a Span.
    found: list[tuple[Stage, float | None]] = [(stage, marks.get(stage)) for stage in _GRAVEST_FIRST]
    return Rule(signal, tuple((stage, float(mark)) for stage, mark in found if mark is not None), below=below)


def is_past(rule: Rule, value: float, mark: float) -> bool:
    if rule.below:
        return value < mark
    return value > mark if rule.signal in _OVER else value >= mark


def times_past(rule: Rule, stage: str, value: float, mark: float) -> int:
    if stage == "pause" and rule.milestones:
        return sum(value >= one for one in rule.milestones)
    if not repeats(rule, stage) or mark <= 0:
        return 1
    return int(min(value / mark, 1e9))


def repeats(rule: Rule, stage: str) -> bool:
    """Return True if twice the threshold is a second reason: for sums, where something is done about them."""
    return rule.signal not in _ONCE and not rule.below and stage not in ("warn", "explain")


def behind(restraint: Restraint, rule: Rule, mark: float) -> float:
    """Return how far back a signal's value must go to count anew for this threshold."""
    kept = 1 - restraint.again
    if rule.below:
        return mark / kept if kept else inf
    return mark * kept


def rests(restraint: Restraint, signal: str) -> int:
    """Actions in a row for which it must have been there."""
    return max(1, restraint.again_after) if signal in _ONCE else 1


def armed(
    rules: Sequence[Rule], told: Mapping[tuple[str, str], Latch], *, tells_only: bool = False
) -> list[tuple[str, float, bool]]:
    """For each signal, return the value from which on there may be something to decide: (signal, value, below).

    With ``tells_only`` nothing is ever done, so that a notice settles a threshold.
    """
    arms: list[tuple[str, float, bool]] = []
    for rule in rules:
        marks: list[float] = []
        for stage, mark in rule.steps:
            latch = told.get((rule.signal, stage), NEVER)
            done = max(latch.done, latch.told) if tells_only else latch.done
            if done and not repeats(rule, stage):
                continue
            marks.append(mark * (done + 1) if done else mark)
        passed = told.get((rule.signal, "pause"), NEVER)
        marks += rule.milestones[max(passed.done, passed.told) if tells_only else passed.done :]
        if marks:
            arms.append((rule.signal, max(marks) if rule.below else min(marks), rule.below))
    return arms


class ThresholdState(msgspec.Struct, gc=False, frozen=True):
    """The thresholds of a signal, and the gravest that its value is past; for money, the next milestone steps in."""

    warn: float | None = None
    intervene: float | None = None
    stop: float | None = None
    past: Literal["warn", "intervene", "stop"] | None = None

    @property
    def mark(self) -> float | None:
        """The threshold that it is past."""
        return None if self.past is None else getattr(self, self.past)


def threshold_state(rule: Rule, value: float | None) -> ThresholdState:
    """Return the state of a value among the thresholds of its signal, before or after any notice or act."""
    marks = dict(rule.steps)
    ahead = [mark for mark in rule.milestones if value is None or value < mark]
    intervene = marks.get("intervene", min(ahead, default=None))
    known = {"stop": marks.get("stop"), "intervene": intervene, "warn": marks.get("warn")}
    past = [
        stage for stage, mark in known.items() if mark is not None and value is not None and is_past(rule, value, mark)
    ]
    return ThresholdState(known["warn"], intervene, known["stop"], past[0] if past else None)  # pyright: ignore[reportArgumentType]
