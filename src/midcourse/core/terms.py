"""On what terms an agent works: its task class, its policy, its budget, its checkpoints. Recorded with each session."""

from math import isfinite
from typing import Final, Literal, get_args

import msgspec

from midcourse.errors import InvalidInput

TaskClass = Literal["short", "medium", "long", "very_long", "protected"]
CheckpointBackend = Literal["store", "redis"]
LONGEST_TTL: Final = 366 * 24 * 3600.0


class Terms(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent's author has settled about its runs. Journaled when a session begins.

    ``budget`` is in dollars for a session. ``backend`` is where people can read the checkpoint: the store alone, or
    also Redis; ``ttl_seconds`` ends the right to answer what it asks.
    """

    task_class: TaskClass | None = None
    policy: str = ""
    budget: float | None = None
    backend: CheckpointBackend = "store"
    ttl_seconds: float | None = None


def check_terms(terms: Terms) -> Terms:
    """The same, if it can be meant.

    Raises:
        InvalidInput: it cannot; the sentence says what is known.
    """
    for field, kind in (("task_class", TaskClass), ("backend", CheckpointBackend)):
        value = getattr(terms, field)
        if value is not None and value not in get_args(kind):
            raise InvalidInput(f"{field} is {value!r}; it is one of {', '.join(get_args(kind))}.", field=field)
    for field, most in (("budget", 1e9), ("ttl_seconds", LONGEST_TTL)):
        value = getattr(terms, field)
        if value is not None and not (isfinite(value) and 0 < value <= most):
            raise InvalidInput(f"{field} is {value:g}; it is a number above 0, at most {most:g}.", field=field)
    return terms


NO_TERMS: Final = Terms()
"""Nothing is settled."""
