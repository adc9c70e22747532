"""The effect of each command in each status: the command table, and ``decide``, which reads it. Pure."""

from collections.abc import Mapping
from typing import Final, get_args

from msgspec.structs import replace

from midcourse.core import asks, cancels, caps, halts, interventions, messages, pauses
from midcourse.core import commands as cmd
from midcourse.core.agent_rights import could, leaves_as_it_is, objection
from midcourse.core.budget import needed
from midcourse.core.commands import agent_of
from midcourse.core.rules import OFFERED_IF, Events, Rule
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import InvalidInput, Refused

_ROWS: Final = {
    **pauses.TABLE,
    **messages.TABLE,
    **cancels.TABLE,
    **asks.TABLE,
    **caps.TABLE,
    **halts.TABLE,
    **interventions.TABLE,
}
TABLE: Final[Mapping[type[cmd.AnyCommand], Mapping[Status, Rule]]] = {
    kind: _ROWS[kind] for kind in get_args(cmd.AnyCommand)
}
"""The command table of the design: every command × every status, nothing left out."""
NO_BUTTONS: Final = frozenset({cmd.OutsideEvent, cmd.Budget, cmd.Halt, cmd.Lift, cmd.Intervene, cmd.Label, cmd.Rate})
"""Commands that no hint names: a program's, the kill switch's own, those that are offered beside what they judge.

A budget is named once it must be raised."""


def decide(session: Session, command: cmd.AnyCommand, *, longest_correction: int | None = None) -> Events:
    """Return the facts ``command`` makes in ``session``. No facts: it is accepted and changes nothing.

    ``longest_correction``: the most characters that the session's policy allows; None: any number.

    Raises:
        Refused: it is not allowed now, or not to the agent that sends it; the error says what is.
        InvalidInput: it is a correction that is too long, or a cancel with ``restart`` and without ``force``.
    """
    if agent_of(command.by) is not None:
        command = replace(command, role="agent")  # whatever it says: an agent has no rung
    try:
        _check(session, command)
        if longest_correction is not None:
            _check_correction(session, command, longest_correction)
        return () if leaves_as_it_is(session, command) else TABLE[type(command)][session.status](session, command)
    except Refused as no:
        now = allowed(session, command.role, command.by)
        hint = f" Allowed now: {', '.join(now)}." if now else ""
        raise Refused(
            f"Cannot {cmd.phrase(command)} session '{session.id}': {no.message} ({no.code}).{hint}",
            code=no.code,
            allowed=now,
            session_id=session.id,
            status=str(session.status),
            **{name: fact for name, fact in no.fields.items() if name != "allowed"},
        ) from None


def _check(session: Session, command: cmd.AnyCommand) -> None:
    """Refuse what no rule of the table checks."""
    not_for_it = objection(session, command)
    if not_for_it is not None:
        code, why = not_for_it
        raise Refused(why, code=code)
    if command.expects and command.expects != session.mark:
        why = f"it has moved on from '{command.expects}', and is '{session.mark}' now. Look again, then decide"
        raise Refused(why, code="precondition_failed")
    if session.erased_at is not None and not isinstance(command, cmd.Cancel):
        raise Refused("what was said and done in it was erased. Start a new session", code="session_erased")
    if isinstance(command, cmd.Cancel) and command.restart and not command.force:
        raise InvalidInput("restart goes with force: only what is forced to end is begun anew.", field="restart")


def _check_correction(session: Session, command: cmd.AnyCommand, most: int) -> None:
    """Refuse a redirect that is longer than the session's policy takes. Another goal, or turn, is no correction."""
    if not isinstance(command, cmd.Redirect) or command.level == "goal" or session.status in ENDED:
        return
    if len(command.text) > most:
        raise InvalidInput(
            f"The correction has {len(command.text):,} characters; the policy '{session.terms.policy}' takes at most "
            f"{most}. Say it shorter, or give another goal (level 'goal').",
            field="text",
        )


def allowed(session: Session, role: cmd.Role = "steer", by: str = "") -> tuple[str, ...]:
    """Return the verbs that ``role`` may use now, for hints and buttons.

    ``by`` matters if it names an agent, which may do what is on its list.
    """
    if session.erased_at is not None:
        return (cmd.verb(cmd.Cancel),)  # which changes nothing, and answers with the receipt
    is_agents = agent_of(by) is not None
    verbs: list[str] = []
    is_at_cap = needed(session) is not None
    for kind, row in TABLE.items():
        is_hidden = kind in NO_BUTTONS and not (kind is cmd.Budget and is_at_cap)
        if is_hidden or (is_agents and not could(session, kind, by)):
            continue
        is_offered = OFFERED_IF.get(row[session.status])
        if is_offered is None or is_offered(session, role):
            verbs.append(cmd.verb(kind))
    return tuple(verbs)
