"""One verb for many sessions, and what became of each. Pure."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

import msgspec

from midcourse.core.ids import StepId
from midcourse.errors import InvalidInput

BulkVerb = Literal["pause", "resume", "cancel", "lift"]
MOST_SESSIONS: Final = 1000
"""Sessions that one request may name."""
NOT_REACHABLE: Final = "not_reachable"
"""It is stored, and its worker has not answered. Not an error: it is carried out as soon as a worker answers."""

NOT_DURABLE: Final = "not_durable"
"""It was stopped, and the store refused the write: it stays stopped while its process lives."""


class BulkOutcome(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The result for one session: if its command was accepted, its status if that is known, and else why not.

    Of one that was stopped and whose stop could not be written, ``ok`` is True and ``code`` is ``not_durable``.
    ``unknown`` are calls that were lost with their process: their outcome is unknown.
    """

    session: str
    ok: bool = False
    status: str = ""
    code: str = ""
    problem: str = ""
    unknown: tuple[StepId, ...] = ()


def check_bulk(verb: str, sessions: Sequence[str]) -> list[str]:
    """Return the named sessions, each once.

    Raises:
        InvalidInput: there is no such verb, or none or too many are named.
    """
    if verb not in get_args(BulkVerb):
        raise InvalidInput(f"verb is {verb!r}; it is one of {', '.join(get_args(BulkVerb))}.", field="verb")
    names = list(dict.fromkeys(sessions))
    if not 0 < len(names) <= MOST_SESSIONS:
        raise InvalidInput(f"{len(names):,} sessions are named; name 1 to {MOST_SESSIONS:,}.", field="sessions")
    return names
