"""Interventions: that a policy stepped in, what people say of that, and the budget they raise."""

from typing import Literal

from midcourse.core.events.event import Event
from midcourse.core.ids import AskId, InterventionId, PauseId
from midcourse.core.policy_decision import Decision

Verdict = Literal["right", "wrong", "unsure"]
"""The label of an intervention: if it was right to step in."""


class InterventionMade(Event, tag="intervention.made@1"):
    """A policy, or the agent itself, stepped in or told people of something, with all of its reasons.

    ``pause`` and ``ask`` name what it led to.
    """

    intervention: InterventionId
    by: str
    decision: Decision
    pause: PauseId | None = None
    ask: AskId | None = None


class InterventionLabelled(Event, tag="intervention.labelled@1"):
    """A person says whether it was right to step in. ``about`` is an intervention, a pause or a message."""

    about: str
    verdict: Verdict
    by: str
    note: str = ""


class SessionRated(Event, tag="session.rated@1"):
    """A person says how content they are with it, from 1 to 5."""

    score: int
    by: str
    note: str = ""


class BudgetRaised(Event, tag="budget.raised@1"):
    """The session's new budget, in dollars."""

    budget: float
    by: str


InterventionEvent = InterventionMade | InterventionLabelled | SessionRated | BudgetRaised
