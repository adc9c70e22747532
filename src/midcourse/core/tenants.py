"""Whose a session is: the tenant is part of its id, and so of every key that is made of one. Pure.

``acme~sess_x`` is the tenant ``acme``'s. An id without ``~`` belongs to the default tenant, whose name is empty.
Children are named after their parent, so that a tree never leaves its tenant.
"""

import re
from typing import Final

from midcourse.core.ids import SessionId
from midcourse.errors import InvalidInput

MARK: Final = "~"
"""Stands between a tenant and what is its own."""
DEFAULT: Final = ""
"""The tenant of callers that name none."""
PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"
_NAME: Final = re.compile(PATTERN)


def tenant_of(key: str) -> str:
    """Return the tenant of a session's id, or of any key with a tenant in front."""
    tenant, mark, _ = key.partition(MARK)
    return tenant if mark else DEFAULT


def in_tenant(tenant: str, session_id: str) -> SessionId:
    """Return the id as the tenant's own. One that names its tenant already stays the same.

    Raises:
        InvalidInput: it names another tenant.
    """
    if MARK not in session_id:
        return SessionId(f"{tenant}{MARK}{session_id}" if tenant else session_id)
    if tenant_of(session_id) != tenant:
        raise InvalidInput(
            f"'{session_id[:100]}' is not an id of this tenant's: the part before '{MARK}' names the tenant. "
            "Leave that out.",
            field="session_id",
        )
    return SessionId(session_id)


def check_tenant(name: str) -> str:
    """Return ``name``, if it can be a tenant's name.

    Raises:
        InvalidInput: it cannot.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{name[:100]!r} cannot be a tenant's name. Use 1 to 32 lower-case letters, digits and -, beginning with "
            "a letter or digit.",
            field="tenant",
        )
    return name
