"""What was decided as an entry for the audit log, and the log read back with its chain checked."""

from collections.abc import Sequence

from midcourse.core.audit import Audited, AuditEntry, check, damaged_audit, decided, unreadable
from midcourse.core.commands import decode_command
from midcourse.core.events import AnyEvent
from midcourse.core.ids import SessionId
from midcourse.errors import Damaged
from midcourse.ports.store import InboxRow, Store
from midcourse.runtime.outcomes import Outcome


def entry_of(session_id: SessionId, row: InboxRow, outcome: Outcome, events: Sequence[AnyEvent] = ()) -> AuditEntry:
    """Who wished what with ``row``, and what came of it."""
    try:
        command = decode_command(row.content)
    except Damaged as error:
        return unreadable(session_id, row.id, outcome.code, error.message)
    return decided(session_id, command, outcome.code, events)


async def read_audit(store: Store, after: int = 0, limit: int = 100) -> list[Audited]:
    """The entries behind ``after``, at most ``limit``, each one following from the one before it.

    Raises:
        Damaged: an entry was changed, removed or put in between; the sentence names it.
    """
    if after <= 0:
        return check(await store.audit(0, limit))
    known, *rows = await store.audit(after - 1, limit + 1) or (None,)
    if known is None:
        return []
    if known.seq != after:
        raise damaged_audit(after, "it is missing", found=known.seq)
    return check(rows, known)
