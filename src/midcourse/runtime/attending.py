"""Which of the sessions that are at work nobody drives: their process is dead, and no other has taken them."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from midcourse.core.session import Status
from midcourse.ports.store import Head, Store

AT_WORK: Final = frozenset({Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""Where a session stands that works, or finishes a stop."""
_MOST: Final = 10_000


async def with_unattended(store: Store, heads: Sequence[Head], now: float) -> Sequence[Head]:
    """The same heads; those that nobody drives say so."""
    if not any(head.status in AT_WORK for head in heads):
        return heads
    statuses = sorted(one.value for one in AT_WORK)
    alone = {one.head.id for one in await store.unattended(statuses, now, limit=_MOST) if one.head.status in AT_WORK}
    return [replace(head, unattended=True) if head.id in alone else head for head in heads] if alone else heads
