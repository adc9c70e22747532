"""One verb for many sessions: each gets the ordinary command, and what became of each is told."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from midcourse.core import commands as cmd
from midcourse.core.tenants import MARK
from midcourse.errors import MidcourseError, SessionNotFound
from midcourse.server.caller import Caller, Steerer
from midcourse.server.documents import BODY, answers
from midcourse.server.schemas import Bulk
from midcourse.server.views import answer

router = APIRouter(tags=["controls"])
AT_ONCE: Final = 32
"""Commands that are under way at the same time."""
PATIENCE: Final = 2.0
"""Seconds that a session whose worker did not answer at once has to do so."""
LONGEST: Final = 20.0
"""Seconds after which those that have not answered are not waited for any more."""
NOT_REACHABLE: Final = "not_reachable"
"""It is written down, and its worker has not answered. Not an error: it is carried out as soon as somebody can."""


@router.post("/sessions/bulk", responses=answers("BulkOutcomes", 200, body=True))
async def bulk(caller: Steerer, body: Annotated[Bulk, BODY]) -> Response:
    """Pause, resume or cancel many sessions. One that refuses does not keep the others from it.

    Each gets the ordinary command of the caller; `outcomes` are in the order of the request. With an Idempotency-Key a
    retry is, for each session, the same command.
    """
    command = _command(caller, body)
    clock = caller.control.worker.clock
    end = clock.monotonic() + LONGEST
    places = asyncio.Semaphore(AT_ONCE)

    async def send(session_id: str, patience: float) -> dict[str, Any]:
        async with places:
            return await _outcome(caller, command, session_id, max(0.0, min(patience, end - clock.monotonic())))

    # It reaches all of them before a silent worker is waited for: sent again, it is the same command.
    names = list(dict.fromkeys(body.sessions))
    found = await asyncio.gather(*(send(one, 0.0) for one in names))
    again = [one["session"] for one in found if one["code"] == NOT_REACHABLE]
    answered = {one["session"]: one for one in await asyncio.gather(*(send(one, PATIENCE) for one in again))}
    return answer({"outcomes": [answered.get(one["session"], one) for one in found]})


async def _outcome(caller: Caller, command: cmd.AnyCommand, session_id: str, wait: float) -> dict[str, Any]:
    """What became of one: whether it was taken, how it stands, and else why not."""
    told: dict[str, Any] = {"session": session_id, "ok": False, "status": "", "code": "", "problem": ""}
    try:
        name = session_id if MARK in session_id else caller.own_id(session_id)
        caller.check_visible(name)
        reply = await caller.send(name, command, wait=wait, until="decided")
    except SessionNotFound as error:  # where the store lies is not the caller's business
        return told | {"code": error.code, "problem": f"There is no session '{session_id}' here."}
    except MidcourseError as error:
        return told | {"code": error.code, "problem": str(error), "status": str(error.fields.get("status", ""))}
    if reply.level == "accepted":
        words = "Written down; its worker has not answered. It is carried out as soon as one can."
        return told | {"status": reply.status, "code": NOT_REACHABLE, "problem": words}
    return told | {"ok": True, "status": reply.status}


def _command(caller: Caller, body: Bulk) -> cmd.AnyCommand:
    match body.verb:
        case "pause":
            return caller.wish(cmd.Pause, reason=body.reason, grace=body.grace)
        case "resume":
            return caller.wish(cmd.Resume)
        case "cancel":
            given = {} if body.grace is None else {"grace": body.grace}
            return caller.wish(cmd.Cancel, reason=body.reason, **given)
