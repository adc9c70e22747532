"""``evaluate``: what a policy decides about what was observed. Pure: nothing but its arguments counts.

Rules of this module: a threshold is compared here and nowhere else; what has been decided before comes with the
observation; whatever keeps a decision back says so in ``held``. Limits over many sessions are in ``restraint``.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, Literal

import msgspec

from midcourse.core.money import money
from midcourse.core.policy_decision import SEVERITY, Decision, Level, Reason, Stage, Unseen, Worth
from midcourse.policy.document import ClassRule, DurationRule, Levels, Policy, Restraint
from midcourse.policy.durations import Span
from midcourse.policy.observation import Latch, Observed

_NEVER: Final = Latch()
_GRAVITY: Final[Mapping[str, int]] = {"warn": 1, "explain": 2, "intervene": 3, "pause": 4, "stop": 5}
_BESIDE_RISK: Final = frozenset({"risk", "cost.per_action", "budget"})
"""Signals that interrupt also where a calibrated risk decides."""
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
        _levels("duration", signals.duration),
        msgspec.structs.replace(
            _rule("cost", warn=cost_warn, stop=signals.cost.stop), milestones=tuple(signals.cost.milestones)
        ),
        _rule("cost.per_action", intervene=signals.cost.per_action),
        _rule("cost.acceleration", warn=signals.cost.acceleration),
        _rule("budget", warn=signals.budget.warn, stop=signals.budget.stop),
        _rule("errors", warn=signals.errors.warn, intervene=signals.errors.intervene),
        _rule("errors.streak", stop=signals.errors.streak),
        _rule("scope_drift", warn=signals.scope_drift.warn, intervene=signals.scope_drift.intervene),
        _rule("scope_drift.alignment", intervene=signals.scope_drift.alignment),
        _levels("resources", signals.resources),
        _rule("token_rate", intervene=signals.token_rate.intervene, below=True),
        _rule("calls_left", intervene=signals.calls_left.intervene),
        _rule("hypothesis", warn=signals.hypothesis.warn, intervene=signals.hypothesis.intervene),
        _rule("scope.expansion", intervene=signals.scope.expansion),
        _rule("scope.new_domain", intervene=signals.scope.new_domain),
        _rule("loops", warn=signals.loops.warn, intervene=signals.loops.intervene),
        _levels("api_calls", signals.api_calls),
        _levels("compute_seconds", signals.compute_seconds),
        _levels("bytes", signals.bytes),
        _rule("own_artifacts", warn=1.0 if policy.artifacts.flag_use else None),
        _rule("risk", warn=risk.warn or risk_warns, intervene=intervene) if risk.enabled else Rule("risk", ()),
    ]
    return tuple(rule for rule in wanted if rule.steps or rule.milestones)


def _levels(signal: str, part: DurationRule | Levels) -> Rule:
    explain = part.explain if isinstance(part, DurationRule) else None
    return _rule(signal, warn=part.warn, explain=explain, intervene=part.intervene, stop=part.stop)


def _rule(
    signal: str,
    *,
    warn: float | None = None,
    explain: float | None = None,
    intervene: float | None = None,
    stop: float | None = None,
    below: bool = False,
) -> Rule:
    marks: tuple[tuple[Stage, float | None], ...] = (
        ("stop", stop),
        ("intervene", intervene),
        ("explain", explain),
        ("warn", warn),
    )
    # Plain numbers: a reason is journaled with its threshold, and no codec knows a Span.
    steps: list[tuple[Stage, float]] = [(stage, float(mark)) for stage, mark in marks if mark is not None]
    return Rule(signal, tuple(steps), below=below)


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
    level, held, worth = _held(policy, wanted, observed, first_after, is_wished=is_wished)
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
        latch = told.get((reason.signal, reason.stage), _NEVER)
        times = _times(rule, reason.stage, reason.value, reason.threshold)
        is_done = decision.level in _DOES[reason.stage]
        told[reason.signal, reason.stage] = Latch(max(latch.told, times), times if is_done else latch.done)
        warns = any(stage == "warn" and _is_past(rule, reason.value, mark) for stage, mark in rule.steps)
        if reason.stage != "warn" and warns:
            told[reason.signal, "warn"] = Latch(1, 1)  # after a graver notice there is no warning on the way back
        if reason.stage == "stop" and is_done and rule.milestones:  # who saw the stop has seen what lies below it
            passed = _times(rule, "pause", reason.value, reason.threshold)
            told[reason.signal, "pause"] = Latch(passed, passed)
    return told


def behind(restraint: Restraint, rule: Rule, mark: float) -> float:
    """Return how far back a signal's value must go to count anew for this threshold."""
    kept = 1 - restraint.again
    if rule.below:
        return mark / kept if kept else inf
    return mark * kept


def rests(restraint: Restraint, signal: str) -> int:
    """Actions in a row for which it must have been there."""
    return max(1, restraint.again_after) if signal in _ONCE else 1


_DOES: Final[Mapping[str, frozenset[str]]] = {
    "warn": frozenset({"notify", "ask_plan", "ask", "pause", "stop"}),
    "explain": frozenset({"ask_plan", "pause", "stop"}),
    "intervene": frozenset({"pause", "stop"}),
    "pause": frozenset({"pause", "stop"}),
    "stop": frozenset({"stop"}),
}
"""The levels with which a reason of that stage has had its effect. Asked for its plan, an agent may still be paused."""


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
            latch = told.get((rule.signal, stage), _NEVER)
            done = max(latch.done, latch.told) if tells_only else latch.done
            if done and not _repeats(rule, stage):
                continue
            marks.append(mark * (done + 1) if done else mark)
        passed = told.get((rule.signal, "pause"), _NEVER)
        marks += rule.milestones[max(passed.done, passed.told) if tells_only else passed.done :]
        if marks:
            arms.append((rule.signal, max(marks) if rule.below else min(marks), rule.below))
    return arms


def _crossed(policy: Policy, rule: Rule, value: float, observed: Observed) -> tuple[Reason, Latch] | None:
    """Return the gravest stage that the value has reached and that has not had its effect yet."""
    for stage, mark in rule.steps:
        if _is_past(rule, value, mark):
            in_vain = observed.is_held and stage == "intervene" and rule.signal == "hypothesis"
            # It was asked for it, and waits: a person alone can get it out of there.
            found = _unless_done(policy, rule, "pause" if in_vain else stage, value, mark, observed)
            if found is not None and stage == "stop":
                return found
            passed = _milestone(policy, rule, value, observed)
            return passed or found
    return _milestone(policy, rule, value, observed)


def _is_past(rule: Rule, value: float, mark: float) -> bool:
    if rule.below:
        return value < mark
    return value > mark if rule.signal in _OVER else value >= mark


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
        stage for stage, mark in known.items() if mark is not None and value is not None and _is_past(rule, value, mark)
    ]
    return ThresholdState(known["warn"], intervene, known["stop"], past[0] if past else None)  # pyright: ignore[reportArgumentType]


def _milestone(policy: Policy, rule: Rule, value: float, observed: Observed) -> tuple[Reason, Latch] | None:
    passed = [mark for mark in rule.milestones if value >= mark]
    if not passed:
        return None
    latch = observed.told.get((rule.signal, "pause"), _NEVER)
    if latch.done >= len(passed):
        return None
    mark = passed[-1]
    sentence = f"It has cost {_shown(rule.signal, value)}, past the milestone of {_shown(rule.signal, mark)}."
    # A notice about an earlier one is none about this one.
    return Reason(rule.signal, "pause", value, mark, sentence), latch if latch.told >= len(passed) else _NEVER


def _unless_done(
    policy: Policy, rule: Rule, stage: Stage, value: float, mark: float, observed: Observed
) -> tuple[Reason, Latch] | None:
    latch = observed.told.get((rule.signal, stage), _NEVER)
    times = _times(rule, stage, value, mark)
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


def _times(rule: Rule, stage: str, value: float, mark: float) -> int:
    if stage == "pause" and rule.milestones:
        return sum(value >= one for one in rule.milestones)
    if not _repeats(rule, stage) or mark <= 0:
        return 1
    return int(min(value / mark, 1e9))


def _repeats(rule: Rule, stage: str) -> bool:
    """Return True if twice the threshold is a second reason: for sums, where something is done about them."""
    return rule.signal not in _ONCE and not rule.below and stage not in ("warn", "explain")


def _first_that_counts(policy: Policy, reasons: Sequence[Reason], observed: Observed) -> Reason | None:
    """Return the gravest reason to interrupt: any, or with a calibrated risk only that, stops and money."""
    rule = policy.signals.risk
    if not (rule.enabled and rule.alone and "risk" in observed.values and observed.risk_threshold is not None):
        return reasons[0]
    counts = (one for one in reasons if one.signal in _BESIDE_RISK or one.stage in ("pause", "stop"))
    return next(counts, None)


def _wanted(policy: Policy, stage: Stage, observed: Observed) -> Level:
    asked = observed.plan_asked_at
    match stage:
        case "stop":
            return "stop"
        case "pause":
            return "pause"
        case "intervene":
            return "ask_plan" if policy.ask_plan and asked is None else "pause"
        case "explain":
            return "ask_plan" if policy.ask_plan and asked is None else "notify"
        case "warn":
            return "notify"


def _held(
    policy: Policy, wanted: Level, observed: Observed, first_after: float, *, is_wished: bool
) -> tuple[Level, tuple[str, ...], Worth | None]:
    """Return what remains of a wanted level: limited by the class, then by how early it is, then by its worth."""
    if SEVERITY[wanted] <= SEVERITY["notify"]:
        return wanted, (), None
    rule = policy.classes.of(observed.task_class)
    goes_through = wanted == "stop" or is_wished
    named = f"{'declared' if observed.is_class_declared else 'taken for'} {observed.task_class}"
    # A guess about its class takes no stop and no wish of its people from a run.
    if rule.automatic == "never" and not (goes_through and may_stop(rule, is_declared=observed.is_class_declared)):
        return "notify", (f"a run {named} is never interrupted by a policy",), None
    if goes_through:
        return wanted, (), worth_of(policy, observed, wanted) if wanted != "stop" else None
    if rule.automatic == "watched":
        return "notify", (f"a run {named} is only watched; stops and milestones alone interrupt it",), None
    held = _too_early(policy, observed, first_after)
    asked = observed.plan_asked_at
    if wanted == "pause" and asked is not None and observed.actions - asked < policy.restraint.patience:
        held.append(f"it was asked for its plan {observed.actions - asked} actions ago")
    every = policy.restraint.requests_per_intervention
    allowed = 1 + observed.requests // every if every else observed.occasions + 1
    is_another = wanted == "ask_plan" or not observed.is_explaining
    if is_another and observed.occasions >= allowed:
        held.append(f"{observed.occasions} in {observed.requests} requests; at most 1 for every {every:,}")
    finish = policy.signals.calls_left.finish
    if observed.share_left is not None and finish is not None and observed.share_left < finish:
        held.append(f"{observed.share_left:.0%} of its calls are left: it may finish")
    worth = worth_of(policy, observed, wanted)
    if worth is not None and not worth.is_worth_it:
        held.append("it would cost more than it avoids")
    return ("notify", tuple(held), worth) if held else (wanted, (), worth)


def may_stop(rule: ClassRule, *, is_declared: bool) -> bool:
    """Return True if hard stops and milestones interrupt a run of this class."""
    return rule.automatic != "never" or not (is_declared or rule.strategy == "protect")


def is_too_early(policy: Policy, observed: Observed) -> bool:
    """Return True if a run has not worked for long enough to be judged."""
    return bool(_too_early(policy, observed, policy.restraint.first_after))


def _too_early(policy: Policy, observed: Observed, first_after: float) -> list[str]:
    actions = policy.restraint.first_after_actions
    held: list[str] = []
    if observed.actions < actions:
        held.append(f"{observed.actions} of {actions} actions")
    if observed.elapsed is not None and observed.elapsed < first_after:
        held.append(f"{observed.elapsed:.0f} of {first_after:g} seconds")
    return held


def worth_of(policy: Policy, observed: Observed, level: Level) -> Worth | None:
    """Return what an interruption now would avoid and cost; None if no cost is known."""
    rule = policy.restraint.worth
    dollars, seconds = observed.dollars_per_request, observed.seconds_per_request
    if not dollars and seconds is None:
        return None
    chance = observed.values.get("risk", rule.chance)
    left = observed.calls_left if observed.calls_left is not None else float(observed.actions)
    guessed = "" if observed.calls_left is not None else " (as many as so far)"
    price = rule.per_request if dollars is None else dollars
    wasted = chance * left
    spent = rule.per_request + rule.per_kilobyte * observed.kilobytes + rule.recovery
    attention = 0.0 if level == "ask_plan" else float(rule.attention)
    minutes = (attention + rule.quality * rule.quality_for) / 60
    avoided = wasted * price, wasted * (seconds or 0.0) / 60
    sentence = (
        f"worth: {money(avoided[0])} and {_rough(avoided[1])} min expected waste "
        f"({chance:.2g} × {_rough(left)} requests{guessed}) against {money(spent)} and {_rough(minutes)} min"
    )
    return Worth(avoided[0], avoided[1], spent, minutes, rule.minute, sentence)


# ---- words


def _rough(value: float) -> str:
    """Round to two digits, and keep all of them before the point: 1.1e+03 is hard to read."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


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
