"""The facts of one session for reports: who interrupted it, how soon it stopped, what that cost, how it ended.

A fact that a journal does not hold is None, and never a guess. The one guess, the price of a request with an unknown
price, is the policy's default and marked as an estimate.
"""

from typing import Final, Literal

import msgspec

from midcourse.core.effects import Effect
from midcourse.core.events import Verdict
from midcourse.core.ids import Position, SessionId
from midcourse.core.policy_decision import Reason, Worth
from midcourse.core.rates import Stopper, stopper_of
from midcourse.core.terms import TaskClass
from midcourse.policy.document import Classes

Kind = Literal["notify", "ask_plan", "ask", "pause", "stop", "redirect", "cancel", "halt"]
"""The kind of intervention; ``notify`` informed people and did not interrupt the agent."""
Outcome = Literal["completed", "failed", "cancelled", ""]
"""The end of a session; empty: not yet."""
STOPS: Final = frozenset[Kind]({"ask", "pause", "stop", "cancel", "halt"})
"""The kinds after which nothing runs. A redirect and the question for its plan change the course of a running agent."""


class Money(msgspec.Struct, gc=False, frozen=True):
    """The cost of requests that a stop interrupted, made again or lost. Estimates are the policy's."""

    dollars: float = 0.0
    requests: int = 0
    is_estimate: bool = False


class Interruption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An intervention. All times are in seconds.

    ``response``: from the request for a stop to its decision; for a policy both are the same. ``save``: from there
    until nothing ran; ``waited_for`` names calls that were allowed to finish. ``wait``: until it was resumed or ended;
    ``answer``: the same from the question on. ``recovery``: from then to its first new step. ``before`` and ``after``:
    the share of its plan that was done then, and at the end of the turn.
    """

    kind: Kind
    by: str
    id: str
    at: float
    position: Position = Position(0)
    reasons: tuple[Reason, ...] = ()
    question: str = ""
    response: float | None = None
    save: float | None = None
    waited_for: tuple[str, ...] = ()
    wait: float | None = None
    answer: float | None = None
    recovery: float | None = None
    resolution: float | None = None
    money: Money = Money()
    kilobytes: float | None = None
    before: float | None = None
    after: float | None = None
    outcome: Outcome = ""
    expected: Worth | None = None
    label: Verdict | None = None
    is_first: bool = True
    """True if no policy had interrupted the turn before."""
    was_held: bool = False
    """True if people were only notified because a policy that would have stepped in was held back."""

    @property
    def stopper(self) -> Stopper:
        return stopper_of(self.by, halts=self.kind == "halt")

    @property
    def is_by_policy(self) -> bool:
        """True if a policy or the agent itself did it. A budget is set by people."""
        return self.stopper in ("policy", "agent")

    @property
    def is_by_person(self) -> bool:
        """True if a person did it, and not by the kill switch."""
        return self.stopper == "person"

    @property
    def is_labelled(self) -> bool:
        """True if it is labelled right or wrong: unsure is neither."""
        return self.label in ("right", "wrong")

    @property
    def stop(self) -> float | None:
        """Seconds from the request until nothing ran."""
        return None if self.save is None else (self.response or 0.0) + self.save

    @property
    def signals(self) -> tuple[str, ...]:
        return tuple(reason.signal for reason in self.reasons) or ((self.question,) if self.question else ())

    @property
    def quality(self) -> float | None:
        """The quality of the turn that continued after it: the share of its plan; without one, if it completed.

        None while the turn runs, and for one that a person cancelled: that was a decision, and no loss.
        """
        if self.outcome not in ("completed", "failed"):
            return None
        return self.after if self.after is not None else float(self.outcome == "completed")

    @property
    def still(self) -> float | None:
        """Seconds for which the run was stopped; None if it never continued."""
        parts = (self.wait, self.recovery) if self.kind in STOPS else (self.recovery,)
        before = 0.0 if self.kind == "halt" else self.save or 0.0  # a halt is in force from its decision on
        return None if None in parts else sum(part for part in parts if part is not None) + before

    @property
    def cost(self) -> float | None:
        """Dollars it really cost, a minute counting as much as was expected; None where nothing was expected."""
        if self.expected is None or self.still is None:
            return None
        return self.money.dollars + self.still / 60 * self.expected.minute


class AskFacts(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A question to a person. ``seconds`` until it was answered; ``end`` if it no longer can be."""

    at: float
    reason: str
    seconds: float | None = None
    end: str = ""


class Recovery(msgspec.Struct, gc=False, frozen=True):
    """A time that the session was to continue: after a stop, or after its process was lost.

    ``worked`` None: it has not got further yet, or another stop came first.
    """

    after: Literal["stop", "loss"]
    worked: bool | None = None


class ToolUse(msgspec.Struct, gc=False, frozen=True):
    """A tool that was called, with its declaration."""

    name: str
    effect: Effect
    can_undo: bool
    can_probe: bool


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of one session that a report needs. ``outlived`` names calls that continued after the session's stop.

    ``calls`` have finished, ``turns`` of a fork is 0. ``flaw``: why its journal does not fold to the state that the
    store has of it; empty if it does, None if it was not checked. ``unseen``: signals that policies could not measure.
    """

    id: SessionId
    agent: str
    task_class: TaskClass
    is_class_declared: bool
    policy: str
    person: str
    started: float
    ended: float | None = None
    outcome: Outcome = ""
    worked: float = 0.0
    score: int | None = None
    cost: float = 0.0
    budget: float | None = None
    interruptions: tuple[Interruption, ...] = ()
    notices: tuple[Interruption, ...] = ()
    asked: tuple[AskFacts, ...] = ()
    outlived: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    calls: int = 0
    turns: int = 1
    token_rates: tuple[float, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    flaw: str | None = None
    decisions: int = 0
    unseen: tuple[str, ...] = ()

    @property
    def was_stopped(self) -> bool:
        """True if it was stopped at least once, by anyone: the interruption rate counts these."""
        return bool(self.stopped_by)

    @property
    def stopped_by(self) -> frozenset[Stopper]:
        return frozenset(one.stopper for one in self.interruptions if one.kind in STOPS)

    @property
    def judged(self) -> tuple[Interruption, ...]:
        """The automatic ones that the false-positive rate counts: they stepped in, or were held back from it."""
        notices = (one for one in self.notices if one.was_held)
        return tuple(one for one in (*self.interruptions, *notices) if one.is_by_policy)

    @property
    def warnings(self) -> tuple[Interruption, ...]:
        """The notices that the false-positive rate does not count: they were only meant to notify."""
        return tuple(one for one in self.notices if one.is_by_policy and not one.was_held)


def range_of(task_class: TaskClass, classes: Classes) -> tuple[float, float | None] | None:
    """Return the seconds that a run of a class takes, as the policy has it; None for a class without a range."""
    short, medium = classes.short.up_to, classes.medium.up_to
    ranges: dict[TaskClass, tuple[float | None, float | None]] = {
        "short": (0.0, short),
        "medium": (short, medium),
        "long": (medium, None),
    }
    low, high = ranges.get(task_class, (None, None))
    if low is None or (high is None and task_class != "long"):
        return None
    return float(low), None if high is None else float(high)
