"""Why a session that has ended has no result, in a sentence that says what to do now. Pure."""

from typing import Final

from midcourse.core.session import Session
from midcourse.core.steps import WORLD_CHANGED
from midcourse.errors import SessionEnded

FINAL: Final = ("damaged", "unencodable", "agent_unavailable", "agent_changed")
"""Failures that trying again cannot mend."""


def without_result(session: Session) -> SessionEnded:
    """The error for whoever wants the result of a session that failed or was cancelled."""
    failure = session.failure
    if failure is None:
        return SessionEnded(
            f"Session '{session.id}' was cancelled; its receipt says what became of each call.", session_id=session.id
        )
    again = "" if failure.code in FINAL else " Resume it to try again."
    if failure.code == "agent_error":  # the agent's own code, which does the same again
        again = " Mend that and resume it, or redirect it."
    if failure.code == WORLD_CHANGED:
        again = " Resume it to go on all the same."
    return SessionEnded(
        f"Session '{session.id}' failed ({failure.code}): {failure.message.rstrip('.')}.{again}",
        code=failure.code,
        session_id=session.id,
    )


def asks_nothing(session: Session) -> SessionEnded:
    """The error for whoever waits for an ask of a session that has ended."""
    return SessionEnded(f"Session '{session.id}' is {session.status} and asks nothing.", session_id=session.id)
