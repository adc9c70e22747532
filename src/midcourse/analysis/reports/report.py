"""The values of a report: rates per task class against their targets, times, false positives, costs.

``METHOD`` explains how each is counted, and is printed under each report.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from midcourse.analysis.reports.facts import ToolUse
from midcourse.analysis.reports.intervals import Proportion, Verdict
from midcourse.core import rates
from midcourse.core.rates import Stopper
from midcourse.core.terms import TaskClass

SATISFIED: Final = 4
"""The least score, of 5, that counts as satisfied."""
MOST_NAMED: Final = 20
"""Sessions that are named for a thing that is counted."""
EDGES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds at which the bars of the histogram end; the last bar has no end."""
METHOD: Final = (
    "A session counts where it began.",
    f"Interrupted: {rates.INTERRUPTED}",
    f"Completed: {rates.COMPLETED}",
    f"Stepped in: {rates.STEPPED_IN}",
    f"Notices only: {rates.ONLY_TOLD}",
    "Classes are those that were declared; else the one that its policy took it for, by its agent's earlier runs and "
    "the time it worked. Without five earlier runs it is long.",
    "Intervals are exact (Clopper and Pearson), 95 %. Too few to say: the interval holds an edge of the target, and "
    "fewer than 30 count for a target that seems kept, or fewer than 200 for one that seems missed.",
    f"Satisfied: the last rating is {SATISFIED} or 5.",
    f"False positives: {rates.FALSE_POSITIVES} A signal counts in every intervention it was a reason of.",
    f"Response: {rates.RESPONSE} Until that was durable as well: see /metrics.",
    f"Stop: {rates.STOPPED} A target is kept if no more than half (p50), or 1 % (p99), took longer.",
    "Quality: the share of its plan that an interrupted turn had done when it ended by itself; without a plan, 1 if it "
    "completed and 0 if it failed.",
    f"Run duration: {rates.DURATION}",
    f"Token rate: {rates.TOKEN_RATE}",
    f"Calls left: {rates.CALLS_LEFT}",
    f"Recovered: {rates.RECOVERED}",
    f"Consistent: {rates.CONSISTENT}",
    f"Completed after a stop: {rates.AFTER_STOP}",
    f"Return: {rates.ROI}",
    "Money: requests that a stop interrupted, by the price of what was made in their place. ~ marks an unknown "
    "price: the policy's default.",
)


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds: the middle value, and the one that 99 % stay below."""

    count: int
    p50: float | None = None
    p99: float | None = None
    most: float | None = None
    target_p50: float | None = None
    target_p99: float | None = None
    verdict_p50: Verdict = "too few to say"
    verdict_p99: Verdict = "too few to say"


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution: the middle value, the one that 99 % do not exceed, and in ``curve`` every twentieth of them."""

    count: int
    p50: float | None = None
    p99: float | None = None
    most: float | None = None
    curve: tuple[float, ...] = ()


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """The working times of runs. ``range``: that of their class; its end is None if open; None: it has no range.

    ``inside``: of those that declared their class. ``verdict``: of the middle one against the range.
    """

    worked: Spread
    range: tuple[float, float | None] | None
    inside: Proportion
    verdict: Verdict


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Completion of runs that were stopped beside those that were not. ``difference`` None: one side is empty."""

    stopped: Proportion
    unstopped: Proportion
    difference: float | None
    cancelled: int


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of the estimate of the remaining calls. ``known``: runs that had one. ``error``: the middle one."""

    within: Proportion
    known: Proportion
    error: float | None


class Recoveries(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that continued after a stop, and after a loss of their process. ``open``: not known yet."""

    all: Proportion
    after_stop: Proportion
    after_loss: Proportion
    open: int


class Consistency(msgspec.Struct, frozen=True, kw_only=True):
    """The journals that fold to the state that the store has of them. ``flaws``: the reasons of some that do not."""

    sessions: Proportion
    flaws: Mapping[str, str]


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """The return of ``counted`` of ``of`` automatic interventions, in dollars. ``roi`` None: unknown."""

    roi: float | None
    worth: float
    cost: float
    counted: int
    of: int


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
    duration: Durations
    token_rate: Spread
    outcomes: Outcomes


class SignalRow(msgspec.Struct, frozen=True, kw_only=True):
    """The labels of the interventions that a signal led to; ``agent`` empty: of all agents."""

    signal: str
    agent: str
    interventions: int
    notices: int
    """The number of mere notices to people."""
    warnings_right: int
    warnings_wrong: int
    """The wrong ones among the notices that were only meant as warnings: in no rate."""
    right: int
    wrong: int
    unsure: int
    rate: Proportion
    needed: int
    """Labels without which the rate says nothing."""

    @property
    def only_told(self) -> str:
        """The notices, and the labels of the warnings among them: ``7 (1 right, 2 wrong)``."""
        said = ((self.warnings_right, "right"), (self.warnings_wrong, "wrong"))
        words = ", ".join(f"{count:,} {verdict}" for count, verdict in said if count)
        return f"{self.notices:,} ({words})" if words else f"{self.notices:,}"

    @property
    def only_warned(self) -> bool:
        """True if there is nothing that a false-positive rate could count."""
        return not self.interventions and not self.rate.of


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """The time and cost of interruptions of one kind. Times are in seconds, the middle one of each."""

    kind: str
    count: int
    by: Mapping[Stopper, int]
    response: Times
    save: Times
    waited: Times
    """These times for stops that let a call finish."""
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
    """The growth of the plan's done share from the interruption to the end of the turn, on average."""
    expected_avoided: float | None
    expected_cost: float | None
    cost: float | None
    compared: int
    """Interruptions whose expected and real cost are both known."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of people: ``seconds`` to the answer; ``within`` the response target of its policy."""

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
    """The figures of all sessions in a time."""

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
    """The number of notices to people without an intervention."""
    labelled: Proportion
    """Of the automatic interventions that people called right or wrong, the right ones."""
    warnings: Proportion
    """The false-positive rate of warnings."""
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
    outcomes: Outcomes
    token_rate: Spread
    estimates: Estimates
    recoveries: Recoveries
    consistency: Consistency
    returns: Return
    budgeted: int
    pinned: int
    unseen: Mapping[str, int]
    """Sessions in which policies decided without a signal that they have a threshold for, by signal."""
    decided: int
    """Sessions in which policies decided at all."""
    against_strategy: Mapping[TaskClass, int]
    """Sessions that were stopped automatically although their declared class is never to be."""
    alerts: tuple[Alert, ...]
    notes: tuple[str, ...] = ()
    meanings: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(rates.MEANINGS))
    """A sentence on what each figure counts, to show beside it."""
    method: tuple[str, ...] = METHOD
