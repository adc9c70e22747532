"""The ladder of people's roles: each may do what the ones before it may. An agent stands on none of its rungs."""

from typing import Final, get_args

from midcourse.core.commands import Role, Rung
from midcourse.errors import InvalidInput

LADDER: Final[tuple[Rung, ...]] = get_args(Rung)
"""watch, steer, approve, operate: from the least to the most."""


def includes(role: Role, needed: Rung) -> bool:
    """Return True if ``role`` has the rights of ``needed``."""
    return role != "agent" and LADDER.index(role) >= LADDER.index(needed)


def role_named(text: str) -> Rung:
    """Return the role of that name.

    Raises:
        InvalidInput: there is none.
    """
    for role in LADDER:
        if role == text:
            return role
    raise InvalidInput(f"There is no role {text!r}. The roles are {', '.join(LADDER)}.", field="role")
