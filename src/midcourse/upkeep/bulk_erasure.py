"""Erases ended sessions, and what the file tools kept for an undo of theirs."""

import asyncio
from collections.abc import Sequence

from midcourse.core import commands as cmd
from midcourse.core.ids import SessionId
from midcourse.core.request_checks import check_reason
from midcourse.core.session import Session
from midcourse.ports.sender import check_people_send
from midcourse.runtime.worker import Worker
from midcourse.upkeep.erasure import erase


async def erase_sessions(
    worker: Worker,
    session_ids: Sequence[SessionId],
    *,
    by: str,
    role: cmd.Role,
    reason: str = "",
    go_on: bool = False,
) -> Sequence[Session]:
    """Erase ended sessions, and what the file tools kept for an undo of theirs. See ``runtime.erasing``.

    Raises:
        Refused: one has not ended. InvalidInput: the reason is too long. SessionNotFound: there is no such session.
    """
    from midcourse.tools.backups import forget_backups

    await check_people_send(worker.store, "erase a session")
    check_reason(reason)
    erased = await erase(worker, session_ids, by=by, role=role, reason=reason, go_on=go_on)
    await asyncio.to_thread(forget_backups, frozenset[str]().union(*(one.keys for one in erased)))
    return [one.session for one in erased]
