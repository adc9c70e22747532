"""The sender of a command: the agent whose code this is, or people and their programs.

An agent's code, its tools and what they start run in contexts and processes that are marked as the agent's. What is
sent from there through Midcourse is sent as the agent, whatever name or token it is given.
"""

import os
from contextvars import ContextVar
from typing import Final

from midcourse.core.agent_rights import check_no_agent
from midcourse.core.ids import SessionId
from midcourse.errors import SessionNotFound
from midcourse.ports.store import Store

AGENT_VARIABLE: Final = "MIDCOURSE_AGENT"
"""The environment variable that marks a process as an agent's; it holds the session's id."""
AGENT_HEADER: Final = "Midcourse-Agent"
"""The header that marks a request as an agent's, whatever its token may do; it holds the session's id."""

_agent: ContextVar[SessionId | None] = ContextVar("midcourse_agent", default=None)


def enter_agent(session_id: SessionId, *, process: bool = False) -> None:
    """Mark the present context as the code of a session's agent; ``process``: and what this process starts."""
    _agent.set(session_id)
    if process:
        os.environ[AGENT_VARIABLE] = session_id


def agent_here() -> SessionId | None:
    """Return the session whose agent's code this is, in whatever store it may be; None: it is no agent's."""
    named = _agent.get() or os.environ.get(AGENT_VARIABLE)
    return SessionId(named) if named else None


async def sender(store: Store) -> SessionId | None:
    """Return the session of this store whose agent's code this is; None: people send from here.

    Of a store that does not have its session an agent is no agent: it may keep one of its own.
    """
    named = agent_here()
    return named if named is not None and await has_session(store, named) else None


async def has_session(store: Store, session_id: SessionId) -> bool:
    try:
        await store.head(session_id)
    except (SessionNotFound, UnicodeEncodeError):  # no id that was ever given holds half a surrogate pair
        return False
    return True


async def check_people_send(store: Store, what: str) -> None:
    """Refuse what is no agent's to do, if an agent's code wants it done.

    Raises:
        AccessDenied: ``not_for_agents``.
    """
    check_no_agent(await sender(store), what)
