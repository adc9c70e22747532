"""Estimate how many calls a run will need, by the needs of its agent's earlier runs.

Often that cannot be known: too few runs, or runs too different from each other. Then there is no estimate.
"""

from bisect import bisect_right
from typing import Final

import msgspec

from midcourse.core.terms import TaskClass
from midcourse.policy.document import TIMED, Classes

ENOUGH: Final = 5
"""Runs that an estimate needs."""
_WIDEST: Final = 1.0
"""The middle half of the runs may be as wide as their median, not wider."""


class CallHistory(msgspec.Struct, gc=False, frozen=True):
    """Calls and working seconds of an agent's earlier turns that completed, each in ascending order."""

    calls: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()


NO_HISTORY: Final = CallHistory()


def calls_left(made: int, history: CallHistory) -> float | None:
    """Return the median of the calls left in the runs that needed more than were made by now; None if unknown."""
    longer = history.calls[bisect_right(history.calls, made) :]
    count = len(longer)
    if count < ENOUGH:
        return None
    low, middle, high = longer[count // 4], longer[count // 2], longer[(3 * count) // 4]
    return float(middle - made) if high - low <= _WIDEST * middle else None


def class_of(history: CallHistory, classes: Classes, elapsed: float) -> TaskClass:
    """Return the class that the agent's history predicts; a run that outlives its class belongs to the next.

    The run of an agent without a history may not be short: it begins as a long one.
    """
    seconds = history.seconds
    known = len(seconds) >= ENOUGH
    expected = max(seconds[len(seconds) // 2], elapsed) if known else elapsed
    for name in TIMED if known else TIMED[-1:]:
        up_to = classes.of(name).up_to
        if up_to is None and name == TIMED[-1]:
            return name
        if up_to is not None and expected < up_to:
            return name
    return "very_long"
