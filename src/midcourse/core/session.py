"""The life of a session: its states, the table of what changes them, and the fold of its journal.

The rules of this module: whatever changes a status is in ``TRANSITIONS``; an event that is in neither table, or that
contradicts what is known of its step, ask or pause, cannot happen, and folding it is an error. This module knows
nothing of stores, agents or clocks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from midcourse.core import events as ev
from midcourse.core.codec import Value
from midcourse.core.ids import AskId, PauseId, Position, SessionId, StepId, ask_id, child_id, pause_id
from midcourse.errors import Damaged, ImpossibleEvent

replace = msgspec.structs.replace
T = TypeVar("T")


class Status(StrEnum):
    """Where a session stands. ``pausing`` and ``cancelling`` are real: no stop is shown as finished before it is."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    HALTED = "halted"
    COMPLETED = "completed"
    FAILED = "failed"


ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""Nothing happens any more unless somebody opens a new turn, or tries a failed one again."""

LIVE: Final = frozenset(Status) - ENDED
NEEDS_DRIVING: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""Left without an owner, a session in one of these is taken by any worker that can."""

BACK: Final = "back"
"""In the table: to the status the session had before it was paused or halted."""

TRANSITIONS: Final[Mapping[tuple[Status, type[ev.Event]], Status | str]] = {
    (Status.QUEUED, ev.SessionStarted): Status.RUNNING,
    (Status.RUNNING, ev.SessionWaiting): Status.WAITING,
    (Status.WAITING, ev.SessionWoken): Status.RUNNING,
    (Status.WAITING, ev.AskAnswered): Status.RUNNING,
    (Status.WAITING, ev.AskClosed): Status.RUNNING,
    (Status.QUEUED, ev.PauseRequested): Status.PAUSING,
    (Status.RUNNING, ev.PauseRequested): Status.PAUSING,
    (Status.WAITING, ev.PauseRequested): Status.PAUSING,
    (Status.PAUSING, ev.PauseRequested): Status.PAUSING,
    (Status.PAUSING, ev.SessionPaused): Status.PAUSED,
    (Status.PAUSING, ev.SessionResumed): BACK,
    (Status.PAUSED, ev.SessionResumed): BACK,
    **{(status, ev.CancelRequested): Status.CANCELLING for status in LIVE},
    (Status.CANCELLING, ev.SessionCancelled): Status.CANCELLED,
    **{(status, ev.SessionHalted): Status.HALTED for status in LIVE - {Status.HALTED}},
    (Status.HALTED, ev.HaltLifted): BACK,
    (Status.RUNNING, ev.SessionCompleted): Status.COMPLETED,
    # Not from halted: whoever may steer can try a failed session again, and would lift the kill switch that way.
    **{(status, ev.SessionFailed): Status.FAILED for status in LIVE - {Status.CANCELLING, Status.HALTED}},
    (Status.FAILED, ev.SessionResumed): Status.RUNNING,
    **{(status, ev.TurnOpened): Status.RUNNING for status in ENDED},
}
"""Everything that changes a status. The docs' diagram, the errors' hints and the console's buttons come from this."""

ALLOWED_IN: Final[Mapping[type[ev.Event], frozenset[Status]]] = {
    # A start in any status but running is what "stop means stop" forbids: the fold itself refuses it.
    ev.StepBegun: frozenset({Status.RUNNING}),
    ev.CheckpointTaken: frozenset({Status.RUNNING, Status.PAUSING}),
    # Queued, because a person may have to be asked before the agent starts at all.
    ev.AskOpened: frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSING, Status.HALTED}),
    ev.AskAnswered: LIVE - {Status.CANCELLING},
    # A cancel withdraws asks while it is under way; a new turn supersedes those that a failed one left open.
    ev.AskClosed: frozenset(Status),
    ev.SessionParked: frozenset({Status.PAUSED, Status.WAITING, Status.HALTED, Status.RUNNING, Status.QUEUED}),
    ev.SessionTaken: frozenset(Status),
    ev.SessionRedirected: frozenset(
        {Status.QUEUED, Status.RUNNING, Status.PAUSING, Status.PAUSED, Status.WAITING},
    ),
    **dict.fromkeys(
        (
            ev.StepNotBegun,
            ev.StepFinished,
            ev.StepFailed,
            ev.StepAborted,
            ev.StepCut,
            ev.StepClosed,
            ev.SegmentWritten,
            ev.ValueDrawn,
            ev.PlanChanged,
            ev.ReportMade,
            ev.AgentChanged,
            ev.AgentSilent,
            ev.LoopBlocked,
            ev.ChildAsked,
            ev.ChildAskClosed,
        ),
        LIVE,
    ),
}
"""Where an event that changes no status may happen."""


class OpenCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt at a step that has begun and has not ended. ``lost``: the process it ran in is gone."""

    step: StepId
    name: str
    kind: ev.StepKind
    attempt: int
    since: float
    lost: bool = False
    earlier_lost: bool = False
    redirected: int | None = None


class OpenAsk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to a person that can still be answered."""

    id: AskId
    step: StepId
    reason: str
    prompt: str
    since: float
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None


class ChildAsk(msgspec.Struct, frozen=True):
    """An open ask of a child: answer it as ``child/ask``."""

    child: SessionId
    ask: AskId
    reason: str
    prompt: str
    since: float


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person told the session: its goal, a redirect, or the message that opened a turn."""

    text: str
    level: ev.Level
    turn: int
    by: str = "local"
    at: float = 0.0
    grace: float | None = None


class StandingPause(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pause that stands, and the status it came from."""

    id: PauseId
    by: str
    since: float
    origin: Status
    reason: str = ""
    grace: float | None = None


class StandingCancel(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cancel under way. ``in_flight`` are the calls, by name, that were open when it came: its receipt's lines."""

    by: str
    since: float
    grace: float
    reason: str = ""
    in_flight: Mapping[StepId, str] = {}


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a session failed, and which step a resume tries again."""

    code: str
    message: str
    step: StepId | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as its journal tells it, up to ``position``."""

    id: SessionId
    agent: str
    agent_version: str
    mode: ev.Mode
    origin: str
    resumable: bool
    created_at: float
    parent: SessionId | None = None
    forked_from: str = ""
    status: Status = Status.QUEUED
    position: Position = Position(0)
    at: float = 0.0
    turn: int = 1
    scope: str = "1"
    checkpoints: int = 0
    messages: tuple[Message, ...] = ()
    calls: Mapping[StepId, OpenCall] = {}
    children: Mapping[StepId, SessionId] = {}
    child_asks: tuple[ChildAsk, ...] = ()
    unreached: tuple[SessionId, ...] = ()
    asks: tuple[OpenAsk, ...] = ()
    asks_opened: int = 0
    pause: StandingPause | None = None
    pauses: int = 0
    cancel: StandingCancel | None = None
    halted_from: Status | None = None
    halted_by: str = ""
    halts: int = 0
    plan: tuple[ev.PlanItem, ...] = ()
    progress: float | None = None
    hypothesis: str = ""
    finished_steps: int = 0
    cost: float = 0.0
    tokens: int = 0
    result: Value | None = None
    failure: Failure | None = None
    receipt: tuple[ev.ReceiptLine, ...] = ()

    @property
    def goal(self) -> str:
        """The goal as it stands: the last message that set one."""
        return next((message.text for message in reversed(self.messages) if message.level == "goal"), "")

    @property
    def next_scope(self) -> str:
        """What the next checkpoint's scope is called: by its place, so that whoever falls back finds the same names."""
        return f"{self.turn}.{self.checkpoints + 1}"

    @property
    def running(self) -> tuple[StepId, ...]:
        """Calls that have begun and have not ended, in a process that lives as far as the journal knows."""
        return tuple(call.step for call in self.calls.values() if not call.lost)

    @property
    def lost(self) -> tuple[StepId, ...]:
        """Calls that had begun in a process that is gone: nobody can say how they ended."""
        return tuple(call.step for call in self.calls.values() if call.lost)

    def ask(self, ask: AskId) -> OpenAsk | None:
        """The open ask of that id."""
        return next((one for one in self.asks if one.id == ask), None)


def created(session_id: SessionId, record: ev.Recorded) -> Session:
    """The session its first record makes."""
    event = record.event
    if not isinstance(event, ev.SessionCreated):
        raise Damaged(
            f"The journal of session '{session_id}' does not begin with its creation. Restore it from a backup.",
            session_id=session_id,
        )
    return Session(
        id=session_id,
        agent=event.agent,
        agent_version=event.agent_version,
        mode=event.mode,
        origin=event.origin,
        resumable=event.resumable,
        parent=event.parent,
        forked_from=event.forked_from,
        created_at=record.at,
        at=record.at,
        position=record.position,
        messages=(Message(event.goal, "goal", 1, at=record.at),),
    )


def status_after(session: Session, event: ev.AnyEvent) -> Status:
    """The status ``event`` leads to.

    Raises:
        ImpossibleEvent: it cannot happen in the session's status.
    """
    target = TRANSITIONS.get((session.status, type(event)))
    if target is None:
        if session.status in ALLOWED_IN.get(type(event), ()):
            return session.status
        raise _impossible(session, event, "not in this status")
    if target != BACK:
        return Status(target)
    return _origin(session, event)


def _origin(session: Session, event: ev.AnyEvent) -> Status:
    if isinstance(event, ev.HaltLifted):
        return session.halted_from or Status.RUNNING
    return session.pause.origin if session.pause else Status.RUNNING


def _contradiction(session: Session, event: ev.AnyEvent) -> str:
    """Why ``event`` cannot be true of ``session`` although its status would allow it; empty if it can."""
    match event:
        case ev.StepBegun(step=step):
            before = session.calls.get(step)
            return f"step '{step}' has begun and has not ended" if before is not None and not before.lost else ""
        case ev.StepFinished() | ev.StepFailed() | ev.SegmentWritten():
            return _not_open(session, event.step, event.attempt) or _is_lost(session, event.step)
        case ev.StepNotBegun() | ev.StepAborted() | ev.StepCut():
            return _not_open(session, event.step, event.attempt)
        case ev.StepClosed(step=step) if step in session.calls:  # what was aborted or cut before may be closed, too
            return _not_open(session, step, event.attempt)
        case ev.CheckpointTaken(scope=scope):
            if scope != session.next_scope:  # a name that stood before would give old results to new steps
                return f"the next scope is '{session.next_scope}', not '{scope}'"
            return _still_running(session) or ("an ask is open" if session.asks else "")
        case ev.SessionWaiting():
            return "" if session.asks else "no ask is open"
        case ev.AskOpened(ask=ask, step=step):
            if ask != ask_id(session.asks_opened + 1):
                return f"the next ask is '{ask_id(session.asks_opened + 1)}', not '{ask}'"
            return f"step '{step}' has an open ask" if any(one.step == step for one in session.asks) else ""
        case ev.AskAnswered(ask=ask, step=step) | ev.AskClosed(ask=ask, step=step):
            one = session.ask(ask)
            return "" if one is not None and one.step == step else f"step '{step}' has no open ask '{ask}'"
        case ev.PauseRequested(pause=pause):
            expected = session.pause.id if session.pause else pause_id(session.pauses + 1)
            return "" if pause == expected else f"the pause is '{expected}', not '{pause}'"
        case ev.SessionResumed(pause=pause):
            standing = session.pause.id if session.pause else None
            return "" if pause == standing else f"'{standing}' stands, not '{pause}'"
        case ev.CancelRequested(grace=grace):
            softer = session.cancel is not None and grace > session.cancel.grace
            return "a cancel only becomes firmer" if softer else ""
        case ev.TurnOpened():
            return "an ask is open" if session.asks else ""
        case _:
            return ""


def _not_open(session: Session, step: StepId, attempt: int) -> str:
    call = session.calls.get(step)
    return "" if call is not None and call.attempt == attempt else f"attempt {attempt} at step '{step}' is not open"


def _is_lost(session: Session, step: StepId) -> str:
    return f"the process step '{step}' ran in is gone" if session.calls[step].lost else ""


def _still_running(session: Session) -> str:
    return f"not ended: {', '.join(session.running)}" if session.running else ""


def _impossible(session: Session, event: ev.AnyEvent, why: str) -> ImpossibleEvent:
    return ImpossibleEvent(
        f"Session '{session.id}' is {session.status}; '{ev.event_type(event)}' cannot happen there: {why}.",
        session_id=session.id,
        status=str(session.status),
    )


def evolve(session: Session, record: ev.Recorded) -> Session:
    """The session after one more record. Pure.

    Raises:
        ImpossibleEvent: the event cannot happen in the session's status, or contradicts what is known of it.
    """
    event, at = record.event, record.at
    status = status_after(session, event)
    why_not = _contradiction(session, event)
    if why_not:
        raise _impossible(session, event, why_not)
    changes: dict[str, object] = {"status": status, "position": record.position, "at": at}
    match event:
        case ev.StepBegun():
            changes["calls"] = {**session.calls, event.step: _begun(session, event, at)}
            if event.kind == "child":
                changes["children"] = {**session.children, event.step: child_id(session.id, event.step)}
        case ev.StepNotBegun():
            calls = changes["calls"] = _not_begun(session, event.step)
            if session.cancel is not None and event.step not in calls:
                changes["cancel"] = replace(session.cancel, in_flight=_without(session.cancel.in_flight, event.step))
        case ev.StepFinished():
            changes["calls"] = _without(session.calls, event.step)
            changes["finished_steps"] = session.finished_steps + 1
            changes |= _spent(session, event) | _childless(session, event.step)
        case ev.StepCut():
            changes["calls"] = _without(session.calls, event.step)
            changes |= _spent(session, event)
        case ev.StepFailed():
            changes["calls"] = _without(session.calls, event.step)
            changes |= _spent(session, event) | _childless(session, event.step)
        case ev.StepClosed():
            changes["calls"] = _without(session.calls, event.step)
            changes |= _childless(session, event.step)
        case ev.StepAborted():  # a child that was stopped with its parent goes on with it
            changes["calls"] = _without(session.calls, event.step)
        case ev.ChildAsked():
            asked = ChildAsk(event.child, event.ask, event.reason, event.prompt, at)
            changes["child_asks"] = (*session.child_asks, asked)
        case ev.ChildAskClosed(child=child, ask=ask):
            changes["child_asks"] = tuple(one for one in session.child_asks if (one.child, one.ask) != (child, ask))
        case ev.SessionPaused(unreached=unreached):
            changes["unreached"] = unreached
        case ev.SessionTaken(lost=lost):
            changes["calls"] = {
                step: replace(call, lost=True) if step in lost else call for step, call in session.calls.items()
            }
        case ev.AskOpened():
            changes["asks"] = (*session.asks, _opened(event, at))
            changes["asks_opened"] = session.asks_opened + 1
        case ev.AskAnswered(ask=ask) | ev.AskClosed(ask=ask):
            changes["asks"] = tuple(one for one in session.asks if one.id != ask)
            # The path that waited for it goes on once the stop is lifted, whatever other paths still wait for.
            if session.pause is not None and session.pause.origin is Status.WAITING:
                changes["pause"] = replace(session.pause, origin=Status.RUNNING)
            if session.halted_from is Status.WAITING:
                changes["halted_from"] = Status.RUNNING
        case ev.PauseRequested():
            changes["pause"] = _paused_by(session, event, at)
            changes["pauses"] = session.pauses + (session.pause is None)
        case ev.SessionResumed():
            changes |= {"pause": None, "failure": None, "unreached": ()}
        case ev.SessionRedirected():
            changes["messages"] = (
                *session.messages,
                Message(event.text, event.level, session.turn, event.by, at, event.grace),
            )
            index = len(session.messages)
            changes["calls"] = {step: replace(call, redirected=index) for step, call in session.calls.items()}
        case ev.TurnOpened():
            turn = session.turn + 1
            changes |= {
                "turn": turn,
                "scope": str(turn),
                "checkpoints": 0,
                "messages": (*session.messages, Message(event.text, event.level, turn, event.by, at)),
                "calls": {},
                "children": {},
                "child_asks": (),
                "unreached": (),
                "pause": None,
                "cancel": None,
                "result": None,
                "failure": None,
                "receipt": (),
            }
        case ev.CheckpointTaken(scope=scope):
            changes["scope"] = scope
            changes["checkpoints"] = session.checkpoints + 1
        case ev.CancelRequested():
            changes["cancel"] = _cancelled_by(session, event, at)
            changes["pause"] = None
            changes["halted_from"] = None
        case ev.SessionCancelled():
            changes |= {
                "receipt": event.receipt,
                "unreached": event.unreached,
                "calls": {},
                "children": {},
                "child_asks": (),
            }
        case ev.SessionHalted():
            changes |= {"halted_from": session.status, "halted_by": event.by, "halts": session.halts + 1}
        case ev.HaltLifted():
            changes["halted_from"] = None
        case ev.SessionCompleted(result=result):
            changes["result"] = result
            changes["calls"] = {}
        case ev.SessionFailed():
            changes["failure"] = Failure(event.code, event.message, event.step)
            changes["pause"] = None
        case ev.AgentChanged(now=now):
            changes["agent_version"] = now
        case ev.PlanChanged(items=items):
            changes["plan"] = items
        case ev.ReportMade():
            if event.progress is not None:
                changes["progress"] = event.progress
            if event.hypothesis:
                changes["hypothesis"] = event.hypothesis
        case _:
            pass
    return replace(session, **changes)


def _begun(session: Session, event: ev.StepBegun, at: float) -> OpenCall:
    before = session.calls.get(event.step)
    lost = before is not None and (before.lost or before.earlier_lost)
    return OpenCall(event.step, event.name, event.kind, event.attempt, at, earlier_lost=lost)


def _spent(session: Session, event: ev.StepFinished | ev.StepFailed | ev.StepCut) -> dict[str, object]:
    return {"cost": session.cost + event.cost, "tokens": session.tokens + event.tokens}


def _childless(session: Session, step: StepId) -> dict[str, object]:
    """The child of ``step``, if it had one, has ended: it has nothing to ask any more, nor have its own children."""
    if step not in session.children:
        return {}
    gone = session.children[step]
    return {
        "children": {one: child for one, child in session.children.items() if one != step},
        "child_asks": tuple(ask for ask in session.child_asks if not f"{ask.child}.".startswith(f"{gone}.")),
    }


def _not_begun(session: Session, step: StepId) -> Mapping[StepId, OpenCall]:
    call = session.calls.get(step)
    if call is not None and call.earlier_lost:
        return {**session.calls, step: replace(call, attempt=call.attempt - 1, lost=True, earlier_lost=False)}
    return _without(session.calls, step)


def _without(calls: Mapping[StepId, T], step: StepId) -> Mapping[StepId, T]:
    return {one: call for one, call in calls.items() if one != step}


def _opened(event: ev.AskOpened, at: float) -> OpenAsk:
    return OpenAsk(
        event.ask,
        event.step,
        event.reason,
        event.prompt,
        at,
        event.options,
        event.expires_at,
        event.default,
    )


def _cancelled_by(session: Session, event: ev.CancelRequested, at: float) -> StandingCancel:
    standing = session.cancel
    in_flight = standing.in_flight if standing else {call.step: call.name for call in session.calls.values()}
    return StandingCancel(event.by, at, event.grace, event.reason, in_flight)


def _paused_by(session: Session, event: ev.PauseRequested, at: float) -> StandingPause:
    if session.pause is not None:  # a second pause only shortens the grace of the one that stands
        return replace(session.pause, grace=event.grace)
    return StandingPause(event.pause, event.by, at, session.status, event.reason, event.grace)
