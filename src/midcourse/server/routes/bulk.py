"""One verb for many sessions: each gets the ordinary command, and what became of each is told."""

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from midcourse.core.bulk import check_bulk
from midcourse.core.replies import Reply
from midcourse.core.tenants import MARK
from midcourse.core.to_json import to_json
from midcourse.errors import Damaged, StoreError
from midcourse.handle.bulk import bulk_command, send_to_each
from midcourse.server.caller import Sender
from midcourse.server.openapi import BODY, answers
from midcourse.server.schemas import Bulk
from midcourse.server.to_json import answer

router = APIRouter(tags=["controls"])


@router.post("/sessions/bulk", responses=answers("BulkOutcomes", 200, body=True))
async def bulk(caller: Sender, body: Annotated[Bulk, BODY]) -> Response:
    """Pause, resume, cancel or lift (an operator's) many sessions. One that refuses does not keep the others from it.

    Each gets the ordinary command of the caller; `outcomes` are in the order of the request. With an Idempotency-Key a
    retry is, for each session, the same command.
    """
    own = {"id": caller.command_id, "by": caller.principal.by, "role": caller.role}
    command = bulk_command(body.verb, body.reason, body.grace, own)

    async def send(session_id: str, wait: float) -> Reply:
        name = session_id if MARK in session_id else caller.own_id(session_id)
        caller.check_visible(name)
        try:
            return await caller.send(name, command, wait=wait)
        except (StoreError, Damaged) as error:
            raise caller.told(error) from error

    names = check_bulk(body.verb, body.sessions)
    return answer({"outcomes": to_json(await send_to_each(names, send, caller.clock))})
