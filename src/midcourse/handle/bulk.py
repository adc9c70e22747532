"""One command to many sessions: it reaches all of them before anybody who is silent is waited for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core.bulk import NOT_DURABLE, NOT_REACHABLE, BulkOutcome, BulkVerb
from midcourse.core.replies import Reply
from midcourse.errors import MidcourseError, SessionNotFound, StoreError
from midcourse.ports.clock import Clock

AT_ONCE: Final = 32
"""Commands that are under way at the same time."""
PATIENCE: Final = 2.0
"""Seconds that a session whose worker did not answer at once has to do so."""
LONGEST: Final = 20.0
"""Seconds after which those that have not answered are not waited for any more."""

Sending = Callable[[str, float], Awaitable[Reply]]
"""Sends the command to one session, and waits so long for it to be decided."""


async def send_to_each(sessions: Sequence[str], send: Sending, clock: Clock) -> list[BulkOutcome]:
    """Return the outcome of each, in their order. One that refuses does not affect the others.

    Raises:
        StoreError: the store failed for every one of them.
    """
    failed: list[StoreError] = []
    end = clock.monotonic() + LONGEST
    places = asyncio.Semaphore(AT_ONCE)

    async def one(session: str, patience: float) -> BulkOutcome:
        async with places:
            return await _outcome(session, send, max(0.0, min(patience, end - clock.monotonic())), failed)

    found = await asyncio.gather(*(one(session, 0.0) for session in sessions))
    if len(failed) == len(found):
        raise failed[0]
    # Sent again, it is the same command: its id is.
    silent = [outcome.session for outcome in found if outcome.code == NOT_REACHABLE]
    answered = {outcome.session: outcome for outcome in await asyncio.gather(*(one(name, PATIENCE) for name in silent))}
    return [answered.get(outcome.session, outcome) for outcome in found]


async def _outcome(session: str, send: Sending, wait: float, failed: list[StoreError]) -> BulkOutcome:
    try:
        reply = await send(session, wait)
    except SessionNotFound as error:  # where the store lies is not everybody's business
        return BulkOutcome(session=session, code=error.code, problem=f"There is no session '{session}' here.")
    except MidcourseError as error:
        if isinstance(error, StoreError):
            failed.append(error)
        status = str(error.fields.get("status", ""))
        return BulkOutcome(session=session, status=status, code=error.code, problem=str(error))
    if reply.level == "accepted":
        words = "Stored; its worker has not answered. It is carried out as soon as a worker answers."
        return BulkOutcome(session=session, status=reply.status, code=NOT_REACHABLE, problem=words)
    if not reply.durable:
        words = (
            f"{reply.level.capitalize()}, not durable: the store refused the write. "
            "It stays stopped while its process lives."
        )
        return BulkOutcome(session=session, ok=True, status=reply.status, code=NOT_DURABLE, problem=words)
    return BulkOutcome(session=session, ok=True, status=reply.status, unknown=reply.unknown)


def bulk_command(verb: BulkVerb, reason: str, grace: float | None, own: dict[str, Any]) -> cmd.AnyCommand:
    """Return the ordinary command of that verb; ``own`` are its id, and its sender."""
    match verb:
        case "pause":
            return cmd.Pause(**own, reason=reason, grace=grace)
        case "resume":
            return cmd.Resume(**own)
        case "lift":
            return cmd.Lift(**own)
        case "cancel":
            wish = cmd.Cancel(**own, reason=reason)
            return wish if grace is None else replace(wish, grace=grace)
