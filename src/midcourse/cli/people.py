"""Who sits at this terminal: what the journal says of who steered a file of sessions. A server knows by the token."""

import getpass


def me() -> str:
    """The name of the user, or ``local`` where there is none."""
    try:
        return getpass.getuser() or "local"
    except (OSError, KeyError):
        return "local"
