"""Explain why a session has no result, or no event of that number, and what to do now. Pure."""

from typing import Final

from midcourse.core.ids import SessionId
from midcourse.core.session import Session
from midcourse.core.steps import WORLD_CHANGED
from midcourse.errors import InvalidInput, SessionEnded

FINAL: Final = ("damaged", "unencodable", "agent_unavailable", "agent_changed")
"""Failures that trying again cannot mend."""


def without_result(session: Session) -> SessionEnded:
    """Return the error for a caller that wants the result of a session that failed or was cancelled."""
    failure = session.failure
    if failure is None:
        return SessionEnded(
            f"Session '{session.id}' was cancelled; its receipt shows the outcome of each call.", session_id=session.id
        )
    again = "" if failure.code in FINAL else " Resume it to try again."
    if failure.code == "agent_error":  # the agent's own code, which does the same again
        again = " Mend that and resume it, or redirect it."
    if failure.code == WORLD_CHANGED:
        again = " Resume it to continue all the same."
    return SessionEnded(
        f"Session '{session.id}' failed ({failure.code}): {failure.message.rstrip('.')}.{again}",
        code=failure.code,
        session_id=session.id,
    )


def asks_nothing(session: Session) -> SessionEnded:
    """Return the error for a caller that waits for an ask of a session that has ended."""
    return SessionEnded(f"Session '{session.id}' is {session.status} and asks nothing.", session_id=session.id)


def no_such_position(session_id: SessionId, after: int, end: int) -> InvalidInput:
    """Return the error for a position that the journal does not have."""
    return InvalidInput(
        f"Session '{session_id}' has no event {after}: its journal ends at {end}. Another store may stand here than "
        "the one you read from, restored from a backup, say. Forget what you have, and watch it from the start.",
        code="unknown_position",
        field="after",
        position=end,
    )
