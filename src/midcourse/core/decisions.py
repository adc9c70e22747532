"""What each command does in each status: the command table, and ``decide``, which reads it. Pure."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.agent_rights import could, leaves_as_it_is, objection
from midcourse.core.asks import AMBIGUOUS, CANCEL, GO_ON, NEED_APPROVAL, REVIEW, is_unclear, is_yes
from midcourse.core.budget import BUDGET, above, usual_price, wanted
from midcourse.core.codec import decode
from midcourse.core.commands import agent_of, outranks
from midcourse.core.effects import UndoChoice
from midcourse.core.evolution import joins_pause
from midcourse.core.ids import (
    CommandId,
    StepId,
    ask_id,
    intervention_id,
    message_id,
    ordinal_of,
    pause_id,
    queued_id,
)
from midcourse.core.money import exact_money, money
from midcourse.core.session import (
    ENDED,
    LIVE,
    DeferredStop,
    OpenAsk,
    Session,
    StandingCancel,
    StandingPause,
    Status,
)
from midcourse.errors import Refused

DEADLINE: Final = "deadline"
"""Who answers, or cancels, when nobody has answered in time."""
LAPSE: Final = "lapse"
"""Who resumes when a pause has lapsed."""
EXPLAIN: Final = "Before you go on, explain your plan: what is left to do, and why it serves the goal."
"""What a policy says to an agent before it would pause it."""
Events = tuple[ev.AnyEvent, ...]
Rule = Callable[[Session, cmd.AnyCommand], Events]


def decide(session: Session, command: cmd.AnyCommand) -> Events:
    """The facts ``command`` makes in ``session``. No facts: it is granted and changes nothing.

    Raises:
        Refused: it is not allowed now, or not to the agent that sends it; the error says what is.
    """
    if agent_of(command.by) is not None:
        command = replace(command, role="agent")  # whatever it says: an agent has no rung
    not_for_it = objection(session, command)
    if not_for_it is not None:
        raise refused(session, command, *not_for_it)
    if command.expects and command.expects != session.mark:
        why = f"it has moved on from '{command.expects}', and is '{session.mark}' now. Look again, then decide"
        raise refused(session, command, "precondition_failed", why)
    if session.erased_at is not None and not isinstance(command, cmd.Cancel):
        why = "what was said and done in it was erased. Start a new session"
        raise refused(session, command, "session_erased", why)
    if leaves_as_it_is(session, command):
        return ()
    return TABLE[type(command)][session.status](session, command)


def expire(session: Session, now: float) -> Events:
    """The facts that deadlines make: asks are answered by their default, or closed; a pause lapses."""
    if session.status in ENDED or session.status is Status.CANCELLING:
        return ()
    events: list[ev.AnyEvent] = []
    still_open: list[OpenAsk] = []
    unanswered: list[OpenAsk] = []
    for ask in session.asks:
        if ask.expires_at is None or ask.expires_at > now:
            still_open.append(ask)
        elif ask.default is not None:
            events.append(ev.AskAnswered(ask=ask.id, step=ask.step, value=ask.default, by=DEADLINE))
        else:
            # Halted, nothing is undone before an operator says so: the agent is told instead, once it goes on.
            cancels = ask.on_expiry == "cancel" and session.status is not Status.HALTED
            unanswered += [ask] if cancels else []
            then = "cancel" if cancels and not finishes_first(session) else "fail"
            events.append(ev.AskClosed(ask=ask.id, step=ask.step, end="expired", then=then))
    if unanswered:
        names = ", ".join(f"'{ask.id}'" for ask in unanswered)
        command = cmd.Cancel(id=CommandId(DEADLINE), by=DEADLINE, reason=f"nobody answered {names} in time")
        return (*events, *_cancel(replace(session, asks=tuple(still_open)), command))
    pause = session.pause
    has_lapsed = pause is not None and pause.lapses_at is not None and pause.lapses_at <= now
    if pause is not None and has_lapsed and session.status in (Status.PAUSING, Status.PAUSED):
        # At its cap it stays paused, now for that: a person raises the budget.
        stays = ev.PauseRequested(pause=pause.id, by=BUDGET, reason=_spent(session), grace=pause.grace)
        events.append(_without_pause(pause, LAPSE) if wanted(session) is None else stays)
    return tuple(events)


def at_cap(session: Session, spent: float, price: float = 0.0) -> Events:
    """The facts that a cap makes which is reached, or which a call of this ``price`` would pass.

    What is protected finishes its turn first; what rests needs no stop.
    """
    if session.status not in (Status.RUNNING, Status.WAITING):
        return ()
    reason = _spent(session, spent, price)
    if finishes_first(session):
        waits = session.deferred is not None
        return () if waits else (ev.StopDeferred(stop="pause", by=BUDGET, reason=reason),)
    enough = spent + (price or usual_price(session))
    ask = ev.AskOpened(
        ask=ask_id(session.asks_opened + 1),
        step=StepId(f"{session.scope}/{REVIEW}#{BUDGET}{session.pauses + 1}"),
        reason=REVIEW,
        prompt=f"{reason} Raise the budget to {money(above(enough))} or more, or cancel.",
        options=(CANCEL,),
    )
    pause, *rest = _pause_now(session, cmd.Pause(id=CommandId(BUDGET), by=BUDGET, reason=reason, grace=None))
    assert isinstance(pause, ev.PauseRequested)
    return (ask, replace(pause, budget=enough), *rest)


def pause_with_parent(session: Session, parent: str, reason: str) -> Events:
    """The pause of a parent at its cap, as it comes down to a child that asked for what the parent cannot pay."""
    if session.status not in (Status.RUNNING, Status.WAITING):
        return ()
    return _pause(session, cmd.Pause(id=CommandId(BUDGET), by=parent, reason=reason, grace=None))


def _spent(session: Session, spent: float | None = None, price: float = 0.0) -> str:
    so_far, budget = session.cost if spent is None else spent, session.terms.budget or 0.0
    next_one = f", and its next call would cost about {money(price)}" if price else ""
    return f"It has spent {money(so_far)} of its budget of {money(budget)}{next_one}."


def _check_budget(session: Session, command: cmd.AnyCommand) -> None:
    """Refuse to go on at the cap: whatever began would pass it."""
    enough = wanted(session)
    if enough is not None:
        said = _spent(session).removeprefix("It ").rstrip(".")
        how = "raise_budget, or midcourse resume --budget"
        why = f"it {said}. Raise the budget to {money(enough)} or more ({how}), which lifts the pause, too"
        raise refused(session, command, "budget_spent", why, raise_to=enough)


def allowed(session: Session, role: cmd.Role = "steer", by: str = "") -> tuple[str, ...]:
    """The verbs that would be taken now from somebody with ``role``, as hints and buttons show them.

    ``by`` matters if it names an agent, which may do what is on its list.
    """
    is_agents = agent_of(by) is not None
    if session.erased_at is not None:
        return (cmd.verb(cmd.Cancel),)  # which changes nothing, and answers with the receipt
    verbs: list[str] = []
    is_at_cap = wanted(session) is not None
    for kind, row in TABLE.items():
        rule = row[session.status]
        if kind in NO_BUTTONS and not (kind is cmd.Budget and is_at_cap):
            continue
        if is_agents and not could(session, kind, by):
            continue
        stop = session.deferred
        takes_back = rule is _resume_running and stop is not None and not _is_parents_cancel(stop)
        if (rule in REFUSALS and not takes_back) or (rule in FOR_OPERATORS and role != "operate"):
            continue
        if kind is cmd.Answer and not any(_may_answer(ask, role) for ask in session.asks):
            continue
        if rule in (_retry, _new_turn, _message_ended) and not _can_go_on(session):
            continue
        if rule is _retry and session.undo is not None:
            continue
        if rule is _resume and is_at_cap:
            continue
        if rule is _amend and not session.amendable:
            continue
        verbs.append(cmd.verb(kind))
    return tuple(verbs)


def _refusal(code: str, why: str) -> Rule:
    def rule(session: Session, command: cmd.AnyCommand) -> Events:
        raise refused(session, command, code, why.format(status=session.status))

    REFUSALS.add(rule)
    return rule


def refused(session: Session, command: cmd.AnyCommand, code: str, why: str, **fields: object) -> Refused:
    """The error that says what was wanted, why it cannot be, and what can."""
    now = allowed(session, command.role, command.by)
    hint = f" Allowed now: {', '.join(now)}." if now else ""
    return Refused(
        f"Cannot {cmd.phrase(command)} session '{session.id}': {why} ({code}).{hint}",
        code=code,
        allowed=now,
        session_id=session.id,
        status=str(session.status),
        **fields,
    )


REFUSALS: Final[set[Rule]] = set()
"""The rules that never grant anything."""
FOR_OPERATORS: Final[set[Rule]] = set()
"""The rules that grant something to the role ``operate`` alone."""
NO_BUTTONS: Final = frozenset({cmd.OutsideEvent, cmd.Budget, cmd.Halt, cmd.Lift, cmd.Intervene, cmd.Label, cmd.Rate})
"""Commands that no hint names: a program's, the kill switch's own, those that are offered beside what they judge.

A budget is named once it must be raised."""
IS: Final = "it is {status}"
FIRMNESS: Final[tuple[UndoChoice, ...]] = ("none", "in-flight", "all")
_ended = _refusal("session_ended", "it has ended, {status}")
_already_resumed = _refusal("already_resumed", IS)
_not_while = _refusal("not_allowed", IS)
_not_before_its_end = _refusal("not_allowed", "it is {status}; cancel it with undo='all', which rolls it back as well")
_not_before_it_ends = _refusal("not_allowed", "it is {status}; rate it once it has ended")
_operator_only = _refusal("operator_only", "it is {status}, and the kill switch is an operator's (role 'operate')")


def _changes_nothing(_session: Session, _command: cmd.AnyCommand) -> Events:
    return ()


def _pause(session: Session, command: cmd.AnyCommand) -> Events:
    """What is protected finishes its turn first, whoever wishes it stopped."""
    assert isinstance(command, cmd.Pause)
    if not finishes_first(session):
        return _pause_now(session, command)
    if session.deferred is not None and not outranks(command.by, session.deferred.by):  # a cancel that waits is firmer
        return ()
    return (ev.StopDeferred(stop="pause", by=command.by, reason=command.reason, lapses=command.lapses),)


def finishes_first(session: Session) -> bool:
    """Whether a stop waits for the end of the turn: protected, and begun."""
    return session.is_protected and session.status in (Status.RUNNING, Status.WAITING)


def _is_parents_cancel(stop: DeferredStop) -> bool:
    return stop.stop == "cancel" and stop.by.startswith(cmd.BY_PARENT)


def _pause_now(session: Session, command: cmd.Pause) -> Events:
    event = ev.PauseRequested(
        pause=pause_id(session.pauses + 1),
        by=command.by,
        reason=command.reason,
        grace=command.grace,
        lapses=command.lapses,
    )
    rests = session.status in (Status.QUEUED, Status.WAITING) and not session.running
    if rests and not session.may_have_children:  # the pause is complete at once; children have to be reached first
        return (event, ev.SessionPaused(unknown=session.lost))
    return (event,)


def _pause_again(session: Session, command: cmd.AnyCommand) -> Events:
    """A second pause may give less time, say why, lapse later or never: not the other way round.

    It goes down to the children again, which may have been resumed since. The parent's pause and the people's are two.
    """
    assert isinstance(command, cmd.Pause)
    assert session.pause is not None
    standing = session.pause
    graces = [grace for grace in (standing.grace, command.grace) if grace is not None]
    grace = min(graces) if graces else None
    asked = ev.PauseRequested(pause=standing.id, by=command.by, reason=command.reason, grace=grace)
    renewed: Events = (ev.PauseRenewed(pause=standing.id, by=command.by),) if session.may_have_children else ()
    if joins_pause(standing, command.by):
        own = pause_id(session.pauses + 1)
        on_top = standing.id if command.by.startswith(cmd.BY_PARENT) else own
        renewed = (ev.PauseRenewed(pause=on_top, by=command.by),) if renewed else ()
        return (replace(asked, pause=own, lapses=command.lapses), *renewed)
    if outranks(command.by, standing.by):  # from now on it is a person's, or the parent's, and lapses as they say
        return (replace(asked, lapses=command.lapses), *renewed)
    is_said = command.reason in ("", standing.reason)
    if grace == standing.grace and is_said and standing.lapses_at is None:
        return renewed
    return (replace(asked, lapses=None if standing.lapses_at is None else command.lapses), *renewed)


def _resume(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Resume)
    assert session.pause is not None
    beneath = session.pause.beneath
    if beneath is not None and command.pause == beneath.id:
        return (ev.PauseLifted(pause=beneath.id, by=command.by),)
    if command.pause is not None and command.pause != session.pause.id:
        _check_pause_was(session, command)
        why = f"'{command.pause}' was lifted before; it is paused again, by '{session.pause.id}'"
        raise refused(session, command, "already_resumed", why)
    return _lifted(session, command)


def _lifted(session: Session, command: cmd.AnyCommand) -> Events:
    """The pause is lifted: what a policy had opened for review has been decided that way."""
    assert session.pause is not None
    _check_budget(session, command)
    closed = (ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in session.asks if ask.is_review)
    return (*closed, _without_pause(session.pause, command.by))


def _without_pause(pause: StandingPause, by: str) -> ev.SessionResumed | ev.PauseLifted:
    """The pause on top is lifted; what the parent still holds stays paused."""
    kind = ev.SessionResumed if pause.beneath is None else ev.PauseLifted
    return kind(pause=pause.id, by=by)


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
    elif session.deferred is not None:
        if _is_parents_cancel(session.deferred) and not command.by.startswith(cmd.BY_PARENT):
            why = "its parent is being cancelled, and waits for the end of this turn"
            raise refused(session, command, "not_allowed", why)
        return (ev.StopTakenBack(by=command.by),)
    if session.status is Status.WAITING and session.asks:
        asks = ", ".join(f"'{ask.id}'" for ask in session.asks)
        why = f"it is waiting, not paused; it goes on once {asks} is answered"
        raise refused(session, command, "already_resumed", why)
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
    return (ev.SessionResumed(by=command.by),)  # at its cap it is paused before its next call


def _can_go_on(session: Session) -> bool:
    return not _is_damaged(session) and not session.is_being_undone and not session.discarded


def _is_damaged(session: Session) -> bool:
    return session.failure is not None and session.failure.code == "damaged"


def _check_can_go_on(session: Session, command: cmd.AnyCommand) -> None:
    if _is_damaged(session):
        assert session.failure is not None
        raise refused(session, command, "session_damaged", f"its journal is damaged: {session.failure.message}")
    if session.discarded:
        anew = f"go on in '{session.restarted_as}'" if session.restarted_as else "start a new session"
        why = f"it was forced to end half-way, and what it had reached is discarded; {anew}"
        raise refused(session, command, "session_discarded", why)
    if session.is_being_undone:  # what it would do now would be rolled back with the rest
        raise refused(
            session, command, "not_allowed", f"it has ended, {session.status}, and is being undone; wait for that"
        )


def _redirect(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Redirect)
    closed = _superseded(session)
    redirected = ev.SessionRedirected(
        text=command.text,
        level=command.level,
        by=command.by,
        grace=None if finishes_first(session) else command.grace,
    )
    if not command.resume or session.pause is None:
        return (redirected, *closed)
    return (redirected, *closed, *_lifted(session, command))


def _superseded(session: Session) -> Events:
    """What was asked on the ground that has just changed. A review stays as long as the policy's pause does."""
    asks = (ask for ask in session.asks if not ask.is_review)
    return tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in asks)


def _new_turn(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Redirect)
    _check_can_go_on(session, command)
    closed = tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in session.asks)
    return (*closed, ev.TurnOpened(text=command.text, level=command.level, by=command.by))


def _message(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Message)
    if command.behaviour == "reject":
        why = f"it is {session.status}, and this message is only for one that has ended"
        raise refused(session, command, "busy", why)
    if command.behaviour == "enqueue":
        return (_queued(session, command),)
    redirect = cmd.Redirect(id=command.id, by=command.by, role=command.role, text=command.text)
    return _redirect(session, redirect)


def _queued(session: Session, command: cmd.Message) -> ev.MessageQueued:
    return ev.MessageQueued(message=queued_id(session.queued + 1), text=command.text, by=command.by)


def _message_ended(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Message)
    _check_can_go_on(session, command)
    closed = tuple(ev.AskClosed(ask=ask.id, step=ask.step, end="superseded") for ask in session.asks)
    if not session.queue:
        return (*closed, ev.TurnOpened(text=command.text, level="goal", by=command.by))
    return (*closed, _queued(session, command), next_turn(session))


def next_turn(session: Session) -> ev.TurnOpened:
    """The turn that the oldest queued message opens."""
    oldest = session.queue[0]
    return ev.TurnOpened(text=oldest.text, level="goal", by=oldest.by, queued=oldest.id)


def _amend(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Edit | cmd.Withdraw)
    if command.message not in session.amendable:
        ordinal = ordinal_of(command.message) or 0
        was_said = 0 < ordinal <= len(session.messages) and command.message == message_id(ordinal)
        was_queued = 0 < ordinal <= session.queued and command.message == queued_id(ordinal)
        if was_said or was_queued:
            why = f"'{command.message}' was withdrawn, or the model has seen it. Redirect it to say something else"
            raise refused(session, command, "message_seen", why)
        raise refused(session, command, "message_not_found", f"there was never a message '{command.message}'")
    if isinstance(command, cmd.Withdraw):
        return (ev.MessageWithdrawn(message=command.message, by=command.by),)
    return (ev.MessageEdited(message=command.message, text=command.text, by=command.by),)


def _intervene(session: Session, command: cmd.AnyCommand) -> Events:
    """A policy steps in where something works; what has been stopped meanwhile needs no second stop."""
    assert isinstance(command, cmd.Intervene)
    decision = command.decision
    made = ev.InterventionMade(
        intervention=intervention_id(session.interventions + 1), by=command.by, decision=decision
    )
    if decision.level == "notify":
        return (made,)
    if session.status not in (Status.QUEUED, Status.RUNNING, Status.WAITING) or decision.level == "none":
        return ()
    if decision.level == "ask_plan":
        # To ask now would supersede what people are being asked: they are looking already.
        if session.asks:
            return ()
        text = f"{decision.sentence} {EXPLAIN}"
        return (made, ev.SessionRedirected(text=text, level="clarify", by=command.by))
    asked = ev.AskOpened(
        ask=ask_id(session.asks_opened + 1),
        step=StepId(f"{session.scope}/{REVIEW}#{session.interventions + 1}"),
        reason=decision.question or REVIEW,
        prompt=decision.sentence,
        options=(GO_ON, CANCEL),
    )
    grace = 0.0 if decision.level == "stop" else None
    pause = cmd.Pause(id=command.id, by=command.by, reason=decision.sentence, grace=grace)
    made = replace(made, ask=asked.ask, pause=pause_id(session.pauses + 1))
    return (made, asked, *_pause_now(session, pause))


def _label(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Label)
    ordinal = ordinal_of(command.about) or 0
    known = (
        (intervention_id(ordinal), session.interventions),
        (pause_id(ordinal), session.pauses),
        (message_id(ordinal), len(session.messages)),
    )
    if not any(command.about == name and 0 < ordinal <= most for name, most in known):
        why = f"there was never an intervention '{command.about}'; there were {session.interventions}"
        raise refused(session, command, "intervention_not_found", why)
    return (ev.InterventionLabelled(about=command.about, verdict=command.verdict, by=command.by, note=command.note),)


def _rate(_session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Rate)
    return (ev.SessionRated(score=command.score, by=command.by, note=command.note),)


def _happened(session: Session, command: cmd.AnyCommand) -> Events:
    """What was assumed may be wrong: what the model is saying, and what was asked on that ground, is given up."""
    assert isinstance(command, cmd.OutsideEvent)
    source = f" ({command.source})" if command.source else ""
    text = f"An event outside{source}: {command.text}\nWhat was assumed before may no longer hold."
    return (ev.SessionRedirected(text=text, level="event", by=command.by), *_superseded(session))


def _raise_budget(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Budget)
    standing = session.terms.budget
    if standing is not None and command.budget < standing:
        why = f"its budget is {exact_money(standing)}, and can only be raised"
        raise refused(session, command, "not_raised", why)
    raised = () if command.budget == standing else (ev.BudgetRaised(budget=command.budget, by=command.by),)
    if not command.resume or session.pause is None:
        return raised
    return (*raised, *_lifted(replace(session, terms=replace(session.terms, budget=command.budget)), command))


def _cancel(session: Session, command: cmd.AnyCommand) -> Events:
    """What is protected finishes its turn first, unless an operator forces it to end half-way."""
    assert isinstance(command, cmd.Cancel)
    if not finishes_first(session) or _is_forced(session, command):
        return _cancel_now(session, command)
    undo: UndoChoice = command.undo or "in-flight"
    standing = session.deferred
    if standing is not None and outranks(command.by, standing.by):
        standing = None  # an agent's, which this one replaces
    if standing is not None and standing.stop == "cancel" and FIRMNESS.index(undo) <= FIRMNESS.index(standing.undo):
        return ()
    return (ev.StopDeferred(stop="cancel", by=command.by, reason=command.reason, undo=undo),)


def _is_forced(session: Session, command: cmd.Cancel) -> bool:
    """Whether what finishes first is ended half-way: the session itself, or its children. Before it begins nothing is.

    To a session that is not protected ``force`` means nothing but that, and needs no role.
    """
    if command.force and session.is_protected and command.role != "operate":
        why = "it is protected, and finishes first; to force it to end half-way is an operator's (role 'operate')"
        raise refused(session, command, "operator_only", why)
    return command.force and command.role == "operate" and session.status is not Status.QUEUED


def _cancel_now(session: Session, command: cmd.Cancel) -> Events:
    waits = session.deferred  # forced, a cancel that waited becomes firmer or stays as it was
    chosen: UndoChoice = command.undo or "in-flight"
    if waits is not None and waits.stop == "cancel":
        chosen = _firmest(waits.undo, command.undo or waits.undo)
    requested = ev.CancelRequested(
        by=command.by,
        grace=command.grace,
        reason=command.reason,
        undo=chosen,
        force=_is_forced(session, command),
        restart=command.restart and _is_forced(session, command),
        operates=command.role == "operate",
    )
    if session.status is Status.QUEUED:
        return (requested, *_withdrawn(session, command.by), ev.SessionCancelled())
    return (requested, *_withdrawn(session, command.by))


def _withdrawn(session: Session, by: str) -> Events:
    asks = (ev.AskClosed(ask=ask.id, step=ask.step, end="withdrawn") for ask in session.asks)
    return (*asks, *(ev.MessageWithdrawn(message=one.id, by=by) for one in session.queue))


def _firmer_cancel(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Cancel)
    assert session.cancel is not None
    force = _is_forced(session, command)
    # Forced while it waits for a tool, it gives up what only that tool could undo.
    return _firmer(session.cancel, command, force=force, always=force and bool(session.needs))


def _firmer(standing: StandingCancel, command: cmd.Cancel, *, force: bool, always: bool = False) -> Events:
    """A second cancel may give less time, roll more back and discard what was reached, never the other way round."""
    grace = min(command.grace, standing.grace)
    undo = _firmest(standing.undo, command.undo or standing.undo)
    restart = (command.restart and force) or standing.restart
    force = force or standing.force
    operates = command.role == "operate" or standing.operates
    before = (standing.grace, standing.undo, standing.force, standing.restart)
    if not always and (grace, undo, force, restart) == before:
        return ()
    return (
        ev.CancelRequested(
            by=command.by,
            grace=grace,
            reason=command.reason,
            undo=undo,
            force=force,
            restart=restart,
            operates=operates,
        ),
    )


def _firmest(*choices: UndoChoice) -> UndoChoice:
    return max(choices, key=FIRMNESS.index)


def _cancel_ended(session: Session, command: cmd.AnyCommand) -> Events:
    """The receipt that exists; forced by an operator, an undo gives up what needs a tool that no process has."""
    assert isinstance(command, cmd.Cancel)
    if not (command.force and command.role == "operate" and session.is_being_undone and session.needs):
        return ()
    return (ev.UndoRequested(by=command.by, reason=command.reason, force=True),)


def _undo(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Undo)
    if session.is_being_undone:
        return ()
    return (ev.UndoRequested(by=command.by, reason=command.reason),)


def _answer(session: Session, command: cmd.AnyCommand) -> Events:
    assert isinstance(command, cmd.Answer)
    ask = _which_ask(session, command)
    if not _may_answer(ask, command.role):
        why = f"'{ask.id}' asks for an approval, which needs the role 'approve'; yours is '{command.role}'"
        raise refused(session, command, "approver_only", why)
    if _asks_to_approve(ask) and is_unclear(command.value, ask.options):
        why = (
            f"{decode(command.value.raw)!r} is neither yes nor no, and '{ask.id}' is still open. Answer 'yes' to "
            "approve, 'no' to refuse, or say in a sentence what is wrong"
        )
        raise refused(session, command, "unclear_answer", why)
    answered = ev.AskAnswered(ask=ask.id, step=ask.step, value=command.value, by=command.by)
    return (answered, *_review(session, ask, command)) if ask.is_review else (answered,)


def _review(session: Session, ask: OpenAsk, command: cmd.Answer) -> Events:
    """What an answer to a review leads to: go on, end, or go on with what was said."""
    rest = replace(session, asks=tuple(one for one in session.asks if one.id != ask.id))
    if session.pause is None or session.status not in (Status.PAUSING, Status.PAUSED):
        return ()
    said = decode(command.value.raw)
    words = said.strip() if isinstance(said, str) else ""
    if said is not True and words.lower() in _STAYS:  # a no, or nothing that anybody could act on
        return ()
    if words.lower() == CANCEL:
        return _cancel(rest, cmd.Cancel(id=command.id, by=command.by, role=command.role, reason=ask.prompt))
    if is_yes(command.value) or words.lower() in (GO_ON, "resume", "continue"):
        return _lifted(rest, command)
    meant = get_close_matches(words.lower(), _MEANT, n=1, cutoff=0.8) if ask.reason == REVIEW else ()
    if meant:  # a slip must not lift the stop with a word that nobody meant as an instruction
        why = f"'{words}' is none of its answers. Did you mean '{meant[0]}'? Say that, or what to do in a sentence"
        raise refused(session, command, "unclear_answer", why)
    level = _LEVELS.get(ask.reason, "clarify")
    return _redirect(rest, cmd.Redirect(id=command.id, by=command.by, text=words, level=level, resume=True))


_MEANT: Final = (GO_ON, CANCEL, "resume", "continue", "stop", "wait", "yes")
"""Answers to a review that a slip may have been meant for."""
_STAYS: Final = frozenset({"", "no", "stop", "wait", "not yet", "false"})
"""Answers to a review that leave it paused: who wants it to go on says so."""
_LEVELS: Final[Mapping[str, ev.Level]] = {REVIEW: "step", AMBIGUOUS: "goal"}
"""What an answer in words is: an instruction, or the goal that was not clear. To any other question, an explanation."""


def _asks_to_approve(ask: OpenAsk) -> bool:
    return ask.reason == NEED_APPROVAL or ask.options == ("approve", "refuse")


def _may_answer(ask: OpenAsk, role: cmd.Role) -> bool:
    return ask.reason != NEED_APPROVAL or role in ("approve", "operate")


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
    return (ev.SessionHalted(by=command.by, reason=command.reason, switch=command.switch),)


def _by_operator(rule: Rule) -> Rule:
    def checked(session: Session, command: cmd.AnyCommand) -> Events:
        if command.role != "operate":
            return _operator_only(session, command)
        return rule(session, command)

    FOR_OPERATORS.add(checked)
    return checked


def _lift(session: Session, command: cmd.AnyCommand) -> Events:
    # A call that the halt aborted may have asked after the cancel had withdrawn the asks it found.
    withdrawn = _withdrawn(session, command.by) if session.halted_from is Status.CANCELLING else ()
    return (ev.HaltLifted(by=command.by), *withdrawn)


def _cancel_halted(session: Session, command: cmd.AnyCommand) -> Events:
    # Halted from cancelling it already has a cancel, which may only become firmer.
    assert isinstance(command, cmd.Cancel)
    if session.halted_from is Status.CANCELLING and session.cancel is not None:
        # Said again in any case: it is what takes the session back to cancelling.
        firmer = _firmer(session.cancel, command, force=_is_forced(session, command), always=True)
        return (*firmer, *_withdrawn(session, command.by))
    return _cancel_now(session, command)


S = Status
TABLE: Final[Mapping[type[cmd.AnyCommand], Mapping[Status, Rule]]] = {
    cmd.Pause: {
        S.QUEUED: _pause,
        S.RUNNING: _pause,
        S.WAITING: _pause,
        S.PAUSING: _pause_again,
        S.PAUSED: _pause_again,
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
        **dict.fromkeys(ENDED, _cancel_ended),
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
    cmd.Message: {
        **dict.fromkeys(LIVE - {S.CANCELLING, S.HALTED}, _message),
        S.CANCELLING: _not_while,
        S.HALTED: _not_while,
        **dict.fromkeys(ENDED, _message_ended),
    },
    cmd.Edit: dict.fromkeys(Status, _amend),
    cmd.Withdraw: dict.fromkeys(Status, _amend),
    cmd.OutsideEvent: {
        **dict.fromkeys(LIVE - {S.CANCELLING, S.HALTED}, _happened),
        S.CANCELLING: _not_while,
        S.HALTED: _not_while,
        **dict.fromkeys(ENDED, _ended),
    },
    cmd.Budget: {
        **dict.fromkeys(LIVE - {S.CANCELLING, S.HALTED}, _raise_budget),
        S.CANCELLING: _not_while,
        S.HALTED: _not_while,
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
    cmd.Intervene: {
        **dict.fromkeys(LIVE, _intervene),
        **dict.fromkeys(ENDED, _changes_nothing),
    },
    cmd.Label: dict.fromkeys(Status, _label),
    cmd.Rate: {
        **dict.fromkeys(LIVE, _not_before_it_ends),
        **dict.fromkeys(ENDED, _rate),
    },
}
"""The command table of the design: every command × every status, nothing left out."""
