"""The ladder of roles: each may do what the ones before it may."""

from typing import Final, get_args

from midcourse.core.commands import Role
from midcourse.errors import InvalidInput

LADDER: Final[tuple[Role, ...]] = get_args(Role)
"""watch, steer, approve, operate: from the least to the most."""


def includes(role: Role, needed: Role) -> bool:
    """Whether ``role`` may do what ``needed`` may."""
    return LADDER.index(role) >= LADDER.index(needed)


def role_named(text: str) -> Role:
    """The role of that name.

    Raises:
        InvalidInput: there is none.
    """
    for role in LADDER:
        if role == text:
            return role
    raise InvalidInput(f"There is no role {text!r}. The roles are {', '.join(LADDER)}.", field="role")
