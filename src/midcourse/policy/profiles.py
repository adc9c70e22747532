"""The three profiles and the presets. Each number is the design's; ``_profile`` says what a profile's number means."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.policy.document import (
    BudgetRule,
    Classes,
    CostRule,
    DriftRule,
    DurationRule,
    ErrorRule,
    Levels,
    Policy,
    Restraint,
    Signals,
    Targets,
)
from midcourse.policy.durations import Span

LONGEST_TURN: Final = 45.0
"""Minutes after which any profile stops a turn."""
_WARN_AT_DRIFT: Final = 0.5 / 0.7
"""The table warns of drift at 0.5 where it steps in at 0.7; other profiles keep that ratio."""


def _profile(
    name: str,
    about: str,
    *,
    minutes: float,
    cost: tuple[float, float],
    streak: int,
    drift: float,
    resources: float,
    per_hour: int,
    response: float,
) -> Policy:
    turn = DurationRule(
        warn=Span(0.4 * minutes * 60),
        explain=Span(0.8 * minutes * 60),
        intervene=Span(minutes * 60),
        stop=Span(min(LONGEST_TURN, 1.8 * minutes) * 60),
    )
    return Policy(
        name=name,
        about=about,
        response_target=Span(response * 60),
        signals=Signals(
            duration=turn,
            # A milestone above the stop is never reached.
            cost=CostRule(
                warn=cost[0], stop=cost[1], milestones=tuple(one for one in CostRule().milestones if one <= cost[1])
            ),
            errors=ErrorRule(streak=streak),
            scope_drift=DriftRule(warn=round(_WARN_AT_DRIFT * drift, 2), intervene=drift),
            resources=Levels(warn=0.4 * resources, intervene=resources, stop=2 * resources),
        ),
        restraint=Restraint(interventions_per_hour=per_hour),
    )


CONSERVATIVE: Final = _profile(
    "conservative",
    "Steps in early: for agents that are new, or that touch what matters.",
    minutes=15,
    cost=(5, 25),
    streak=3,
    drift=0.5,
    resources=30,
    per_hour=3,
    response=2,
)
STANDARD: Final = _profile(
    "standard",
    "The table of signals as it is: a starting point, to be calibrated from your own runs.",
    minutes=25,
    cost=(10, 50),
    streak=5,
    drift=0.7,
    resources=50,
    per_hour=5,
    response=5,
)
PERMISSIVE: Final = _profile(
    "permissive",
    "Steps in late: for agents that have earned it.",
    minutes=45,
    cost=(25, 100),
    streak=10,
    drift=0.85,
    resources=100,
    per_hour=10,
    response=15,
)
PROFILES: Final[Mapping[str, Policy]] = {one.name: one for one in (CONSERVATIVE, STANDARD, PERMISSIVE)}

_classes = Classes()
CUSTOMER_SUPPORT: Final = replace(
    STANDARD,
    name="customer-support",
    extends="standard",
    about="Many short conversations; what takes up to five minutes is finished first.",
    classes=replace(
        _classes,
        medium=replace(_classes.medium, automatic="never", strategy="finish", interruption_rate=(0.0, 0.0)),
        long=replace(_classes.long, interruption_rate=(0.10, 0.15), completion_rate=(0.95, 0.98)),
    ),
    targets=Targets(load="10,000 a day", completion=0.95, satisfaction=0.80),
)
TRADING: Final = replace(
    STANDARD,
    name="trading",
    extends="standard",
    about="Never interrupted: a stop waits for the end. A budget still tells people.",
    ask_plan=False,
    signals=replace(STANDARD.signals, budget=BudgetRule()),
    classes=replace(
        _classes,
        short=replace(_classes.protected, up_to=Span(30)),
        medium=replace(_classes.protected, up_to=Span(300)),
        long=_classes.protected,
        very_long=_classes.protected,
    ),
    targets=Targets(
        load="100 a second", response_p50=Span(0.1), response_p99=Span(0.2), completion=0.999, satisfaction=0.95
    ),
)
CODE_GENERATION: Final = replace(
    STANDARD,
    name="code-generation",
    extends="standard",
    about="Written piece by piece; its user can interrupt any time.",
    classes=replace(
        _classes,
        long=replace(
            _classes.long,
            strategy="incremental",
            checkpoint_calls=None,
            checkpoint_tokens=1000,
            segment_tokens=100,
            interruption_rate=(0.10, 0.15),
            completion_rate=(0.90, 0.95),
        ),
    ),
    targets=Targets(load="1,000 a day", response_p99=Span(5), completion=0.90, quality=0.95),
)
PRESETS: Final[Mapping[str, Policy]] = {one.name: one for one in (CUSTOMER_SUPPORT, TRADING, CODE_GENERATION)}
BUILT_IN: Final[Mapping[str, Policy]] = {**PROFILES, **PRESETS}
