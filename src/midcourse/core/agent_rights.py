"""The rights of an agent over its own session and those it spawned: the list that ``decide`` reads. Pure.

The rules of this module: an agent has no role of the people's ladder. It may stop, and send messages; it never changes
the messages or the stops of others. A command that is not on the list is refused.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core.commands import agent_name, agent_of, is_below, outranks
from midcourse.core.ids import CommandId, MessageId, SessionId, message_id, root_of
from midcourse.core.pauses import joins_pause
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import AccessDenied

NOT_FOR_AGENTS: Final = "not_for_agents"
OWN_ASK: Final = "own_ask"


class Right(NamedTuple):
    """If an agent may send a command to its own session and to a child, and within which limits, or why not."""

    itself: bool
    child: bool
    words: str


RIGHTS: Final[Mapping[type[cmd.AnyCommand], Right]] = {
    cmd.Pause: Right(True, True, "a stop that another sender made stays exactly as it is"),
    cmd.Resume: Right(
        True, True, "only what it, or a child's agent, has stopped, and only until the session has ended"
    ),
    cmd.Redirect: Right(
        False,
        True,
        "not while the child asks something, not the goal once a person has said something, and it opens no new turn",
    ),
    cmd.Cancel: Right(True, True, "without force or restart, and a cancel or a deferred stop of others stays theirs"),
    cmd.Undo: Right(False, False, "people decide what is rolled back after the end"),
    cmd.Answer: Right(False, False, "an ask is a person's to answer, never the session's that asked"),
    cmd.Message: Right(True, True, "it waits for its turn, and opens none in a session that has ended"),
    cmd.Edit: Right(True, True, "only a message of its own"),
    cmd.Withdraw: Right(True, True, "only a message of its own"),
    cmd.OutsideEvent: Right(True, True, "not while something is asked, which the event would close"),
    cmd.Budget: Right(False, False, "a person decides what it may cost"),
    cmd.Halt: Right(False, False, "the kill switch is an operator's"),
    cmd.Lift: Right(False, False, "the kill switch is an operator's"),
    cmd.Intervene: Right(False, False, "a policy decides when to step in"),
    cmd.Label: Right(False, False, "an agent does not judge what was done about it"),
    cmd.Rate: Right(False, False, "an agent does not judge its own work"),
}
"""The list: every command, allowed or not."""
BEYOND: Final = (
    "start sessions (it spawns children with run.spawn)",
    "fork a session",
    "erase a session",
    "send a command to many sessions at once",
    "throw, lift or release a kill switch",
    "take an ask, or hand asks over",
    "review what it made",
    "keep policies, settle proposals, make or revoke tokens, keep webhooks",
    "prune the audit log",
)
"""Operations that are no commands to a session, and not for agents either."""


def signed(command: cmd.AnyCommand, agent: SessionId | None) -> cmd.AnyCommand:
    """Return ``command`` as its sender's: what an agent's own code sends is its agent's, whatever name it gives."""
    return command if agent is None else replace(command, by=agent_name(agent), role="agent")


def check_no_agent(agent: SessionId | None, what: str) -> None:
    """Refuse what is no agent's to do and no command to a session.

    Raises:
        AccessDenied: ``not_for_agents``: the agent of a session wants to.
    """
    if agent is not None:
        raise AccessDenied(
            f"The agent of session '{agent}' may not {what} ({NOT_FOR_AGENTS}). Ask a person to do it.",
            code=NOT_FOR_AGENTS,
            agent=agent,
        )


def leaves_as_it_is(session: Session, command: cmd.AnyCommand) -> bool:
    """Return whether an agent's stop finds another one's, which has the same effect already."""
    if agent_of(command.by) is None:
        return False
    stop, deferred = session.pause, session.deferred
    if isinstance(command, cmd.Pause):
        holds = stop is not None and not joins_pause(stop, command.by) and _is_others(stop.by, command.by)
        return holds or (deferred is not None and _is_others(deferred.by, command.by))
    return isinstance(command, cmd.Cancel) and session.cancel is not None and _is_others(session.cancel.by, command.by)


def _is_others(standing: str, by: str) -> bool:
    return standing != by and not outranks(by, standing)


def objection(session: Session, command: cmd.AnyCommand) -> tuple[str, str] | None:
    """Return the code and the reason why an agent's command is refused; None: it may, or it is no agent's command."""
    agent = agent_of(command.by)
    if agent is None:
        return None
    if isinstance(command, cmd.Message) and command.behaviour == "redirect":
        command = cmd.Redirect(id=command.id, by=command.by, text=command.text)
    right = RIGHTS[type(command)]
    if isinstance(command, cmd.Answer) and root_of(agent) == root_of(session.id):
        return OWN_ASK, right.words
    is_own, is_child = session.id == agent, is_below(session.id, agent)
    if not is_own and not is_child:
        return NOT_FOR_AGENTS, f"an agent acts on its own session and its children alone, and this one is of '{agent}'"
    if not (right.itself if is_own else right.child):
        return NOT_FOR_AGENTS, "an agent redirects its children alone, never itself" if right.child else right.words
    return _beyond_limits(session, command)


def _beyond_limits(session: Session, command: cmd.AnyCommand) -> tuple[str, str] | None:
    match command:
        case cmd.Resume():
            return _about_lifting(session, command)
        case cmd.Redirect() | cmd.Message() if session.status in ENDED:
            return NOT_FOR_AGENTS, f"it has ended, {session.status}; a person opens a new turn"
        case cmd.Redirect():
            if command.level == "goal" and any(_is_persons(one.by) for one in session.said):
                return NOT_FOR_AGENTS, "a person has said what it is to do; add an instruction (level 'step')"
            asked = _about_asks(session)
            return asked or (_about_lifting(session, command) if command.resume else None)
        case cmd.OutsideEvent():
            return _about_asks(session)
        case cmd.Edit() | cmd.Withdraw():
            said_by = _said_by(session, command.message)
            others = said_by not in ("", command.by)
            return (
                (NOT_FOR_AGENTS, f"'{command.message}' is not the agent's: {said_by} has said it") if others else None
            )
        case cmd.Cancel():
            return _about_cancelling(session, command)
        case _:
            return None


def _about_cancelling(session: Session, command: cmd.Cancel) -> tuple[str, str] | None:
    if command.force or command.restart:
        return NOT_FOR_AGENTS, "force and restart are an operator's (role 'operate')"
    stop = session.deferred
    if stop is not None and _is_others(stop.by, command.by) and session.status is not Status.HALTED:
        return NOT_FOR_AGENTS, f"{stop.by} has it {stop.stop} at the end of its turn, which stays so"
    return None


def _about_lifting(session: Session, command: cmd.Resume | cmd.Redirect) -> tuple[str, str] | None:
    """Return why an agent may not lift a stop, if another one made it."""
    if session.status in ENDED:
        return NOT_FOR_AGENTS, f"it has ended, {session.status}; a person tries it again"
    named = command.pause if isinstance(command, cmd.Resume) else None
    stop = session.pause
    if stop is None:
        deferred = session.deferred
        takes_back = isinstance(command, cmd.Resume) and named is None and deferred is not None
        if takes_back and deferred is not None and _is_others(deferred.by, command.by):
            return NOT_FOR_AGENTS, f"{deferred.by} has it stop at the end of its turn, and only people take that back"
        return None
    if stop.beneath is not None and named == stop.beneath.id:
        stop = stop.beneath
    elif named not in (None, stop.id):
        return None
    review = next((ask for ask in session.asks if ask.is_review), None)
    if review is not None and stop is session.pause:
        return OWN_ASK, f"a policy has paused it, and '{review.id}' is a person's to answer, never the session's"
    if _is_others(stop.by, command.by):
        return NOT_FOR_AGENTS, f"'{stop.id}' is {stop.by}'s pause, and an agent lifts only its own"
    return None


def _about_asks(session: Session) -> tuple[str, str] | None:
    waits = next((ask.id for ask in session.asks if not ask.is_review), None)
    return None if waits is None else (OWN_ASK, f"'{waits}' waits for a person, and this would close it")


def _said_by(session: Session, name: MessageId) -> str:
    """Return who said a message that can still be changed; empty if there is none of that name."""
    if name not in session.amendable:
        return ""
    said = {message_id(place + 1): one.by for place, one in enumerate(session.messages)}
    return (said | {one.id: one.by for one in session.queue})[name]


def _is_persons(by: str) -> bool:
    return not by.startswith((cmd.BY_SESSION, cmd.BY_PARENT, cmd.BY_POLICY, cmd.BY_AGENT))


_ID: Final = CommandId("agent")


def could(session: Session, kind: type[cmd.AnyCommand], by: str) -> bool:
    """Return whether the agent ``by`` could send a command of this kind now: what hints and buttons offer it."""
    if kind in (cmd.Edit, cmd.Withdraw):
        wishes = [cmd.Withdraw(id=_ID, by=by, message=name) for name in session.amendable]
    elif kind is cmd.Redirect:
        wishes = [cmd.Redirect(id=_ID, by=by, text="…")]
    elif kind is cmd.Message:
        wishes = [cmd.Message(id=_ID, by=by, text="…")]
    elif kind is cmd.Resume:
        wishes = [cmd.Resume(id=_ID, by=by)]
    elif kind is cmd.Cancel:
        wishes = [cmd.Cancel(id=_ID, by=by)]
    elif kind is cmd.Pause:
        wishes = [cmd.Pause(id=_ID, by=by)]
    else:
        return False  # no hint names the others, or they are on no agent's list
    return any(objection(session, one) is None for one in wishes)
