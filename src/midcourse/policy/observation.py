"""Everything a decision may depend on: what is known of a run at one moment."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from midcourse.core.terms import TaskClass


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
