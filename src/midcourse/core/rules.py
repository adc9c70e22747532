"""The parts of the rules for commands: one rule per command and status, which returns events or refuses. Pure.

A rule refuses with a bare :class:`Refused`: its code, and the reason as part of a sentence. ``decide`` completes the
sentence.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from midcourse.core import events as ev
from midcourse.core.commands import Role
from midcourse.core.session import Session, Status
from midcourse.errors import Refused

Events = tuple[ev.AnyEvent, ...]
Rule = Callable[[Session, Any], Events]
"""The effect of a command of one type in one status. Its second parameter is that command."""
Table = Mapping[type[Any], Mapping[Status, Rule]]
"""The effect of each type of command in each status."""
Changes = dict[str, object]
"""Fields of a session, with their next values."""
Arm = Callable[[Session, Any, float], Changes]
"""The effect of an event of one type on a session. Its second parameter is that event, its third the time.

It raises a bare :class:`ImpossibleEvent` if the event cannot be true although the session's status would allow it.
"""

Offer = Callable[[Session, Role], bool]
OFFERED_IF: Final[dict[Rule, Offer]] = {}
"""The conditions for offering a rule's command to a role, where the status alone does not decide."""


def offered_if(condition: Offer) -> Callable[[Rule], Rule]:
    """Offer the command of a rule only where ``condition`` holds."""

    def keep(rule: Rule) -> Rule:
        OFFERED_IF[rule] = condition
        return rule

    return keep


def refusal(code: str, why: str) -> Rule:
    """Return a rule that always refuses. ``{status}`` in ``why`` is the session's."""

    @offered_if(lambda _session, _role: False)
    def rule(session: Session, _command: object) -> Events:
        raise Refused(why.format(status=session.status), code=code)

    return rule


ended: Final = refusal("session_ended", "it has ended, {status}")
not_while: Final = refusal("not_allowed", "it is {status}")
_operator_only: Final = refusal(
    "operator_only", "it is {status}, and the kill switch is an operator's (role 'operate')"
)


def by_operator(rule: Rule) -> Rule:
    """Return the same rule for the role ``operate``, and a refusal for every other."""

    @offered_if(lambda _session, role: role == "operate")
    def checked(session: Session, command: Any) -> Events:
        return rule(session, command) if command.role == "operate" else _operator_only(session, command)

    return checked


def changes_nothing(_session: Session, _command: object) -> Events:
    """Grant the command without a fact: what it wants is so already."""
    return ()
