"""Many sessions' facts as a report. Pure."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from midcourse.analysis.reports.alerts import alerts_of
from midcourse.analysis.reports.counters import Remaining, Shares, floats, spread, times
from midcourse.analysis.reports.facts import Interruption, SessionFacts, ToolUse, range_of
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
from midcourse.core.ids import SessionId
from midcourse.core.rates import Stopper
from midcourse.core.terms import TaskClass
from midcourse.policy.document import CLASSES, Policy
from midcourse.policy.restraint import may_stop

_AUTOMATIC: Final = frozenset[Stopper](("policy", "agent"))


@dataclass(slots=True)
class _OfClass(Shares):
    policies: set[str] = field(default_factory=set[str])
    declared: int = 0
    rated: int = 0
    satisfied: int = 0
    scores: int = 0
    response: "array[float]" = field(default_factory=floats)
    stops: "array[float]" = field(default_factory=floats)


@dataclass(slots=True)
class _Sum:
    """Adds up what is known."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def known(self) -> float | None:
        return self.total if self.count else None

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class _OfKind:
    count: int = 0
    by: "Counter[Stopper]" = field(default_factory=Counter[Stopper])
    dollars: float = 0.0
    estimated: int = 0
    requests: int = 0
    kilobytes: _Sum = field(default_factory=_Sum)
    quality: _Sum = field(default_factory=_Sum)
    progress: _Sum = field(default_factory=_Sum)
    avoided: _Sum = field(default_factory=_Sum)
    expected: _Sum = field(default_factory=_Sum)
    cost: _Sum = field(default_factory=_Sum)
    response: "array[float]" = field(default_factory=floats)
    save: "array[float]" = field(default_factory=floats)
    waited: "array[float]" = field(default_factory=floats)
    wait: "array[float]" = field(default_factory=floats)
    recovery: "array[float]" = field(default_factory=floats)
    resolution: "array[float]" = field(default_factory=floats)


class _Targets(msgspec.Struct, frozen=True):
    """The targets of a class: one row of the report for each class and set of these."""

    task_class: TaskClass
    interruption: Range
    completion: Range
    satisfaction: float
    p50: float
    p99: float
    range: tuple[float, float | None] | None


class Tally:
    """Takes in one session's facts after the other. Keeps counts, and eight bytes for each time that was measured."""

    def __init__(self) -> None:
        self._classes: dict[_Targets, _OfClass] = {}
        self._kinds: dict[str, _OfKind] = {}
        self._signals: dict[tuple[str, str], Counter[str]] = {}
        self._notices = 0
        self._limits: dict[tuple[str, str], tuple[float, int]] = {}
        self._agents: Counter[str] = Counter()
        self._policies: Counter[str] = Counter()
        self._said: Counter[str] = Counter()
        self._answers = floats()
        self._asked = self._open = self._in_time = 0
        self._answer_targets: set[float] = set()
        self._outlived: dict[SessionId, tuple[str, ...]] = {}
        self._outlived_count = 0
        self._tools: dict[ToolUse, None] = {}
        self._budgeted = self._pinned = 0
        self._cost = 0.0
        self._all = Shares()
        self._remaining = Remaining()
        self._unseen: Counter[str] = Counter()
        self._decided = 0
        self._against: Counter[TaskClass] = Counter()

    def add(self, facts: SessionFacts, policy: Policy) -> None:
        """Count a session, which ``policy`` says the targets of."""
        self._cost += facts.cost
        self._agents[facts.agent] += 1
        self._policies[facts.policy or "(none)"] += 1
        self._budgeted += facts.budget is not None
        self._pinned += "@" in facts.policy
        self._tools |= dict.fromkeys(facts.tools)
        if facts.outlived:
            self._outlived_count += 1
            if len(self._outlived) < MOST_NAMED:
                self._outlived[facts.id] = facts.outlived
        self._all.count(facts)
        self._remaining.add(facts)
        self._decided += bool(facts.decisions)
        self._unseen.update(facts.unseen)
        rule = policy.classes.of(facts.task_class)
        if not may_stop(rule, is_declared=facts.is_class_declared) and facts.stopped_by & _AUTOMATIC:
            self._against[facts.task_class] += 1
        of_class = self._of_class(facts, policy)
        for one in facts.interruptions:
            self._interruption(one, of_class)
        self._notices += len(facts.notices)
        for one in facts.judged:
            self._said[one.label or "none"] += 1
            self._label(facts.agent, one, policy, one.label or "none")
        for one in facts.warnings:
            if one.is_labelled:
                self._said[f"warned, {one.label}"] += 1
                self._label(facts.agent, one, policy, f"warned, {one.label}")
        for one in (*facts.interruptions, *facts.notices):
            self._label(facts.agent, one, policy, "notice" if one.kind == "notify" else "stepped in")
        target = float(policy.response_target)
        for asked in facts.asked:
            self._asked += 1
            self._answer_targets.add(target)
            if asked.seconds is not None:
                self._answers.append(asked.seconds)
                self._in_time += asked.seconds <= target
            elif not asked.end and not facts.outcome:
                self._open += 1

    def _of_class(self, facts: SessionFacts, policy: Policy) -> _OfClass:
        rule, aims = policy.classes.of(facts.task_class), policy.targets
        key = _Targets(
            facts.task_class,
            rule.interruption_rate,
            rule.completion_rate,
            aims.satisfaction,
            float(aims.response_p50),
            float(aims.response_p99),
            range_of(facts.task_class, policy.classes),
        )
        row = self._classes.setdefault(key, _OfClass())
        row.count(facts)
        row.policies.add(policy.name)
        row.declared += facts.is_class_declared
        if facts.score is not None:
            row.rated += 1
            row.satisfied += facts.score >= SATISFIED
            row.scores += facts.score
        return row

    def _interruption(self, one: Interruption, of_class: _OfClass) -> None:
        row = self._kinds.setdefault(one.kind, _OfKind())
        row.count += 1
        row.by[one.stopper] += 1
        row.dollars += one.money.dollars
        row.requests += one.money.requests
        row.estimated += one.money.is_estimate
        for value, columns in (
            (one.response, (row.response, of_class.response)),
            (one.stop, (row.waited,) if one.waited_for else (row.save, of_class.stops)),
            (one.wait, (row.wait,)),
            (one.recovery, (row.recovery,)),
            (one.resolution, (row.resolution,)),
        ):
            if value is not None:
                for column in columns:
                    column.append(value)
        row.kilobytes.add(one.kilobytes)
        row.quality.add(one.quality)
        if one.before is not None and one.after is not None:
            row.progress.add(one.after - one.before)
        if one.expected is not None:
            row.avoided.add(one.expected.avoided)
            row.expected.add(one.expected.cost)
            row.cost.add(one.cost)

    def _label(self, agent: str, one: Interruption, policy: Policy, what: str) -> None:
        for signal in one.signals if one.is_by_policy else ():
            for key in ((signal, agent), (signal, "")):
                self._signals.setdefault(key, Counter())[what] += 1
                limit = (policy.restraint.false_positives, policy.restraint.labels)
                self._limits[key] = min(self._limits.get(key, limit), limit)

    # ---- the report

    def report(
        self, since: float, until: float, notes: Sequence[str] = (), unreadable: Mapping[str, str] | None = None
    ) -> Report:
        """Return what it all comes to. ``unreadable``: sessions whose journals cannot be read, and why."""
        order = {name: place for place, name in enumerate(CLASSES)}
        keys = sorted(self._classes, key=lambda key: (order[key.task_class], sorted(self._classes[key].policies)))
        classes = tuple(_class_row(key, self._classes[key]) for key in keys)
        by_count = sorted(self._signals, key=lambda key: (-_times(self._signals[key[0], ""]), key))
        signals = tuple(self._signal_row(*key, self._signals[key]) for key in by_count)
        kinds = tuple(_kind_row(kind, row) for kind, row in sorted(self._kinds.items(), key=lambda one: -one[1].count))
        answers = self._answers_row()
        estimates, recoveries = self._remaining.estimates(), self._all.recoveries()
        consistency = self._all.consistency(unreadable or {})
        said = self._said
        stops = [stop for row in self._classes.values() for stop in row.stops]
        bars = Counter(bisect_right(EDGES, stop) for stop in stops)
        return Report(
            since=since,
            until=until,
            sessions=self._all.sessions,
            ended=self._all.ended,
            agents=dict(self._agents.most_common()),
            policies=dict(self._policies.most_common()),
            interventions=sum(row.count for row in kinds),
            by=dict(sum((Counter(row.by) for row in kinds), Counter[Stopper]())),
            notices=self._notices,
            labelled=rate(said["right"], said["right"] + said["wrong"]),
            warnings=rate(said["warned, right"], said["warned, right"] + said["warned, wrong"]),
            dollars_avoided=sum(row.expected_avoided or 0.0 for row in kinds),
            dollars_cost=sum(row.expected_cost or 0.0 for row in kinds),
            cost=self._cost,
            classes=classes,
            signals=signals,
            kinds=kinds,
            answers=answers,
            stops=times(stops),
            histogram=tuple(Bar(edge, bars[place]) for place, edge in enumerate((*EDGES, None))),
            waited=times(stop for row in self._kinds.values() for stop in row.waited),
            outlived={str(name): calls for name, calls in self._outlived.items()},
            outlived_count=self._outlived_count,
            tools=tuple(sorted(self._tools, key=lambda one: one.name)),
            budgeted=self._budgeted,
            pinned=self._pinned,
            outcomes=self._all.outcomes(),
            token_rate=spread(self._all.token_rates),
            estimates=estimates,
            recoveries=recoveries,
            consistency=consistency,
            returns=self._all.returns(),
            unseen=dict(self._unseen.most_common()),
            decided=self._decided,
            against_strategy=dict(self._against),
            alerts=alerts_of(classes, signals, answers, estimates, recoveries, consistency),
            notes=tuple(notes),
        )

    def _signal_row(self, signal: str, agent: str, said: Counter[str]) -> SignalRow:
        limit, needed = self._limits[signal, agent]
        return SignalRow(
            signal=signal,
            agent=agent,
            interventions=said["stepped in"],
            notices=said["notice"],
            warnings_right=said["warned, right"],
            warnings_wrong=said["warned, wrong"],
            right=said["right"],
            wrong=said["wrong"],
            unsure=said["unsure"],
            rate=rate(said["wrong"], said["right"] + said["wrong"], (0.0, limit)),
            needed=needed,
        )

    def _answers_row(self) -> Answers:
        target = min(self._answer_targets) if self._answer_targets else None
        return Answers(
            asked=self._asked,
            open=self._open,
            seconds=times(self._answers),
            within=rate(self._in_time, len(self._answers), (0.5, 1.0)),
            target=target,
            resolution=times(one for row in self._kinds.values() for one in row.resolution),
        )


def _times(said: Counter[str]) -> int:
    """Return how often a signal led to anything."""
    return said["stepped in"] + said["notice"]


def _class_row(key: _Targets, row: _OfClass) -> ClassRow:
    return ClassRow(
        task_class=key.task_class,
        policies=tuple(sorted(row.policies)),
        sessions=row.sessions,
        declared=row.declared,
        interrupted=rate(row.stopped, row.sessions, key.interruption),
        interrupted_by=dict(row.stopped_by),
        completed=rate(row.completed, row.ended, key.completion),
        satisfied=rate(row.satisfied, row.rated, (key.satisfaction, 1.0)),
        score=row.scores / row.rated if row.rated else None,
        response=times(row.response, key.p50, key.p99),
        stops=times(row.stops, key.p50, key.p99),
        duration=row.durations(key.range),
        token_rate=spread(row.token_rates),
        outcomes=row.outcomes(key.completion),
    )


def _kind_row(kind: str, row: _OfKind) -> KindRow:
    return KindRow(
        kind=kind,
        count=row.count,
        by=dict(row.by),
        response=times(row.response),
        save=times(row.save),
        waited=times(row.waited),
        wait=times(row.wait),
        recovery=times(row.recovery),
        resolution=times(row.resolution),
        dollars=row.dollars,
        estimated=row.estimated,
        requests=row.requests,
        kilobytes=row.kilobytes.mean,
        quality=row.quality.mean,
        quality_of=row.quality.count,
        progress=row.progress.mean,
        expected_avoided=row.avoided.known,
        expected_cost=row.expected.known,
        cost=row.cost.known,
        compared=row.cost.count,
    )
