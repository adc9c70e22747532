"""Check the requests of callers, with the same sentences on an open store and for a server. Pure."""

from collections.abc import Sequence
from typing import Final

from midcourse.core.codec import Value, encode, inline
from midcourse.core.commands import ID_LIMIT, TEXT_LIMIT
from midcourse.core.session import Status
from midcourse.core.tenants import MARK, check_tenant
from midcourse.errors import InvalidInput

REASON_LIMIT: Final = 500
"""Characters of a reason that goes into the audit log as a whole."""
MOST: Final = 1000
"""The most sessions or audit entries that are given at once."""


def check_text(value: object, field: str) -> str:
    """Return ``value``, if it is a text.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{field} is {value!r}; it is a text.", field=field)
    return value


def check_goal(goal: object) -> str:
    """Check a goal.

    Raises:
        InvalidInput: it is not a text, or too long.
    """
    text = check_text(goal, "goal")
    if len(text) > TEXT_LIMIT:
        raise InvalidInput(f"The goal has {len(text):,} characters; at most {TEXT_LIMIT:,} are allowed.", field="goal")
    return text


def check_new_id(wanted: str) -> str:
    """Check the id for a new session.

    Raises:
        InvalidInput: it cannot be one.
    """
    tenant, mark, bare = wanted.rpartition(MARK)
    if mark:
        check_tenant(tenant)
    # No dot: what follows one is a child's name, which its parent gives it.
    begins = bare[:1].isalnum() or bare[:1] == "_"
    if not (begins and len(wanted) <= ID_LIMIT and all(sign.isalnum() or sign in "_-" for sign in bare)):
        raise InvalidInput(
            f"{wanted!r} cannot be a session id. Use 1 to {ID_LIMIT} letters, digits, '_' and '-'.",
            field="session_id",
        )
    return wanted


def check_command_id(given: str) -> str:
    """Check the id for a command.

    Raises:
        InvalidInput: it is empty or too long.
    """
    if not 0 < len(given) <= ID_LIMIT:
        raise InvalidInput(f"A command id has 1 to {ID_LIMIT} characters.", field="command_id")
    return given


def check_listing(status: Sequence[str], limit: int) -> None:
    """Check which sessions to list, and how many.

    Raises:
        InvalidInput: there is no such status, or the limit is not from 1 to 1000.
    """
    check_limit(limit)
    if isinstance(status, str):
        raise InvalidInput(f"status is {status!r}; it is a list: [{status!r}].", field="status")
    unknown = [one for one in status if one not in set(Status)]
    if unknown:
        raise InvalidInput(
            f"Unknown status {', '.join(map(repr, unknown))}. There are: {', '.join(Status)}.",
            field="status",
        )


def check_audit(after: int, limit: int, before: int | None = None) -> None:
    """Check which entries of the audit log are wanted.

    Raises:
        InvalidInput: there can be none.
    """
    if not 0 <= after < 2**63:
        raise InvalidInput(f"after is {after}; it is the seq of the last entry seen, or 0.", field="after")
    if before is not None and not (after == 0 and 0 <= before < 2**63):
        raise InvalidInput(f"before is {before}; it is the seq of an entry, or 0, without after.", field="before")
    check_limit(limit)


def check_limit(limit: int) -> None:
    """Check how many are wanted.

    Raises:
        InvalidInput: it is not a number from 1 to 1000.
    """
    if not 0 < limit <= MOST:
        raise InvalidInput(f"limit is {limit}; it is a number from 1 to {MOST}.", field="limit")


def check_reason(reason: object) -> str:
    """Check the reason of an operation on a session, which always stays.

    Raises:
        InvalidInput: it is not a text, or too long.
    """
    text = check_text(reason, "reason")
    if len(text) > REASON_LIMIT:
        raise InvalidInput(
            f"The reason has {len(text):,} characters; at most {REASON_LIMIT} are allowed.", field="reason"
        )
    return text


def check_days(days: float) -> float:
    """Check how many days something is kept.

    Raises:
        InvalidInput: it is not a number of days, 0 or more.
    """
    if not 0 <= days <= 36_500:
        raise InvalidInput(f"{days:g} is no number of days; it is 0 to 36,500.", field="days")
    return days


def answer_value(answer: object) -> Value:
    """Encode an answer for the journal.

    Raises:
        Unencodable: it cannot be journaled.
    """
    return inline(encode(answer, what="The answer"))
