"""Check if the workers of sessions answer: what a journal does not hold, read from inboxes and owners."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from midcourse.core.contact import AT_WORK, MISSED, Contact, pending_commands, silent_since, unreachable_since
from midcourse.core.ids import SessionId
from midcourse.ports.store import Head, Store
from midcourse.runtime.worker import Worker

_MOST: Final = 10_000


async def with_contact(store: Store, heads: Sequence[Head], now: float, patience: float) -> Sequence[Head]:
    """Return the same heads; those that no process drives, and those whose worker is silent, say so.

    ``patience`` is how many seconds a worker may leave a command undecided.
    """
    if not heads:
        return heads
    stored: dict[SessionId, list[tuple[float, bytes]]] = defaultdict(list)
    for session_id, row in await store.unanswered(now - patience, limit=_MOST):
        stored[session_id].append((row.put_at, row.content))
    alone: set[SessionId] = set()
    silent: dict[SessionId, float | None] = {}
    if stored or any(head.status in AT_WORK for head in heads):
        statuses = sorted(one.value for one in AT_WORK)
        found = await store.unattended(statuses, now, limit=_MOST, silent_before=now - MISSED * patience)
        at_work = [one for one in found if one.head.status in AT_WORK or one.head.id in stored]
        alone = {one.head.id for one in at_work if not one.alive}
        silent = {
            one.head.id: silent_since(one.heartbeat, one.head.updated_at, now=now, patience=patience)
            for one in at_work
            if one.alive
        }
    if not alone and not silent and not stored:
        return heads
    return [_with_unanswered(head, stored, alone, silent.get(head.id)) for head in heads]


def _with_unanswered(
    head: Head, stored: dict[SessionId, list[tuple[float, bytes]]], alone: set[SessionId], silent: float | None
) -> Head:
    if head.id not in alone and head.id not in stored and silent is None:
        return head
    pending = pending_commands(stored.get(head.id, ()))
    unattended = head.id in alone
    since = None if unattended else min((one.at for one in pending), default=None)
    return replace(head, pending=pending, unattended=unattended, unreachable_since=since, silent_since=silent)


def _is_unwritten(worker: Worker, session_id: SessionId) -> bool:
    driver = worker.driver(session_id)
    if driver is not None and (driver.journal.broken is not None or driver.gate.stops_on_the_way > 0):
        return True
    return worker.has_given_up(session_id) or worker.failed_writes.has_deferred(session_id)


async def contact_of(worker: Worker, session_id: SessionId) -> Contact:
    """Return what is known of a session's worker.

    Raises:
        SessionNotFound: no such session.
    """
    owned = await worker.must_exist(session_id)
    # Decided between the two reads, a command is not pending; put between them, it is young.
    pending = pending_commands((row.put_at, row.content) for row in await worker.store.undecided(session_id))
    now, patience = worker.clock.now(), worker.settings.unreachable_after
    since = unreachable_since(pending, before=now - patience)
    return Contact(
        pending=pending,
        unreachable_since=since if owned.alive else None,
        silent_since=silent_since(owned.heartbeat, owned.head.updated_at, now=now, patience=patience),
        unattended=not owned.alive and (owned.head.status in AT_WORK or since is not None),
        unwritten=_is_unwritten(worker, session_id),
    )
