"""What each command does in each status: the command table, and ``decide``, which reads it. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.effects import UndoChoice
from midcourse.core.ids import ask_id, ordinal_of, pause_id
from midcourse.core.session import ENDED, LIVE, OpenAsk, Session, StandingCancel, Status
from midcourse.errors import Refused

Events = tuple[ev.AnyEvent, ...]
Rule = Callable[[Session, cmd.AnyCommand], Events]


def decide(session: Session, command: cmd.AnyCommand) -> Events:
    """The facts ``command`` makes in ``session``. No facts: it is granted and changes nothing.

    Raises:
        Refused: it is not allowed now; the error says what is.
    """
    return TABLE[type(command)][session.status](session, command)


def expire(session: Session, now: float) -> Events:
    """The facts that asks past their deadline make: answered by their own default, or closed as expired."""
    if session.status in ENDED or session.status is Status.CANCELLING:
        return ()
    events: list[ev.AnyEvent] = []
    for ask in session.asks:
        if ask.expires_at is None or ask.expires_at > now:
            continue
        if ask.default is None:
            events.append(ev.AskClosed(ask=ask.id, step=ask.step, end="expired"))
        else:
            events.append(ev.AskAnswered(ask=ask.id, step=ask.step, value=ask.default, by="deadline"))
    return tuple(events)


def allowed(session: Session, role: cmd.Role = "steer") -> tuple[str, ...]:
    """The verbs that would be taken now from somebody with ``role``, as hints and buttons show them."""
    verbs: list[str] = []
    for kind, row in TABLE.items():
        rule = row[session.status]
        if rule in REFUSALS or (rule in FOR_OPERATORS and role != "operate"):
            continue
        if (kind is cmd.Answer and not session.asks) or (rule in (_retry, _new_turn) and not _can_go_on(session)):
            continue
        if rule is _retry and session.undo is not None:
            continue
        verbs.append(cmd.verb(kind))
    return tuple(verbs)


def _refusal(code: str, why: str) -> Rule:
    def rule(session: Session, command: cmd.AnyCommand) -> Events:
        raise refused(session, command, code, why.format(status=session.status))

    REFUSALS.add(rule)
    return rule


def refused(session: Session, command: cmd.AnyCommand, code: str, why: str) -> Refused:
    """The error that says what was wanted, why it cannot be, and what can."""
    now = allowed(session, command.role)
    hint = f" Allowed now: {', '.join(now)}." if now else ""
    return Refused(
        f"Cannot {cmd.verb(command)} session '{session.id}': {why} ({code}).{hint}",
        code=code,
        allowed=now,
        session_id=session.id,
        status=str(session.status),
    )


REFUSALS: Final[set[Rule]] = set()
"""The rules that never grant anything."""
FOR_OPERATORS: Final[set[Rule]] = set()
"""The rules that grant something to the role ``operate`` alone."""
IS: Final = "it is {status}"
FIRMNESS: Final[tuple[UndoChoice, ...]] = ("none", "in-flight", "all")
_ended = _refusal("session_ended", "it has ended, {status}")
_already_resumed = _refusal("already_resumed", IS)
_not_while = _refusal("not_allowed", IS)
_not_before_its_end = _refusal("not_allowed", "it is {status}; cancel it with undo='all', which rolls it back as well")
_operator_only = _refusal("operator_only", "it is {status}, and the kill switch is an operator's (role 'operate')")


def _changes_nothing(_session: Session, _command: cmd.AnyCommand) -> Events:
    return ()


def _pause(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Pause)
    event = ev.PauseRequested(
        pause=pause_id(session.pauses + 1),
        by=command.by,
        reason=command.reason,
        grace=command.grace,
    )
    if session.status in (Status.QUEUED, Status.WAITING) and not session.running:  # the pause is complete at once
        return (event, ev.SessionPaused(unknown=session.lost))
    return (event,)


def _firmer_pause(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Pause)
    assert session.pause is not None
    standing = session.pause
    if command.grace is None or (standing.grace is not None and standing.grace <= command.grace):
        return ()
    return (ev.PauseRequested(pause=standing.id, by=command.by, reason=command.reason, grace=command.grace),)


def _resume(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Resume)
    assert session.pause is not None
    if command.pause is not None and command.pause != session.pause.id:
        _check_pause_was(session, command)
        why = f"'{command.pause}' was lifted before; it is paused again, by '{session.pause.id}'"
        raise refused(session, command, "already_resumed", why)
    return (ev.SessionResumed(by=command.by, pause=session.pause.id),)


def _check_pause_was(session: Session, command: cmd.Resume) -> None:
    assert command.pause is not None
    ordinal = ordinal_of(command.pause)
    if ordinal is None or not 0 < ordinal <= session.pauses or command.pause != pause_id(ordinal):
        stands = f"; it is paused by '{session.pause.id}'" if session.pause else ""
        why = f"there was never a pause '{command.pause}'{stands}"
        raise refused(session, command, "checkpoint_not_found", why)


def _resume_running(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Resume)
    if command.pause is not None:
        _check_pause_was(session, command)
    return _already_resumed(session, command)


REFUSALS.add(_resume_running)


def _resume_halted(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Resume)
    # A resume that names a pause was meant for that pause: a late one must not lift the kill switch.
    if command.pause is not None:
        _check_pause_was(session, command)
        why = f"the kill switch holds it, not '{command.pause}'; lift the halt first"
        raise refused(session, command, "not_allowed", why)
    return _lift(session, command)


def _retry(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Resume)
    # A late resume of a pause is not a wish to try again what failed since.
    if command.pause is not None:
        _check_pause_was(session, command)
        raise refused(session, command, "already_resumed", f"'{command.pause}' does not stand any more, it has failed")
    _check_can_go_on(session, command)
    if session.undo is not None:  # its finished steps would be given back as if they still stood
        why = "what it had done was rolled back; a redirect opens a new turn, which does it anew"
        raise refused(session, command, "not_allowed", why)
    return (ev.SessionResumed(by=command.by),)


def _can_go_on(session: Session) -> bool:
    return not _is_damaged(session) and not _is_being_undone(session)


def _is_damaged(session: Session) -> bool:
    return session.failure is not None and session.failure.code == "damaged"


def _is_being_undone(session: Session) -> bool:
    return session.undo is not None and not session.undo.done


def _check_can_go_on(session: Session, command: cmd.AnyCommand) -> None:
    if _is_damaged(session):
        assert session.failure is not None
        raise refused(session, command, "session_damaged", f"its journal is damaged: {session.failure.message}")
    if _is_being_undone(session):  # what it would do now would be rolled back with the rest
        raise refused(
            session, command, "not_allowed", f"it has ended, {session.status}, and is being undone; wait for that"
        )


def _redirect(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Redirect)
    closed = tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in session.asks)
    redirected = ev.SessionRedirected(
        text=command.text,
        level=command.level,
        by=command.by,
        grace=command.grace,
    )
    resumed: Events = ()
    if command.resume and session.pause is not None:
        resumed = (ev.SessionResumed(by=command.by, pause=session.pause.id),)
    return (redirected, *closed, *resumed)


def _new_turn(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Redirect)
    _check_can_go_on(session, command)
    closed = tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in session.asks)
    return (*closed, ev.TurnOpened(text=command.text, level=command.level, by=command.by))


def _cancel(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Cancel)
    requested = ev.CancelRequested(
        by=command.by, grace=command.grace, reason=command.reason, undo=command.undo or "in-flight"
    )
    if session.status is Status.QUEUED:
        return (requested, *_withdrawn(session), ev.SessionCancelled())
    return (requested, *_withdrawn(session))


def _withdrawn(session: Session) -> Events:
    return tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="withdrawn") for ask in session.asks)


def _firmer_cancel(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Cancel)
    assert session.cancel is not None
    return _firmer(session.cancel, command)


def _firmer(standing: StandingCancel, command: cmd.Cancel, *, always: bool = False) -> Events:
    """A second cancel may give less time and roll more back, never the other way round."""
    grace = min(command.grace, standing.grace)
    wanted = command.undo or standing.undo
    undo = wanted if FIRMNESS.index(wanted) > FIRMNESS.index(standing.undo) else standing.undo
    if not always and (grace, undo) == (standing.grace, standing.undo):
        return ()
    return (ev.CancelRequested(by=command.by, grace=grace, reason=command.reason, undo=undo),)


def _undo(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Undo)
    if session.undo is not None and not session.undo.done:
        return ()
    return (ev.UndoRequested(by=command.by, reason=command.reason),)


def _answer(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Answer)
    ask = _which_ask(session, command)
    return (ev.AskAnswered(ask=ask.id, step=ask.step, value=command.value, by=command.by),)


def _which_ask(session: Session, command: cmd.Answer) -> OpenAsk:
    if command.ask is None:
        match session.asks:
            case ():
                raise refused(session, command, "ask_not_found", "no ask is open")
            case (only,):
                return only
            case several:
                names = ", ".join(f"{ask.id} ({ask.prompt})" for ask in several)
                raise refused(session, command, "ask_id_required", f"{len(several)} asks are open, name one: {names}")
    ask = session.ask(command.ask)
    if ask is None:
        ordinal = ordinal_of(command.ask)
        if ordinal is None or not 0 < ordinal <= session.asks_opened or command.ask != ask_id(ordinal):
            raise refused(session, command, "ask_not_found", f"there was never an ask '{command.ask}'")
        raise refused(session, command, "already_answered", f"'{command.ask}' was answered or closed before")
    return ask


def _halt(_session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Halt)
    return (ev.SessionHalted(by=command.by, reason=command.reason),)


def _by_operator(rule: Rule) -> Rule:
    def checked(session: Session, command: cmd.AnyCommand) -> Events:
        if command.role != "operate":
            return _operator_only(session, command)
        return rule(session, command)

    FOR_OPERATORS.add(checked)
    return checked


def _lift(session: Session, command: cmd.AnyCommand) -> Events:
    # A call that the halt aborted may have asked after the cancel had withdrawn the asks it found.
    withdrawn = _withdrawn(session) if session.halted_from is Status.CANCELLING else ()
    return (ev.HaltLifted(by=command.by), *withdrawn)


def _cancel_halted(session: Session, command: cmd.AnyCommand) -> Events:
    # Halted from cancelling it already has a cancel, which may only become firmer.
    assert isinstance(command, cmd.Cancel)
    if session.halted_from is Status.CANCELLING and session.cancel is not None:
        # Said again in any case: it is what takes the session back to cancelling.
        firmer = _firmer(session.cancel, command, always=True)
        return (*firmer, *_withdrawn(session))
    return _cancel(session, command)


S = Status
TABLE: Final[Mapping[type[cmd.AnyCommand], Mapping[Status, Rule]]] = {
    cmd.Pause: {
        S.QUEUED: _pause,
        S.RUNNING: _pause,
        S.WAITING: _pause,
        S.PAUSING: _firmer_pause,
        S.PAUSED: _changes_nothing,
        S.CANCELLING: _not_while,
        S.HALTED: _not_while,
        **dict.fromkeys(ENDED, _ended),
    },
    cmd.Resume: {
        S.QUEUED: _resume_running,
        S.RUNNING: _resume_running,
        S.WAITING: _resume_running,
        S.PAUSING: _resume,
        S.PAUSED: _resume,
        S.CANCELLING: _not_while,
        S.HALTED: _by_operator(_resume_halted),
        S.COMPLETED: _ended,
        S.CANCELLED: _ended,
        S.FAILED: _retry,
    },
    cmd.Redirect: {
        S.QUEUED: _redirect,
        S.RUNNING: _redirect,
        S.WAITING: _redirect,
        S.PAUSING: _redirect,
        S.PAUSED: _redirect,
        S.CANCELLING: _not_while,
        S.HALTED: _not_while,
        **dict.fromkeys(ENDED, _new_turn),
    },
    cmd.Cancel: {
        **dict.fromkeys(LIVE - {S.CANCELLING, S.HALTED}, _cancel),
        S.CANCELLING: _firmer_cancel,
        S.HALTED: _by_operator(_cancel_halted),
        **dict.fromkeys(ENDED, _changes_nothing),
    },
    cmd.Undo: {
        **dict.fromkeys(LIVE, _not_before_its_end),
        **dict.fromkeys(ENDED, _undo),
    },
    cmd.Answer: {
        S.QUEUED: _answer,
        S.RUNNING: _answer,
        S.WAITING: _answer,
        S.PAUSING: _answer,
        S.PAUSED: _answer,
        S.HALTED: _answer,
        S.CANCELLING: _not_while,
        **dict.fromkeys(ENDED, _ended),
    },
    cmd.Halt: {
        **dict.fromkeys(LIVE - {S.HALTED}, _by_operator(_halt)),
        S.HALTED: _by_operator(_changes_nothing),
        **dict.fromkeys(ENDED, _ended),
    },
    cmd.Lift: {
        **dict.fromkeys(Status, _not_while),
        S.HALTED: _by_operator(_lift),
        **dict.fromkeys(ENDED, _ended),
    },
}
"""The command table of the design: every command × every status, nothing left out."""
