"""The detail of a session's journal: the size of its segments, and the distance of its snapshots. Pure."""

from typing import Final

import msgspec

from midcourse.core.snapshot import TOOL_CALLS_LIMIT
from midcourse.policy.document import ClassRule

SEGMENT_TOKENS: Final = 100
"""Streamed pieces of a durable segment, where neither the program nor a policy says anything."""


class Pace(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """At most so many ended ``calls``, or ``tokens``, lie between two snapshots, and so many pieces in a ``segment``.

    How large a snapshot may be for that, ``core.snapshot.is_due`` knows.
    """

    calls: int = TOOL_CALLS_LIMIT
    tokens: int | None = None
    segment: int = SEGMENT_TOKENS


def pace_of(rule: ClassRule | None, segment_tokens: int | None = None) -> Pace:
    """Return the pace of a session whose policy has this rule for its class; None: without a policy.

    ``segment_tokens`` is the program's own setting, if any: a policy makes that finer, and never coarser.
    """
    if rule is None:
        return Pace(segment=segment_tokens or SEGMENT_TOKENS)
    wanted = [size for size in (segment_tokens, rule.segment_tokens) if size]
    return Pace(
        calls=min(TOOL_CALLS_LIMIT, rule.checkpoint_calls or TOOL_CALLS_LIMIT),
        tokens=rule.checkpoint_tokens or None,
        segment=min(wanted, default=SEGMENT_TOKENS),
    )


USUAL: Final = Pace()
