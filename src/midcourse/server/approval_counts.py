"""Counts what people approve in a row, wherever their answers arrive."""

import contextlib

from midcourse.core.codec import Value
from midcourse.core.replies import Reply
from midcourse.errors import MidcourseError
from midcourse.people.inbox import PeopleInbox, approves, wants_yes
from midcourse.ports.store import AskHead
from midcourse.server.caller import Caller


async def note_answer(caller: Caller, asked: AskHead | None, value: Value, reply: Reply) -> None:
    """Count it among what this person approved lately. The answer stands, whatever comes of that.

    ``asked`` is what was open before; None: nothing, or it is not clear what. What is not decided yet is not counted.
    """
    if asked is None or not wants_yes(asked) or reply.level == "accepted":
        return
    approved = approves(asked, value)
    with contextlib.suppress(MidcourseError):
        desk = PeopleInbox(caller.store, caller.clock)
        await desk.note_answer(asked, session_id=reply.session, by=caller.principal.by, approved=approved)
