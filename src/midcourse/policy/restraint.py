"""Reasons to hold a decision back: a run's class, age and worth; a person's hour; signals often wrong. Pure.

An intervention that is held back here is not lost: people are notified with the next batch. A person's limit counts
only what the person has to answer: an agent that explains its plan costs no attention.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from midcourse.core.money import money
from midcourse.core.policy_decision import COSTS_ATTENTION, SEVERITY, Decision, Level, Worth
from midcourse.policy.document import ClassRule, Policy
from midcourse.policy.observation import Observed
from midcourse.policy.thresholds import Rule, rules_of

HOUR = 3600.0


def held_back(
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


class InterventionLedger(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The inputs of a decision beside the run itself.

    ``last_hour``: how often this person was interrupted, by any policy, and ``of_this_run``: how often by this run.
    ``wrong``: for each signal, of how many labelled interventions of this agent how many were wrong; of those that
    still count (``wrong_lately``).
    """

    last_hour: int = 0
    of_this_run: int = 0
    wrong: Mapping[str, tuple[int, int]] = {}


NOTHING_SO_FAR = InterventionLedger()


def restrain(policy: Policy, decision: Decision, ledger: InterventionLedger) -> Decision:
    """Return the same decision, or one that only notifies people. Stops, and what people asked for, are kept."""
    if decision.level == "stop" or decision.is_wish or SEVERITY[decision.level] <= SEVERITY["notify"]:
        return decision
    held: list[str] = []
    most = policy.restraint.interventions_per_hour
    if decision.level in COSTS_ATTENTION:
        if ledger.last_hour >= most:
            held.append(f"{ledger.last_hour} interventions in an hour; at most {most} for one person")
        elif ledger.of_this_run >= (share := share_of_a_run(most)):
            held.append(f"{ledger.of_this_run} by this run in an hour; at most {share} of {most} are one run's")
    mistrusted = [reason.signal for reason in decision.reasons if is_mistrusted(policy, reason.signal, ledger)]
    if mistrusted and len(mistrusted) == len(decision.reasons):
        counts = ", ".join("{} in {} of {}".format(one, *ledger.wrong[one]) for one in mistrusted)
        held.append(f"wrong too often: {counts}, labelled within {policy.restraint.labels_for}")
    return replace(decision, level="notify", held=(*decision.held, *held)) if held else decision


def share_of_a_run(most: int) -> int:
    """Return how many of a person's interventions an hour one run may use, so that others get some."""
    return (most + 1) // 2


def counted(heard: Iterable[tuple[str, str]], person: str, run: str, most: int) -> tuple[int, int]:
    """Count how often a person was interrupted, no run for more than its share, and how often by ``run``.

    ``heard`` are the person and the run of each interruption.
    """
    by_run = Counter(session for who, session in heard if who == person)
    return sum(min(count, share_of_a_run(most)) for count in by_run.values()), by_run[run]


class JudgedIntervention(NamedTuple):
    """An intervention labelled right or wrong: the time of the label, whose run it was, and for which signals."""

    at: float
    by: str
    signals: tuple[str, ...]
    is_wrong: bool


def wrong_lately(
    policy: Policy, judged: Iterable[JudgedIntervention], others: Mapping[str, Policy], now: float
) -> dict[str, tuple[int, int]]:
    """For each signal, count the labelled interventions and the wrong ones, as far as they still apply.

    Old labels do not, nor those of other thresholds: ``others`` are the policies that stepped in, by who did. So
    mistrust ends, by itself or by a person who accepts or saves other thresholds.
    """
    own = _thresholds(policy)
    known = {by: _thresholds(other) for by, other in others.items()}
    counts: dict[str, tuple[int, int]] = {}
    for one in judged:
        if one.at <= now - policy.restraint.labels_for or one.by not in known:
            continue
        for signal in one.signals:
            if known[one.by].get(signal) == own.get(signal):
                wrong, labelled = counts.get(signal, (0, 0))
                counts[signal] = (wrong + one.is_wrong, labelled + 1)
    return counts


def _thresholds(policy: Policy) -> dict[str, Rule]:
    return {rule.signal: rule for rule in rules_of(policy)}


def is_mistrusted(policy: Policy, signal: str, ledger: InterventionLedger) -> bool:
    """Return True if a signal was wrong more often than the policy allows, of enough labels."""
    wrong, labelled = ledger.wrong.get(signal, (0, 0))
    return labelled >= max(1, policy.restraint.labels) and wrong / labelled > policy.restraint.false_positives
