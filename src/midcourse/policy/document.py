"""A policy: signals and their thresholds, restraint, the strategy of each task class, targets. One versioned document.

Every number of a policy stands here once, with what it means. A threshold of None does not exist.
"""

from typing import Annotated, Final, Literal, dataclass_transform

import msgspec
from msgspec import Meta

from midcourse.core.terms import TaskClass
from midcourse.policy.durations import Span

Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Automatic = Literal["never", "watched", "yes"]
"""If a policy may interrupt a class: never (it notifies people at most); only by stops and milestones; by all it has.

A run that only looks like a class that is never interrupted is stopped all the same.
"""
Strategy = Literal["finish", "interrupt", "checkpoint", "incremental", "protect"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Part(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a policy document: unknown names are refused."""


class DurationRule(Part):
    """The working time of a turn; paused and waiting time is not counted."""

    warn: Span | None = Span(600)
    explain: Span | None = Span(1200)
    intervene: Span | None = Span(1500)
    stop: Span | None = Span(2700)


class CostRule(Part):
    """Dollars of a session. A milestone pauses and asks, and beats a warning at the same amount."""

    warn: Amount | None = 10.0
    stop: Amount | None = 50.0
    per_action: Amount | None = 1.0
    milestones: tuple[Amount, ...] = (10.0, 25.0, 50.0)
    acceleration: Amount | None = 2.0
    """Warn when recent requests cost so many times what the earlier ones did."""


class BudgetRule(Part):
    """Share of the session's own budget that is spent."""

    warn: Share | None = 0.8
    stop: Share | None = 1.0


class ErrorRule(Part):
    """Share of the recent calls that failed, of at least ``at_least``; and failures in a row."""

    warn: Share | None = 0.2
    intervene: Share | None = 0.4
    streak: Count | None = 5
    at_least: Count = 5


class Levels(Part):
    """Three thresholds, each of which may be missing."""

    warn: Amount | None = None
    intervene: Amount | None = None
    stop: Amount | None = None


class DriftRule(Part):
    """Distance of the recent actions from the goal, from 0 to 1, after calibration for an encoder and a domain."""

    warn: Share | None = 0.5
    intervene: Share | None = 0.7
    domain: str = "general"
    alignment: Share | None = None
    """Step in when the recent actions are this far from the agent's own hypothesis."""

    @property
    def is_measured(self) -> bool:
        """Return whether it has a threshold."""
        return (self.warn, self.intervene, self.alignment) != (None, None, None)


class TokenRateRule(Part):
    """Tokens a second of the recent requests, as a share of the session's own average."""

    intervene: Share | None = 0.3


class CallsLeftRule(Part):
    """Tool calls that are left, by the agent's own history."""

    intervene: Share | None = 0.5
    """Step in when more than this share of the estimate is left once the same share of the budget is spent."""
    finish: Share | None = 0.15
    """Below this share left it is let finish, unless a stop fires."""


class HypothesisRule(Part):
    """Time since the agent last stated or changed its hypothesis. ``required``: it must state one before it acts."""

    warn: Span | None = Span(600)
    intervene: Span | None = Span(900)
    required: bool = False


class ScopeRule(Part):
    """The spread of the work: domains touched compared with the first ones, and actions in a new domain."""

    expansion: Amount | None = 2.0
    new_domain: Count | None = 5


class LoopRule(Part):
    """A repeated call with no progress reported. A call that differs in one argument counts ``1/alike``."""

    warn: Amount | None = 3.0
    intervene: Amount | None = 5.0
    alike: Annotated[float, Meta(ge=1)] = 4.0


class RiskRule(Part):
    """The combined risk, from 0 to 1. None: what the model was calibrated to for its stated rate of false stops."""

    warn: Share | None = None
    intervene: Share | None = None
    enabled: bool = False
    first_after: Span = Span(0)
    """Working time before the first alarm of a calibrated risk, whose rate of false stops counts from the start."""
    alone: bool = True
    """With a calibrated risk, the thresholds that it replaces only notify people. Stops and money stay."""


class Signals(Part):
    """Every signal and its thresholds."""

    duration: DurationRule = DurationRule()
    cost: CostRule = CostRule()
    budget: BudgetRule = BudgetRule()
    errors: ErrorRule = ErrorRule()
    scope_drift: DriftRule = DriftRule()
    resources: Levels = Levels(warn=20, intervene=50, stop=100)
    token_rate: TokenRateRule = TokenRateRule()
    calls_left: CallsLeftRule = CallsLeftRule()
    hypothesis: HypothesisRule = HypothesisRule()
    scope: ScopeRule = ScopeRule()
    loops: LoopRule = LoopRule()
    api_calls: Levels = Levels()
    compute_seconds: Levels = Levels()
    bytes: Levels = Levels()
    risk: RiskRule = RiskRule()


class WorthRule(Part):
    """The cost of an interruption until it has been measured, and the worth of a minute of a person's time."""

    per_request: Amount = 0.005
    """Dollars of a request that is made again; also of a request with an unknown price."""
    per_kilobyte: Amount = 0.0005
    recovery: Amount = 0.005
    quality: Share = 0.10
    """Share of the work of ``quality_for`` that is lost while the thread is picked up again."""
    quality_for: Span = Span(30)
    minute: Amount = 0.05
    """Dollars that a minute of a run is worth to the person who waits for it."""
    attention: Span = Span(30)
    """The time that an interruption takes of a person, until it has been measured."""
    chance: Share = 0.5
    """The chance that a run is going wrong when a signal fires, if no risk tells better."""


class Restraint(Part):
    """Limits that keep interventions few enough to be read. Hard stops and milestones are never held back."""

    first_after_actions: Count = 3
    first_after: Span = Span(120)
    interventions_per_hour: Count = 5
    requests_per_intervention: Count = 1000
    batch: Span = Span(3600)
    """Alarms that do not interrupt are gathered for so long and told at once."""
    approvals_in_a_row: Count = 20
    false_positives: Share = 0.30
    """A signal that was wrong more often than this, of at least ``labels`` labelled, only tells people."""
    labels: Count = 10
    labels_for: Span = Span(30 * 86400)
    """So long a label counts, while the signal has the thresholds it had then: mistrust of a signal ends."""
    quality: Share = 0.90
    """Below this quality no review tightens a threshold."""
    again: Share = 0.2
    """A signal notifies people again once it has gone back by this share of its threshold."""
    again_after: Count = 12
    """Actions in a row for which one that goes up and down must have been so far back; drift looks back on as many."""
    retries: Count = 3
    patience: Count = 3
    """Actions after it was asked for its plan before an agent that is still past the threshold is paused."""
    worth: WorthRule = WorthRule()


class ClassRule(Part):
    """The handling of a task class, and its targets."""

    automatic: Automatic = "yes"
    strategy: Strategy = "checkpoint"
    up_to: Span | None = None
    """The class of tasks that take no longer than this, if none is declared."""
    checkpoint_calls: Count | None = None
    checkpoint_tokens: Count | None = None
    segment_tokens: Count | None = None
    interruption_rate: tuple[Share, Share] = (0.0, 1.0)
    completion_rate: tuple[Share, Share] = (0.95, 1.0)


class Classes(Part):
    """The task classes."""

    short: ClassRule = ClassRule(
        automatic="never",
        strategy="finish",
        up_to=Span(30),
        interruption_rate=(0.0, 0.0),
        completion_rate=(1.0, 1.0),
    )
    medium: ClassRule = ClassRule(
        automatic="watched",
        strategy="interrupt",
        up_to=Span(300),
        interruption_rate=(0.05, 0.10),
        completion_rate=(0.95, 0.98),
    )
    long: ClassRule = ClassRule(
        strategy="checkpoint",
        up_to=Span(3600),
        checkpoint_calls=1000,
        interruption_rate=(0.10, 0.20),
        completion_rate=(0.90, 0.95),
    )
    very_long: ClassRule = ClassRule(
        strategy="incremental",
        segment_tokens=100,
        interruption_rate=(0.15, 0.30),
        completion_rate=(0.85, 0.90),
    )
    protected: ClassRule = ClassRule(
        automatic="never",
        strategy="protect",
        interruption_rate=(0.0, 0.0),
        completion_rate=(0.999, 1.0),
    )

    def of(self, task_class: TaskClass) -> ClassRule:
        rule: ClassRule = getattr(self, task_class)
        return rule


class Targets(Part):
    """The targets that reports compare the measurements with."""

    response_p50: Span = Span(0.1)
    response_p99: Span = Span(0.5)
    completion: Share = 0.95
    satisfaction: Share = 0.80
    quality: Share = 0.90
    load: str = ""
    """The expected load, in plain words: ``10,000 a day``. The checklist names it."""


class Environments(Part):
    """Where calls that change something need an approval, and how long the audit log keeps entries about prod."""

    require_tag: bool = False
    approve: tuple[str, ...] = ("prod",)
    approve_paid: bool = True
    audit: Span = Span(90 * 86400)


class Artifacts(Part):
    """The agent's own artifacts: they must be documented, and are reviewed."""

    documented: bool = True
    review: Span = Span(7 * 86400)
    flag_use: bool = True
    """If people are notified when the agent uses what it made itself."""


class AgentAsks(Part):
    """When the agent itself asks. ``near``: the share of a threshold from which on it is near."""

    ambiguous: bool = True
    credentials: bool = True
    drift: bool = True
    limits: bool = True
    unknown_errors: bool = True
    near: Share = 0.9
    known_errors: tuple[str, ...] = ()
    """Kinds of errors that the agent is expected to handle by itself, beside those that every program meets."""


POLICY_NAME: Final = r"^([a-z0-9][a-z0-9-]{0,31}~)?[a-z0-9][a-z0-9-]{0,63}$"
"""A tenant's own policy has the tenant in front: ``acme~careful``."""


class Policy(Part):
    """One policy. ``name`` and ``version`` are its identity; ``extends`` what it was made from."""

    name: Annotated[str, Meta(pattern=POLICY_NAME)] = msgspec.field(name="policy")
    version: Count = 1
    extends: str = ""
    about: str = ""
    ask_plan: bool = True
    """If an agent is asked to explain its plan before it is paused for the first time."""
    response_target: Span = Span(300)
    """The time in which a person should answer."""
    correction: Count = 200
    """Characters of a person's correction."""
    signals: Signals = Signals()
    restraint: Restraint = Restraint()
    classes: Classes = Classes()
    targets: Targets = Targets()
    environments: Environments = Environments()
    artifacts: Artifacts = Artifacts()
    agent_asks: AgentAsks = AgentAsks()

    @property
    def id(self) -> str:
        """Such as ``standard@3``."""
        return f"{self.name}@{self.version}"


CLASSES: Final[tuple[TaskClass, ...]] = ("short", "medium", "long", "very_long", "protected")
TIMED: Final[tuple[TaskClass, ...]] = ("short", "medium", "long")
"""The classes that end where ``up_to`` says; what takes longer than all of them is ``very_long``."""
