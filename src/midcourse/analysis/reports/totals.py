"""Many sessions' facts as a report. Pure."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from midcourse.analysis.reports.alerts import alerts_of
from midcourse.analysis.reports.counters import Shares, spread, times
from midcourse.analysis.reports.facts import Interruption, SessionFacts, range_of
from midcourse.analysis.reports.intervals import Range, rate
from midcourse.analysis.reports.report import (
    EDGES,
    MOST_NAMED,
    SATISFIED,
    Answers,
    Bar,
    ClassRow,
    KindRow,
    Report,
    SignalRow,
)
from midcourse.core.rates import Stopper
from midcourse.core.terms import TaskClass
from midcourse.policy.document import CLASSES, Policy
from midcourse.policy.restraint import may_stop

_AUTOMATIC: Final = frozenset[Stopper](("policy", "agent"))


class _Targets(NamedTuple):
    """The targets of a class: one row of the report for each class and set of these."""

    task_class: TaskClass
    interruption: Range
    completion: Range
    satisfaction: float
    p50: float
    p99: float
    range: tuple[float, float | None] | None


def report_of(
    sessions: Sequence[tuple[SessionFacts, Policy]],
    since: float,
    until: float,
    notes: Sequence[str] = (),
    unreadable: Mapping[str, str] | None = None,
) -> Report:
    """Return what sessions come to, each with the policy that its targets are of.

    ``unreadable``: sessions whose journals cannot be read, and why.
    """
    everything = Shares(facts for facts, _ in sessions)
    interruptions = [one for facts in everything.all for one in facts.interruptions]
    classes, signals, kinds = _classes(sessions), _signals(sessions), _kinds(interruptions)
    answers = _answers(sessions, interruptions)
    estimates, recoveries = everything.estimates(), everything.recoveries()
    consistency = everything.consistency(unreadable or {})
    labels = Counter(what for facts in everything.all for what, _ in _events(facts))
    stops = [one.stop for one in interruptions if one.stop is not None and not one.waited_for]
    bars = Counter(bisect_right(EDGES, stop) for stop in stops)
    outlived = [facts for facts in everything.all if facts.outlived]
    tools = dict.fromkeys(tool for facts in everything.all for tool in facts.tools)
    return Report(
        since=since,
        until=until,
        sessions=len(everything.all),
        ended=everything.completed().of,
        agents=dict(Counter(facts.agent for facts in everything.all).most_common()),
        policies=dict(Counter(facts.policy or "(none)" for facts in everything.all).most_common()),
        interventions=len(interruptions),
        by=dict(sum((Counter(row.by) for row in kinds), Counter[Stopper]())),
        notices=sum(len(facts.notices) for facts in everything.all),
        labelled=rate(labels["right"], labels["right"] + labels["wrong"]),
        warnings=rate(labels["warned, right"], labels["warned, right"] + labels["warned, wrong"]),
        dollars_avoided=sum(row.expected_avoided or 0.0 for row in kinds),
        dollars_cost=sum(row.expected_cost or 0.0 for row in kinds),
        cost=sum((facts.cost for facts in everything.all), 0.0),
        classes=classes,
        signals=signals,
        kinds=kinds,
        answers=answers,
        stops=times(stops),
        histogram=tuple(Bar(edge, bars[place]) for place, edge in enumerate((*EDGES, None))),
        waited=times(one.stop for one in interruptions if one.waited_for),
        outlived={str(facts.id): facts.outlived for facts in outlived[:MOST_NAMED]},
        outlived_count=len(outlived),
        tools=tuple(sorted(tools, key=lambda one: one.name)),
        budgeted=sum(facts.budget is not None for facts in everything.all),
        pinned=sum("@" in facts.policy for facts in everything.all),
        outcomes=everything.outcomes(),
        token_rate=spread(everything.token_rates),
        estimates=estimates,
        recoveries=recoveries,
        consistency=consistency,
        returns=everything.returns(),
        unseen=dict(Counter(signal for facts in everything.all for signal in facts.unseen).most_common()),
        decided=sum(bool(facts.decisions) for facts in everything.all),
        against_strategy=dict(Counter(facts.task_class for facts, policy in sessions if _defies(facts, policy))),
        alerts=tuple(alerts_of(classes, signals, answers, estimates, recoveries, consistency)),
        notes=tuple(notes),
    )


def _classes(sessions: Iterable[tuple[SessionFacts, Policy]]) -> tuple[ClassRow, ...]:
    found: defaultdict[_Targets, list[tuple[SessionFacts, Policy]]] = defaultdict(list)
    for facts, policy in sessions:
        found[_targets(facts, policy)].append((facts, policy))
    rows = [
        _class_row(key, {policy.name for _, policy in of}, Shares(facts for facts, _ in of))
        for key, of in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (CLASSES.index(row.task_class), row.policies)))


def _signals(sessions: Iterable[tuple[SessionFacts, Policy]]) -> tuple[SignalRow, ...]:
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    limits: defaultdict[tuple[str, str], set[tuple[float, int]]] = defaultdict(set)
    for facts, policy in sessions:
        for what, one in _events(facts):
            for signal in one.signals if one.is_by_policy else ():
                for key in ((signal, facts.agent), (signal, "")):
                    counts[key][what] += 1
                    limits[key].add((policy.restraint.false_positives, policy.restraint.labels))

    def order(key: tuple[str, str]) -> tuple[int, tuple[str, str]]:
        of_all = counts[key[0], ""]
        return -of_all["stepped in"] - of_all["notice"], key

    return tuple(_signal_row(key, counts[key], min(limits[key])) for key in sorted(counts, key=order))


def _answers(sessions: Iterable[tuple[SessionFacts, Policy]], interruptions: Iterable[Interruption]) -> Answers:
    asked = [(one, facts, float(policy.response_target)) for facts, policy in sessions for one in facts.asked]
    answered = [(one.seconds, target) for one, _, target in asked if one.seconds is not None]
    return Answers(
        asked=len(asked),
        open=sum(one.seconds is None and not one.end and not facts.outcome for one, facts, _ in asked),
        seconds=times(seconds for seconds, _ in answered),
        within=rate(sum(seconds <= target for seconds, target in answered), len(answered), (0.5, 1.0)),
        target=min((target for _, _, target in asked), default=None),
        resolution=times(one.resolution for one in interruptions),
    )


def _targets(facts: SessionFacts, policy: Policy) -> _Targets:
    rule, aims = policy.classes.of(facts.task_class), policy.targets
    return _Targets(
        facts.task_class,
        rule.interruption_rate,
        rule.completion_rate,
        aims.satisfaction,
        float(aims.response_p50),
        float(aims.response_p99),
        range_of(facts.task_class, policy.classes),
    )


def _defies(facts: SessionFacts, policy: Policy) -> bool:
    """Return True if a session was stopped automatically although its class is never to be."""
    rule = policy.classes.of(facts.task_class)
    return not may_stop(rule, is_declared=facts.is_class_declared) and bool(facts.stopped_by & _AUTOMATIC)


def _events(facts: SessionFacts) -> Iterator[tuple[str, Interruption]]:
    """Yield what is counted of a signal: labels, labels of mere warnings, interventions, notices."""
    for one in facts.judged:
        yield one.label or "none", one
    for one in facts.warnings:
        if one.is_labelled:
            yield f"warned, {one.label}", one
    for one in (*facts.interruptions, *facts.notices):
        yield "notice" if one.kind == "notify" else "stepped in", one


def _signal_row(key: tuple[str, str], counts: Counter[str], limits: tuple[float, int]) -> SignalRow:
    limit, needed = limits
    return SignalRow(
        signal=key[0],
        agent=key[1],
        interventions=counts["stepped in"],
        notices=counts["notice"],
        warnings_right=counts["warned, right"],
        warnings_wrong=counts["warned, wrong"],
        right=counts["right"],
        wrong=counts["wrong"],
        unsure=counts["unsure"],
        rate=rate(counts["wrong"], counts["right"] + counts["wrong"], (0.0, limit)),
        needed=needed,
    )


def _class_row(key: _Targets, policies: Iterable[str], shares: Shares) -> ClassRow:
    made = [one for facts in shares.all for one in facts.interruptions]
    scores = [facts.score for facts in shares.all if facts.score is not None]
    return ClassRow(
        task_class=key.task_class,
        policies=tuple(sorted(policies)),
        sessions=len(shares.all),
        declared=sum(facts.is_class_declared for facts in shares.all),
        interrupted=shares.interrupted(key.interruption),
        interrupted_by=dict(shares.stopped_by),
        completed=shares.completed(key.completion),
        satisfied=rate(sum(score >= SATISFIED for score in scores), len(scores), (key.satisfaction, 1.0)),
        score=_mean(scores),
        response=times((one.response for one in made), key.p50, key.p99),
        stops=times((one.stop for one in made if not one.waited_for), key.p50, key.p99),
        duration=shares.durations(key.range),
        token_rate=spread(shares.token_rates),
        outcomes=shares.outcomes(key.completion),
    )


def _kinds(interruptions: Iterable[Interruption]) -> tuple[KindRow, ...]:
    found: defaultdict[str, list[Interruption]] = defaultdict(list)
    for one in interruptions:
        found[one.kind].append(one)
    return tuple(_kind_row(*one) for one in sorted(found.items(), key=lambda one: -len(one[1])))


def _kind_row(kind: str, made: Sequence[Interruption]) -> KindRow:
    expected = [one.expected for one in made if one.expected is not None]
    costs = [one.cost for one in made if one.cost is not None]
    qualities = [one.quality for one in made if one.quality is not None]
    return KindRow(
        kind=kind,
        count=len(made),
        by=dict(Counter(one.stopper for one in made)),
        response=times(one.response for one in made),
        save=times(one.stop for one in made if not one.waited_for),
        waited=times(one.stop for one in made if one.waited_for),
        wait=times(one.wait for one in made),
        recovery=times(one.recovery for one in made),
        resolution=times(one.resolution for one in made),
        dollars=sum((one.money.dollars for one in made), 0.0),
        estimated=sum(one.money.is_estimate for one in made),
        requests=sum(one.money.requests for one in made),
        kilobytes=_mean([one.kilobytes for one in made if one.kilobytes is not None]),
        quality=_mean(qualities),
        quality_of=len(qualities),
        progress=_mean([one.after - one.before for one in made if one.before is not None and one.after is not None]),
        expected_avoided=sum(one.avoided for one in expected) if expected else None,
        expected_cost=sum(one.cost for one in expected) if expected else None,
        cost=sum(costs) if costs else None,
        compared=len(costs),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
