"""After a restore: every session that had not ended is halted, because the one it was copied from may still run."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from midcourse.core.commands import Halt
from midcourse.core.ids import CommandId, SessionId, StepId
from midcourse.core.session import ENDED, LIVE, Status
from midcourse.errors import MidcourseError
from midcourse.ports.store import Head, HeadQuery, every_head
from midcourse.runtime.control import Control

BY: Final = "restore"
"""The one who halts what is restored."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a restored store: how many sessions had ended, those that are halted, those that could not be."""

    backup_at: float
    ended: int
    halted: tuple[SessionId, ...]
    unknown: dict[SessionId, tuple[StepId, ...]]
    """The calls that were in flight when the backup was made: their outcome is unknown."""
    failed: dict[SessionId, str]


async def halt_all(control: Control, backup_at: float, told: Callable[[int, int], None]) -> Restored:
    """Halt every session that has not ended, parents before their children, and say what was in flight."""
    when = datetime.fromtimestamp(backup_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    reason = f"restored from a backup of {when}; the original may still run"
    heads = await _all(control, LIVE)
    ended = len(await _all(control, ENDED))
    unknown: dict[SessionId, tuple[StepId, ...]] = {}
    failed: dict[SessionId, str] = {}
    halted: list[SessionId] = []
    for done, session_id in enumerate(sorted((head.id for head in heads), key=lambda one: (one.count("."), one)), 1):
        try:
            session = await control.session(session_id)
            if session.status not in ENDED and session.status is not Status.HALTED:
                command = Halt(
                    id=CommandId(f"restore_{control.worker.clock.fresh_id()}"), by=BY, role="operate", reason=reason
                )
                await control.send(session_id, command, until="stopped", wait=control.worker.settings.cleanup)
            elif session.status is Status.HALTED:
                await control.worker.attend(session_id)  # who had it is gone, and what was in flight is lost
            session = await control.session(session_id)
        except MidcourseError as error:
            failed[session_id] = error.message
            continue
        if session.status in ENDED:
            ended += 1
            continue
        halted.append(session_id)
        if session.lost:
            unknown[session_id] = session.lost
        if session.status is not Status.HALTED:
            failed[session_id] = f"it is {session.status} and could not be halted"
        told(done, len(heads))
    return Restored(backup_at=backup_at, ended=ended, halted=tuple(halted), unknown=unknown, failed=failed)


async def _all(control: Control, statuses: frozenset[Status]) -> list[Head]:
    query = HeadQuery(statuses=[one.value for one in statuses])
    return [head async for head in every_head(control.worker.store, query)]
