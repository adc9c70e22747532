"""Contact with a session's worker: commands that it has not decided, and since when it has not answered. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from midcourse.core.commands import decode_command, verb
from midcourse.core.session import Status
from midcourse.errors import Damaged

AT_WORK: Final = frozenset({Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""The statuses of a session that works, or finishes a stop."""

MISSED: Final = 3.0
"""A worker whose last heartbeat is older than so many times the patience with an undecided command is silent."""


class PendingCommand(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A command that is stored and not decided yet: what it is, whose, and when it was stored."""

    command: str
    by: str
    at: float


class Contact(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The state of a session's worker, beside the journal.

    ``pending`` are the commands it has not decided, in order. ``unreachable_since`` is set if it lives and has left one
    undecided for too long: it has not answered since then. ``silent_since``: its process lives, and its last heartbeat
    was then, too long ago. ``unattended``: no process that lives drives the session, although there is something to do.
    ``unwritten``: this process has shut its gate, and could not write that to the journal yet: nothing begins, and
    whether it stays stopped should the process end is open.
    """

    pending: tuple[PendingCommand, ...] = ()
    unreachable_since: float | None = None
    silent_since: float | None = None
    unattended: bool = False
    unwritten: bool = False


def pending_commands(rows: Iterable[tuple[float, bytes]]) -> tuple[PendingCommand, ...]:
    """Return what undecided inbox rows say, each given as its time and its content. Damaged ones are left out."""
    found: list[PendingCommand] = []
    for at, content in rows:
        try:
            command = decode_command(content)
        except Damaged:
            continue
        found.append(PendingCommand(command=verb(command), by=command.by, at=at))
    return tuple(found)


def unreachable_since(pending: Iterable[PendingCommand], *, before: float) -> float | None:
    """Return since when a worker that lives has not answered; None if nothing was stored ``before`` that time."""
    since = min((one.at for one in pending), default=None)
    return since if since is not None and since <= before else None


def silent_since(heartbeat: float | None, last_event: float, *, now: float, patience: float) -> float | None:
    """Return the last sign of life of a worker that lives; None if that is recent, or heartbeats are not known.

    ``patience`` is how many seconds a worker may leave a command undecided.
    """
    if heartbeat is None:
        return None
    # A worker with no session sends no heartbeats. The first event of one that it takes counts as well.
    last = max(heartbeat, last_event)
    return last if last < now - MISSED * patience else None
