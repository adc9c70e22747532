"""A decided command as its entry for the audit log."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from midcourse.core.audit import AuditEntry, decided, unreadable
from midcourse.core.commands import AnyCommand, decode_command
from midcourse.core.events import AnyEvent
from midcourse.core.ids import SessionId
from midcourse.errors import Damaged
from midcourse.ports.store import InboxRow
from midcourse.runtime.command_outcome import CommandOutcome

ERASED_CODE: Final = "session_erased"


def entry_of(
    session_id: SessionId,
    row: InboxRow,
    outcome: CommandOutcome,
    events: Sequence[AnyEvent] = (),
    command: AnyCommand | None = None,
) -> AuditEntry:
    """Return who sent ``row``, and what came of it. Of an erased session it does not say what was asked for.

    ``command``: what ``row`` holds, if it has been decoded.
    """
    try:
        command = command or decode_command(row.content)
    except Damaged as error:
        return unreadable(session_id, row.id, outcome.code, error.message)
    entry = decided(session_id, command, outcome.code, events)
    return replace(entry, detail="") if is_of_erased(outcome) else entry


def is_of_erased(outcome: CommandOutcome) -> bool:
    """Return whether a command came after its session was erased: what it says must not be kept."""
    return outcome.code == ERASED_CODE
