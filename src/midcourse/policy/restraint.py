"""Limits over many sessions: how often a person may be interrupted, and signals that were wrong too often. Pure.

An intervention that is held back here is not lost: people are notified with the next batch. A person's limit counts
only what the person has to answer: an agent that explains its plan costs no attention.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from midcourse.core.policy_decision import COSTS_ATTENTION, SEVERITY, Alarm, Decision
from midcourse.policy.document import Policy
from midcourse.policy.evaluation import Rule, rules_of

HOUR = 3600.0


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


class Batch(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """Alarms that reach a person together, at ``ready_at``. An interruption is a batch of its own, at once."""

    person: str
    since: float
    ready_at: float
    alarms: tuple[Alarm, ...]


def batches(alarms: Iterable[Alarm], gather: float, of_policies: Mapping[str, float] = {}) -> list[Batch]:
    """Gather alarms, given in the order of their time, into batches: the first opens a window of ``gather``.

    ``of_policies`` overrides it, by who stepped in: nothing waits longer than its own policy allows.
    """
    made: list[Batch] = []
    windows: dict[str, Batch] = {}
    for alarm in alarms:
        if alarm.level != "notify":
            made.append(Batch(person=alarm.person, since=alarm.at, ready_at=alarm.at, alarms=(alarm,)))
            continue
        told_at = alarm.at + of_policies.get(alarm.by, gather)
        window = windows.get(alarm.person)
        if window is not None and alarm.at < window.ready_at:
            ready_at = min(window.ready_at, told_at)
            windows[alarm.person] = replace(window, ready_at=ready_at, alarms=(*window.alarms, alarm))
            continue
        if window is not None:
            made.append(window)
        windows[alarm.person] = Batch(person=alarm.person, since=alarm.at, ready_at=told_at, alarms=(alarm,))
    return sorted([*made, *windows.values()], key=lambda batch: batch.ready_at)
