"""Everything a decision may depend on: what is known of a run at one moment."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from midcourse.core.terms import TaskClass

SIGNALS: Final[Mapping[str, str]] = {
    "duration": "seconds that the turn has worked",
    "cost": "dollars that the session has cost",
    "cost.per_action": "dollars of the dearest action since the last decision",
    "cost.acceleration": "what recent requests cost, as a multiple of what earlier ones did",
    "budget": "share of the session's budget that is spent",
    "errors": "share of the recent calls that failed",
    "errors.streak": "failures in a row",
    "scope_drift": "distance of the recent actions from the goal",
    "scope_drift.alignment": "distance of the recent actions from the agent's hypothesis",
    "resources": "different things that were touched",
    "token_rate": "tokens a second, as a share of the session's own average",
    "calls_left": "share of the estimated calls that is left, once half of the budget is spent",
    "hypothesis": "seconds since the hypothesis was stated or changed",
    "scope.expansion": "domains changed, as a multiple of those it began in",
    "scope.new_domain": "changes in unconfirmed domains",
    "loops": "the same call again, with no progress reported",
    "api_calls": "requests to models and tools",
    "compute_seconds": "seconds that calls took",
    "bytes": "bytes that calls moved",
    "own_artifacts": "things it made itself and has used since",
    "risk": "chance that this run fails, by the combined model",
}
"""Every signal, and what its number is."""


class Latch(msgspec.Struct, gc=False, frozen=True):
    """The effects of a signal's stage so far: ``told`` people, ``done`` something."""

    told: int = 0
    done: int = 0


class Observed(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One observation of a run. ``values`` are the signals that were measured, ``unseen`` why the others were not.

    ``told`` is what has been decided before in this turn. ``words`` adds to a signal's sentence what its number hides.
    """

    task_class: TaskClass = "long"
    is_class_declared: bool = False
    at: float | None = None
    elapsed: float | None = None
    actions: int = 0
    requests: int = 0
    values: Mapping[str, float] = {}
    unseen: Mapping[str, str] = {}
    words: Mapping[str, str] = {}
    told: Mapping[tuple[str, str], Latch] = {}
    went_back: AbstractSet[tuple[str, str]] = frozenset()
    """The signals that notified people in this turn and have clearly gone back since: they count anew."""
    plan_asked_at: int | None = None
    occasions: int = 0
    """The interruptions of this session by policies; a pause after it explained its plan is no other one."""
    is_held: bool = False
    """True if it may not act before it has stated its hypothesis, and was asked for that."""
    is_explaining: bool = False
    """True if it was asked for its plan, and has not been paused since."""
    share_left: float | None = None
    calls_left: float | None = None
    dollars_per_request: float | None = None
    seconds_per_request: float | None = None
    kilobytes: float = 0.0
    risk_threshold: float | None = None
    risk_warns: float | None = None
    """The calibrated threshold of the risk: for runs like this one, or only for runs in general."""
