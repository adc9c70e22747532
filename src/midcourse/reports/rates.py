"""Many sessions' facts as a report: rates per task class against their targets, times, false positives, costs. Pure.

Every target that was missed is an alert. What is counted how is said in ``METHOD``, and printed under each report.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from midcourse.core.ids import SessionId
from midcourse.core.policy.document import CLASSES, Policy
from midcourse.core.rates import (
    COMPLETED,
    FALSE_POSITIVES,
    INTERRUPTED,
    MEANINGS,
    ONLY_TOLD,
    RESPONSE,
    STEPPED_IN,
    STOPPED,
    Stopper,
)
from midcourse.core.terms import TaskClass
from midcourse.reports.facts import Interruption, SessionFacts, ToolUse
from midcourse.reports.intervals import Proportion, Range, Verdict, rate
from midcourse.reports.shares import Shares
from midcourse.reports.words import percent, seconds, span_of_target

SATISFIED: Final = 4
"""The least score, of 5, that counts as satisfied."""
MOST_NAMED: Final = 20
"""Sessions that are named for a thing that is counted."""
EDGES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds at which the bars of the histogram end; the last bar has no end."""
METHOD: Final = (
    "A session counts where it began.",
    f"Interrupted: {INTERRUPTED}",
    f"Completed: {COMPLETED}",
    f"Stepped in: {STEPPED_IN}",
    f"Only told: {ONLY_TOLD}",
    "Classes are those that were declared; else what the time they worked turned out to be.",
    "Intervals are exact (Clopper and Pearson), 95 %. Too few to say: the interval holds an edge of the target, and "
    "fewer than 30 count for a target that seems kept, or fewer than 200 for one that seems missed.",
    f"Satisfied: the last rating is {SATISFIED} or 5.",
    f"False positives: {FALSE_POSITIVES} A signal counts in every intervention it was a reason of.",
    f"Response: {RESPONSE} Until that was durable as well: see /metrics.",
    f"Stop: {STOPPED} A target is kept if no more than half (p50), or 1 % (p99), took longer.",
    "Quality: the share of its plan that an interrupted turn had done when it ended by itself; without a plan, 1 if it "
    "completed and 0 if it failed.",
    "Money: requests that a stop tore, by the price of what was made in their place. ~ marks a price that nobody "
    "knows: the policy's default.",
)


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took, in seconds: the middle one, and the one that 99 % stay below."""

    count: int
    p50: float | None = None
    p99: float | None = None
    most: float | None = None
    target_p50: float | None = None
    target_p99: float | None = None
    verdict_p50: Verdict = "too few to say"
    verdict_p99: Verdict = "too few to say"


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task class under one set of targets; ``policies`` are those that have it."""

    task_class: TaskClass
    policies: tuple[str, ...]
    sessions: int
    declared: int
    interrupted: Proportion
    interrupted_by: Mapping[Stopper, int]
    """Of the interrupted ones, how many were stopped by whom; one that several stopped is in each."""
    completed: Proportion
    satisfied: Proportion
    score: float | None
    response: Times
    stops: Times


class SignalRow(msgspec.Struct, frozen=True, kw_only=True):
    """What people said of the interventions that a signal led to; ``agent`` empty: of all agents."""

    signal: str
    agent: str
    interventions: int
    notices: int
    """Times that people were only told of it."""
    warnings_right: int
    warnings_wrong: int
    """What they said of those of them that were warnings, and no more was wanted: in no rate."""
    right: int
    wrong: int
    unsure: int
    rate: Proportion
    needed: int
    """Labels without which the rate says nothing."""

    @property
    def only_told(self) -> str:
        """How often people were only told of it, and what they said of the warnings: ``7 (1 right, 2 wrong)``."""
        said = ((self.warnings_right, "right"), (self.warnings_wrong, "wrong"))
        words = ", ".join(f"{count:,} {verdict}" for count, verdict in said if count)
        return f"{self.notices:,} ({words})" if words else f"{self.notices:,}"

    @property
    def only_warned(self) -> bool:
        """Whether there is nothing that a false-positive rate could be of."""
        return not self.interventions and not self.rate.of


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """What interruptions of one kind took and cost. Times are in seconds, the middle one of each."""

    kind: str
    count: int
    by: Mapping[Stopper, int]
    response: Times
    save: Times
    waited: Times
    """The same for stops that let a call finish."""
    wait: Times
    recovery: Times
    resolution: Times
    dollars: float
    estimated: int
    requests: int
    kilobytes: float | None
    quality: float | None
    quality_of: int
    progress: float | None
    """How much more of their plan was done at the end of the turn than when it was interrupted, on average."""
    expected_avoided: float | None
    expected_cost: float | None
    cost: float | None
    compared: int
    """Interruptions whose expected and real cost are both known."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """How soon people answered: ``seconds`` until a question was; ``within`` the response target of its policy."""

    asked: int
    open: int
    seconds: Times
    within: Proportion
    target: float | None
    resolution: Times


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A target that was missed."""

    what: str
    where: str
    measured: str
    target: str
    count: int
    sentence: str
    """Such as ``Interrupted, long: 31 % of 402; the target is 10–20 %.``"""


class Bar(msgspec.Struct, frozen=True):
    """Stops that took less than ``below`` seconds, and no less than the bar before; None: any longer."""

    below: float | None
    count: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the sessions of a time."""

    since: float
    until: float
    sessions: int
    ended: int
    agents: Mapping[str, int]
    policies: Mapping[str, int]
    interventions: int
    by: Mapping[Stopper, int]
    """Who stepped in, how often."""
    notices: int
    """Times that people were told of something, and nobody stepped in."""
    labelled: Proportion
    """Of the automatic interventions that people called right or wrong, the right ones."""
    warnings: Proportion
    """The same of warnings."""
    dollars_avoided: float
    dollars_cost: float
    cost: float
    classes: tuple[ClassRow, ...]
    signals: tuple[SignalRow, ...]
    kinds: tuple[KindRow, ...]
    answers: Answers
    stops: Times
    histogram: tuple[Bar, ...]
    waited: Times
    outlived: Mapping[str, tuple[str, ...]]
    outlived_count: int
    tools: tuple[ToolUse, ...]
    budgeted: int
    pinned: int
    alerts: tuple[Alert, ...]
    notes: tuple[str, ...] = ()
    meanings: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(MEANINGS))
    """What each figure counts, in words, to stand beside it."""
    method: tuple[str, ...] = METHOD


def times(values: "Iterable[float]", p50: float | None = None, p99: float | None = None) -> Times:
    """The figures of a list of seconds, against targets if there are any."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return Times(count=0, target_p50=p50, target_p99=p99)
    slow = [0 if one is None else count - bisect_right(ordered, one) for one in (p50, p99)]
    return Times(
        count=count,
        p50=ordered[(count - 1) // 2],
        p99=ordered[max(0, -(-99 * count // 100) - 1)],
        most=ordered[-1],
        target_p50=p50,
        target_p99=p99,
        verdict_p50="too few to say" if p50 is None else rate(slow[0], count, (0.0, 0.5)).verdict,
        verdict_p99="too few to say" if p99 is None else rate(slow[1], count, (0.0, 0.01)).verdict,
    )


def _floats() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class _OfClass(Shares):
    policies: set[str] = field(default_factory=set[str])
    declared: int = 0
    rated: int = 0
    satisfied: int = 0
    scores: int = 0
    response: "array[float]" = field(default_factory=_floats)
    stops: "array[float]" = field(default_factory=_floats)


@dataclass(slots=True)
class _OfKind:
    count: int = 0
    by: "Counter[Stopper]" = field(default_factory=Counter[Stopper])
    dollars: float = 0.0
    estimated: int = 0
    requests: int = 0
    kilobytes: float = 0.0
    sized: int = 0
    quality: float = 0.0
    qualities: int = 0
    progress: float = 0.0
    progresses: int = 0
    avoided: float = 0.0
    expected: float = 0.0
    expectations: int = 0
    cost: float = 0.0
    compared: int = 0
    response: "array[float]" = field(default_factory=_floats)
    save: "array[float]" = field(default_factory=_floats)
    waited: "array[float]" = field(default_factory=_floats)
    wait: "array[float]" = field(default_factory=_floats)
    recovery: "array[float]" = field(default_factory=_floats)
    resolution: "array[float]" = field(default_factory=_floats)


class _Targets(msgspec.Struct, frozen=True):
    """What a class is held to: one row of the report for each class and set of these."""

    task_class: TaskClass
    interruption: Range
    completion: Range
    satisfaction: float
    p50: float
    p99: float


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
        self._stops = _floats()
        self._waited = _floats()
        self._bars: Counter[int] = Counter()
        self._answers = _floats()
        self._resolutions = _floats()
        self._asked = self._open = self._in_time = 0
        self._answer_targets: set[float] = set()
        self._outlived: dict[SessionId, tuple[str, ...]] = {}
        self._outlived_count = 0
        self._tools: dict[ToolUse, None] = {}
        self._sessions = self._ended = self._budgeted = self._pinned = 0
        self._cost = 0.0

    def add(self, facts: SessionFacts, policy: Policy) -> None:
        """Count a session, which ``policy`` says the targets of."""
        self._sessions += 1
        self._ended += bool(facts.outcome)
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
        if one.response is not None:
            row.response.append(one.response)
            of_class.response.append(one.response)
        if one.waited_for and one.stop is not None:
            row.waited.append(one.stop)
            self._waited.append(one.stop)
        elif one.stop is not None:
            row.save.append(one.stop)
            of_class.stops.append(one.stop)
            self._stops.append(one.stop)
            self._bars[bisect_right(EDGES, one.stop)] += 1
        for value, column in ((one.wait, row.wait), (one.recovery, row.recovery), (one.resolution, row.resolution)):
            if value is not None:
                column.append(value)
        if one.resolution is not None:
            self._resolutions.append(one.resolution)
        if one.kilobytes is not None:
            row.kilobytes += one.kilobytes
            row.sized += 1
        if one.quality is not None:
            row.quality += one.quality
            row.qualities += 1
        if one.before is not None and one.after is not None:
            row.progress += one.after - one.before
            row.progresses += 1
        if one.expected is not None:
            row.avoided += one.expected.avoided
            row.expected += one.expected.cost
            row.expectations += 1
            if one.cost is not None:
                row.cost += one.cost
                row.compared += 1

    def _label(self, agent: str, one: Interruption, policy: Policy, what: str) -> None:
        for signal in one.signals if one.is_by_policy else ():
            for key in ((signal, agent), (signal, "")):
                self._signals.setdefault(key, Counter())[what] += 1
                limit = (policy.restraint.false_positives, policy.restraint.labels)
                self._limits[key] = min(self._limits.get(key, limit), limit)

    # ---- the report

    def report(self, since: float, until: float, notes: Sequence[str] = ()) -> Report:
        """What it all comes to."""
        order = {name: place for place, name in enumerate(CLASSES)}
        keys = sorted(self._classes, key=lambda key: (order[key.task_class], sorted(self._classes[key].policies)))
        classes = tuple(_class_row(key, self._classes[key]) for key in keys)
        by_count = sorted(self._signals, key=lambda key: (-_times(self._signals[key[0], ""]), key))
        signals = tuple(self._signal_row(*key, self._signals[key]) for key in by_count)
        kinds = tuple(_kind_row(kind, row) for kind, row in sorted(self._kinds.items(), key=lambda one: -one[1].count))
        answers = self._answers_row()
        said = self._said
        return Report(
            since=since,
            until=until,
            sessions=self._sessions,
            ended=self._ended,
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
            stops=times(self._stops),
            histogram=tuple(
                Bar(EDGES[place] if place < len(EDGES) else None, self._bars[place]) for place in range(len(EDGES) + 1)
            ),
            waited=times(self._waited),
            outlived={str(name): calls for name, calls in self._outlived.items()},
            outlived_count=self._outlived_count,
            tools=tuple(sorted(self._tools, key=lambda one: one.name)),
            budgeted=self._budgeted,
            pinned=self._pinned,
            alerts=(*_class_alerts(classes), *_signal_alerts(signals), *_answer_alerts(answers)),
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
            resolution=times(self._resolutions),
        )


def _times(said: Counter[str]) -> int:
    """How often a signal led to anything."""
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
        kilobytes=row.kilobytes / row.sized if row.sized else None,
        quality=row.quality / row.qualities if row.qualities else None,
        quality_of=row.qualities,
        progress=row.progress / row.progresses if row.progresses else None,
        expected_avoided=row.avoided if row.expectations else None,
        expected_cost=row.expected if row.expectations else None,
        cost=row.cost if row.compared else None,
        compared=row.compared,
    )


# ---- alerts


def missed(found: Proportion, *, above: bool = True, below: bool = True) -> bool:
    """Whether a target was missed on a side that counts. To complete more than was aimed at is no miss."""
    return (found.verdict == "above" and above) or (found.verdict == "below" and below)


def _alert(what: str, where: str, measured: str, target: str, count: int) -> Alert:
    sentence = f"{what}, {where}: {measured} of {count:,}; the target is {target}."
    return Alert(what=what, where=where, measured=measured, target=target, count=count, sentence=sentence)


def _class_alerts(rows: Iterable[ClassRow]) -> list[Alert]:
    found: list[Alert] = []
    for row in rows:
        where = row.task_class.replace("_", " ")
        for what, one, above in (
            ("Interrupted", row.interrupted, True),
            ("Completed", row.completed, False),
            ("Satisfied", row.satisfied, False),
        ):
            if one.target is not None and missed(one, above=above):
                found.append(_alert(what, where, percent(one.share), span_of_target(one.target), one.of))
        for what, taken in (("Response", row.response), ("Stop", row.stops)):
            for name, value, target, verdict in (
                ("p50", taken.p50, taken.target_p50, taken.verdict_p50),
                ("p99", taken.p99, taken.target_p99, taken.verdict_p99),
            ):
                if verdict == "above":
                    aim = f"at most {seconds(target)}"
                    found.append(_alert(f"{what} {name}", where, seconds(value), aim, taken.count))
    return found


def is_too_often_wrong(row: SignalRow) -> bool:
    """As the policy has it: more than the limit, of enough labels. It then only tells people."""
    limit = row.rate.target[1] if row.rate.target else 1.0
    return row.rate.of >= max(1, row.needed) and row.rate.share is not None and row.rate.share > limit


def _signal_alerts(rows: Iterable[SignalRow]) -> list[Alert]:
    return [
        _alert(
            "False positives",
            f"{row.signal} of {row.agent}",
            percent(row.rate.share),
            span_of_target(row.rate.target or (0.0, 1.0)),
            row.rate.of,
        )
        for row in rows
        if row.agent and is_too_often_wrong(row)
    ]


def _answer_alerts(row: Answers) -> list[Alert]:
    if row.within.verdict != "below" or row.target is None:
        return []
    measured = f"{percent(row.within.share)} in time"
    aim = f"half of them within {seconds(row.target)}"
    return [_alert("Answered", "all questions", measured, aim, row.within.of)]
