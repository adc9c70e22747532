"""``evaluate``: what a policy decides about what was observed. Pure: nothing but its arguments counts.

Rules of this module: a threshold is compared here and nowhere else; what has been decided before comes with the
observation; what keeps a decision back (``restraint``) says so in ``held``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from midcourse.core.money import money
from midcourse.core.policy_decision import Decision, Level, Reason, Stage, Unseen
from midcourse.policy.document import Policy, Restraint
from midcourse.policy.durations import Span
from midcourse.policy.observation import Latch, Observed
from midcourse.policy.restraint import held_back
from midcourse.policy.thresholds import NEVER, Rule, behind, is_past, rests, rules_of, times_past

_GRAVITY: Final[Mapping[str, int]] = {"warn": 1, "explain": 2, "intervene": 3, "pause": 4, "stop": 5}
_BESIDE_RISK: Final = frozenset({"risk", "cost.per_action", "budget"})
"""Signals that interrupt also where a calibrated risk decides."""


def evaluate(policy: Policy, observed: Observed, now: float | None, *, rules: Sequence[Rule] | None = None) -> Decision:
    """Decide what to do now. Level ``none`` means nothing new; ``wanted`` is the level that the signals ask for."""
    found: list[tuple[Reason, Latch]] = []
    for rule in rules_of(policy, observed.risk_threshold, observed.risk_warns) if rules is None else rules:
        value = observed.values.get(rule.signal)
        if value is not None:
            crossed = _crossed(policy, rule, value, observed)
            if crossed is not None:
                found.append(crossed)
    found.sort(key=lambda one: -_GRAVITY[one[0].stage])
    reasons = tuple(reason for reason, _ in found)
    if not reasons:
        return Decision(level="none", wanted="none", policy=policy.id, at=now)
    gravest = _first_that_counts(policy, reasons, observed)
    wanted = _wanted(policy, gravest.stage, observed) if gravest is not None else "notify"
    first_after = policy.restraint.first_after
    if gravest is not None and gravest.signal == "risk" and observed.risk_threshold is not None:
        first_after = policy.signals.risk.first_after
    is_wished = gravest is not None and gravest.is_wish
    level, held, worth = held_back(policy, wanted, observed, first_after, is_wished=is_wished)
    if gravest is not reasons[0]:
        held = (*held, "the combined risk decides, and the other signals only tell")
    if level == "notify" and all(latch.told for _, latch in found):
        level = "none"
    unseen = tuple(Unseen(signal, why) for signal, why in sorted(observed.unseen.items()))
    return Decision(
        level=level,
        wanted=wanted,
        policy=policy.id,
        at=now,
        reasons=reasons,
        unseen=unseen,
        held=held,
        worth=worth,
    )


def after(decision: Decision, observed: Observed, rules: Sequence[Rule]) -> dict[tuple[str, str], Latch]:
    """Return the notices and acts so far, once this decision has been carried out."""
    told = dict(observed.told)
    by_name = {rule.signal: rule for rule in rules}
    for reason in decision.reasons:
        rule = by_name.get(reason.signal)
        if rule is None:  # another policy's
            continue
        latch = told.get((reason.signal, reason.stage), NEVER)
        times = times_past(rule, reason.stage, reason.value, reason.threshold)
        is_done = decision.level in _DOES[reason.stage]
        told[reason.signal, reason.stage] = Latch(max(latch.told, times), times if is_done else latch.done)
        warns = any(stage == "warn" and is_past(rule, reason.value, mark) for stage, mark in rule.steps)
        if reason.stage != "warn" and warns:
            told[reason.signal, "warn"] = Latch(1, 1)  # after a graver notice there is no warning on the way back
        if reason.stage == "stop" and is_done and rule.milestones:  # who saw the stop has seen what lies below it
            passed = times_past(rule, "pause", reason.value, reason.threshold)
            told[reason.signal, "pause"] = Latch(passed, passed)
    return told


_DOES: Final[Mapping[str, frozenset[str]]] = {
    "warn": frozenset({"notify", "ask_plan", "ask", "pause", "stop"}),
    "explain": frozenset({"ask_plan", "pause", "stop"}),
    "intervene": frozenset({"pause", "stop"}),
    "pause": frozenset({"pause", "stop"}),
    "stop": frozenset({"stop"}),
}
"""The levels with which a reason of that stage has had its effect. Asked for its plan, an agent may still be paused."""


def _crossed(policy: Policy, rule: Rule, value: float, observed: Observed) -> tuple[Reason, Latch] | None:
    """Return the gravest stage that the value has reached and that has not had its effect yet."""
    for stage, mark in rule.steps:
        if is_past(rule, value, mark):
            in_vain = observed.is_held and stage == "intervene" and rule.signal == "hypothesis"
            # It was asked for it, and waits: a person alone can get it out of there.
            found = _unless_done(policy, rule, "pause" if in_vain else stage, value, mark, observed)
            if found is not None and stage == "stop":
                return found
            passed = _milestone(policy, rule, value, observed)
            return passed or found
    return _milestone(policy, rule, value, observed)


def _milestone(policy: Policy, rule: Rule, value: float, observed: Observed) -> tuple[Reason, Latch] | None:
    passed = [mark for mark in rule.milestones if value >= mark]
    if not passed:
        return None
    latch = observed.told.get((rule.signal, "pause"), NEVER)
    if latch.done >= len(passed):
        return None
    mark = passed[-1]
    sentence = f"It has cost {_shown(rule.signal, value)}, past the milestone of {_shown(rule.signal, mark)}."
    # A notice about an earlier one is none about this one.
    return Reason(rule.signal, "pause", value, mark, sentence), latch if latch.told >= len(passed) else NEVER


def _unless_done(
    policy: Policy, rule: Rule, stage: Stage, value: float, mark: float, observed: Observed
) -> tuple[Reason, Latch] | None:
    latch = observed.told.get((rule.signal, stage), NEVER)
    times = times_past(rule, stage, value, mark)
    if latch.done >= times:
        return None
    words = observed.words.get(rule.signal, "")
    missing = observed.is_held and rule.signal == "hypothesis"
    sentence = _SENTENCES["hypothesis.missing" if missing else rule.signal]
    sentence = sentence.format(value=_shown(rule.signal, value), mark=_shown(rule.signal, mark))
    sentence = f"{sentence} {words}" if words and not missing else sentence
    if observed.went_back and (rule.signal, stage) in observed.went_back:
        sentence = f"{sentence} {_since(policy.restraint, rule, mark)}"
    return Reason(rule.signal, stage, value, mark, sentence, rule.below), latch


def _first_that_counts(policy: Policy, reasons: Sequence[Reason], observed: Observed) -> Reason | None:
    """Return the gravest reason to interrupt: any, or with a calibrated risk only that, stops and money."""
    rule = policy.signals.risk
    if not (rule.enabled and rule.alone and "risk" in observed.values and observed.risk_threshold is not None):
        return reasons[0]
    counts = (one for one in reasons if one.signal in _BESIDE_RISK or one.stage in ("pause", "stop"))
    return next(counts, None)


def _wanted(policy: Policy, stage: Stage, observed: Observed) -> Level:
    if stage in ("intervene", "explain") and policy.ask_plan and observed.plan_asked_at is None:
        return "ask_plan"
    levels: Mapping[Stage, Level] = {"stop": "stop", "pause": "pause", "intervene": "pause"}
    return levels.get(stage, "notify")


def _shown(signal: str, value: float) -> str:
    if signal in ("cost", "cost.per_action"):
        return money(value)
    if signal in ("duration", "hypothesis"):
        return f"{Span(round(value))}" if value % 60 == 0 else f"{int(value // 60)}:{int(value % 60):02d} min"
    if signal in ("errors", "budget", "token_rate", "calls_left", "risk"):
        return f"{value:.0%}"
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


_SENTENCES: Final[Mapping[str, str]] = {
    "duration": "It has worked for {value}; the limit is {mark}.",
    "cost": "It has cost {value}; the limit is {mark}.",
    "cost.per_action": "One action cost {value}; the limit is {mark}.",
    "cost.acceleration": "Its requests cost {value} times what they did before.",
    "budget": "It has spent {value} of its budget.",
    "errors": "{value} of its recent calls failed; the limit is {mark}.",
    "errors.streak": "{value} calls in a row failed.",
    "scope_drift": "What it does is {value} away from the goal; the limit is {mark}.",
    "scope_drift.alignment": "What it does is {value} away from its own hypothesis; the limit is {mark}.",
    "resources": "It has touched {value} different resources; the limit is {mark}.",
    "token_rate": "It writes at {value} of its own average speed.",
    "calls_left": "{value} of the calls it is expected to need are left, and half of its budget is spent.",
    "hypothesis": "Its hypothesis has been unchanged for {value}; the limit is {mark}.",
    "hypothesis.missing": "It may not act without a hypothesis, and has stated none for {value}; the limit is {mark}.",
    "scope.expansion": "What it changes has spread to {value} times the domains it began in.",
    "scope.new_domain": "It made {value} changes in unconfirmed domains.",
    "loops": "It goes round: {value} repeats with no progress reported; the limit is {mark}.",
    "api_calls": "It has made {value} requests; the limit is {mark}.",
    "compute_seconds": "Its calls took {value} seconds; the limit is {mark}.",
    "bytes": "Its calls moved {value} bytes; the limit is {mark}.",
    "own_artifacts": "It uses what it made itself, {value} by now.",
    "risk": "Runs that look like this one fail in {value} of all cases.",
}


def _since(restraint: Restraint, rule: Rule, mark: float) -> str:
    """Explain why people are notified again."""
    where = f"{'above' if rule.below else 'below'} {_shown(rule.signal, behind(restraint, rule, mark))}"
    actions = rests(restraint, rule.signal)
    return f"Notified before; since then it was {where}{f' for {actions} actions' if actions > 1 else ''}."
