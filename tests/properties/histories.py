"""Random histories: what people may wish and what a driver may do, in any order, as far as it is possible."""

import contextlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.calls import GIVEN_UP
from midcourse.core.codec import Value
from midcourse.core.deadlines import expire
from midcourse.core.decisions import decide
from midcourse.core.effects import Effect
from midcourse.core.evolution import evolve
from midcourse.core.ids import AskId, CommandId, Epoch, MessageId, PauseId, StepId, ask_id, call_key
from midcourse.core.policy_decision import Level
from midcourse.core.session import OpenCall, Session
from midcourse.core.steps import StepLog, step_id
from midcourse.core.turns import next_turn
from midcourse.errors import ImpossibleEvent, Refused
from tests.unit.core.stories import STOP, Story

# ---- values of every type that stands in an event

json_values: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**80), max_value=2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _inline(json: object) -> Value:
    return Value(raw=msgspec.Raw(msgspec.json.encode(json)))


values: Final = json_values.map(_inline) | st.builds(
    Value, blob=st.text("0123456789abcdef", min_size=32, max_size=32), size=st.integers(1, 10**9)
)
_BY_TYPE: Final[Mapping[Any, st.SearchStrategy[Any]]] = {
    str: st.text(max_size=30),
    int: st.integers(0, 2**63),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    types.NoneType: st.none(),
    Value: values,
    Any: st.none() | st.booleans() | st.text(max_size=20) | st.lists(st.integers(0, 2**53), max_size=3),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    if isinstance(kind, typing.NewType):
        return values_of(kind.__supertype__)
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=3).map(tuple)
    if get_origin(kind) in (Mapping, dict):
        key, value = get_args(kind)
        return st.dictionaries(values_of(key), values_of(value), max_size=3)
    if get_origin(kind) in (types.UnionType, typing.Union):
        return st.one_of(*map(values_of, get_args(kind)))
    return structs(kind)


def structs(kind: Any) -> st.SearchStrategy[Any]:
    """Any struct of a class, its optional fields given or not."""
    fields = msgspec.structs.fields(kind)
    given = {field.name: values_of(field.type) for field in fields if field.required}
    maybe = {field.name: values_of(field.type) for field in fields if not field.required}
    return st.fixed_dictionaries(given, optional=maybe).map(lambda fields: kind(**fields))


EVENT_TYPES: Final[tuple[type[ev.AnyEvent], ...]] = get_args(ev.AnyEvent)
any_event: Final[st.SearchStrategy[ev.AnyEvent]] = st.sampled_from(EVENT_TYPES).flatmap(structs)

# ---- what people may wish

_ID: Final = CommandId("c")
_NAMES: Final = ("pause_1", "pause_2", "pause_3", "ask_1", "ask_2", "ask_3", "nothing", "{status}", "pause_0")
_who: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "id": st.just(_ID),
    "by": st.sampled_from(["ada", "bob"]),
    "role": st.sampled_from(["operate", "steer", "operate", "approve", "watch"]),
}
_graces: Final = st.sampled_from([0.0, 0.5, 1.0, 2.0, 60.0])
pauses: Final = st.builds(cmd.Pause, **_who, reason=st.just("wait"), grace=st.none() | _graces)
resumes: Final = st.builds(cmd.Resume, **_who, pause=st.none() | st.sampled_from(_NAMES).map(PauseId))
redirects: Final = st.builds(
    cmd.Redirect,
    **_who,
    text=st.just("in French"),
    level=st.sampled_from(["step", "goal", "clarify"]),
    grace=st.none() | _graces,
    resume=st.booleans(),
)
cancels: Final = st.builds(
    cmd.Cancel, **_who, grace=_graces, undo=st.none() | st.sampled_from(["none", "in-flight", "all"])
)
undos: Final = st.builds(cmd.Undo, **_who)
answers: Final = st.builds(cmd.Answer, **_who, value=values, ask=st.none() | st.sampled_from(_NAMES).map(AskId))
_MESSAGES: Final = (
    "msg_1",
    "msg_2",
    "msg_3",
    "msg_4",
    "queued_1",
    "queued_2",
    "queued_3",
    "msg_0",
    "nothing",
    "{status}",
)
_message_ids: Final = st.sampled_from(_MESSAGES).map(MessageId)
messages: Final = st.builds(
    cmd.Message,
    **_who,
    text=st.sampled_from(["then the appendix", "and {print} it"]),
    behaviour=st.sampled_from(["enqueue", "enqueue", "redirect", "reject"]),
)
amendments: Final = st.one_of(
    st.builds(cmd.Edit, **_who, message=_message_ids, text=st.just("in Dutch")),
    st.builds(cmd.Withdraw, **_who, message=_message_ids),
)
outside_events: Final = st.builds(
    cmd.OutsideEvent, **_who, text=st.just("it broke"), source=st.sampled_from(["", "ci"])
)
budgets: Final = st.builds(cmd.Budget, **_who, budget=st.sampled_from([1.0, 5.0, 25.0]), resume=st.booleans())
interventions: Final = st.builds(
    cmd.Intervene,
    **(_who | {"by": st.sampled_from(["policy:standard@1", "agent:writer"])}),
    decision=st.sampled_from(["none", "notify", "ask_plan", "ask", "pause", "stop"]).map(
        lambda level: replace(STOP, level=level, question="unknown_error" if level == "ask" else "")
    ),
)
labels: Final = st.builds(
    cmd.Label,
    **_who,
    about=st.sampled_from(["int_1", "int_2", "pause_1", "msg_1", "msg_2", "int_0", "nothing", "{status}"]),
    verdict=st.sampled_from(["right", "wrong", "unsure"]),
)
ratings: Final = st.builds(cmd.Rate, **_who, score=st.integers(1, 5))
halts: Final = st.builds(cmd.Halt, **_who)
lifts: Final = st.builds(cmd.Lift, **_who)
any_command: Final[st.SearchStrategy[cmd.AnyCommand]] = st.one_of(
    *(pauses, resumes, redirects, cancels, undos, answers, messages, amendments, outside_events, budgets),
    *(interventions, labels, ratings, halts, lifts),
)

# ---- what a driver may do


class Move(msgspec.Struct, frozen=True):
    """Something a driver wants to do; which step it means follows from ``pick`` and the session as it stands."""

    do: str
    pick: int
    value: Value


def _steps(session: Session, move: Move) -> StepId:
    return step_id(session.scope, ("fetch", "write", "say")[move.pick % 3], move.pick % 2)


def _begin(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    step = _steps(session, move)
    record = log.steps.get(step)
    attempt, digest = (record.attempt + 1, record.digest) if record else (1, "d")
    effect = _EFFECTS[step.partition("/")[2]]
    return [
        ev.StepBegun(
            step=step,
            name=step.partition("/")[2].partition("#")[0],
            kind="model" if move.pick % 3 == 2 else "tool",
            attempt=attempt,
            digest=digest,
            effect=effect,
            key="" if effect == "read" else call_key(session.id, step, record.generation if record else 0),
            tool="" if effect == "read" else f"tools:{effect}",
            settle=0.0 if effect == "read" else 5.0,
            can_undo=effect == "reversible",
            can_probe=effect == "irreversible",
        )
    ]


_EFFECTS: Final[Mapping[str, Effect]] = {
    "fetch#0": "read",
    "fetch#1": "idempotent",
    "write#0": "reversible",
    "write#1": "irreversible",
    "say#0": "read",
    "say#1": "read",
}


def _undo(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    calls = [call for call in session.calls.values() if call.end and call.can_undo and call.step in log.steps]
    if not calls:
        return []
    call = calls[move.pick % len(calls)]
    return [
        ev.UndoBegun(
            step=call.step,
            name=call.name,
            attempt=call.attempt,
            key=call.key,
            effect=call.effect,
            number=call.undos + 1,
        )
    ]


def _undo_ended(error: str = "", *, lost: bool = False) -> Callable[[Session, StepLog, Move], Sequence[ev.AnyEvent]]:
    def moves(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
        calls = [call for call in session.calls.values() if call.undo == "running" and call.step in log.steps]
        if not calls:
            return []
        call = calls[move.pick % len(calls)]
        return [
            ev.UndoEnded(step=call.step, attempt=call.attempt, key=call.key, number=call.undos, error=error, lost=lost)
        ]

    return moves


def _lost(session: Session) -> tuple[StepId, ...]:
    def is_lost(call: OpenCall) -> bool:
        return not call.end or call.undo == "running"

    return tuple(call.step for call in session.calls.values() if is_lost(call))


def _of_a_call(
    make: Callable[[StepId, int, StepLog, Move], ev.AnyEvent],
) -> Callable[[Session, StepLog, Move], Sequence[ev.AnyEvent]]:
    def moves(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
        calls = [call for call in session.calls.values() if call.step in log.steps]
        if not calls:
            return []
        call = calls[move.pick % len(calls)]
        return [make(call.step, call.attempt, log, move)]

    return moves


def _ask(session: Session, _log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    ordinal = session.asks_opened + 1
    expires_at = 100.0 if move.pick % 2 else None
    default = move.value if move.pick % 4 == 3 else None
    step = step_id(session.scope, "ask", ordinal)
    return [
        ev.AskOpened(
            ask=ask_id(ordinal),
            step=step,
            reason="need_approval" if move.pick % 3 == 2 else "unsure",
            prompt="{Go on}?",
            expires_at=expires_at,
            default=default,
        )
    ]


def _close(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    open_steps = [(step, record) for step, record in log.steps.items() if not record.outcome]
    if not open_steps:
        return []
    step, record = open_steps[move.pick % len(open_steps)]
    message = session.last_said() or 0
    attempt = session.calls[step].attempt if step in session.calls else record.attempt
    return [ev.StepClosed(step=step, attempt=attempt, message=message, truth="may have happened")]


def _fail(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    failed = [step for step, record in log.steps.items() if record.outcome == "failed"]
    step = failed[move.pick % len(failed)] if failed else None
    code = ("agent_failed", "agent_failed", "agent_failed", "damaged")[move.pick % 4]
    return [ev.SessionFailed(code=code, message="{no}", step=step)]


def _see(session: Session, _log: StepLog, _move: Move) -> Sequence[ev.AnyEvent]:
    return [ev.MessagesSeen(count=len(session.messages))] if session.seen < len(session.messages) else []


def _complete(session: Session, _log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    """What was said when the agent had returned, or else what waits, is the next turn, in one append."""
    asks = [ev.AskClosed(ask=ask.id, step=ask.step, end="withdrawn") for ask in session.asks]
    late = session.messages[session.seen :]
    done = ev.SessionCompleted(result=move.value, state=move.value)
    if any(not one.withdrawn for one in late):
        text = "\n".join(one.text for one in late if not one.withdrawn)
        return [*asks, done, ev.TurnOpened(text=text, level="step", by="ada", repeats=len(late))]
    return [*asks, done, next_turn(session)] if session.queue else [*asks, done]


DRIVER: Final[Mapping[str, Callable[[Session, StepLog, Move], Sequence[ev.AnyEvent]]]] = {
    "start": lambda session, log, move: [ev.SessionStarted()],
    "begin": _begin,
    "finish": _of_a_call(lambda step, n, _, move: ev.StepFinished(step=step, attempt=n, value=move.value, cost=0.25)),
    "finish streamed": _of_a_call(
        lambda step, n, _, move: ev.StepFinished(step=step, attempt=n, streamed=True, tokens=3)
    ),
    "raise": _of_a_call(lambda step, n, _, __: ev.StepFailed(step=step, attempt=n, kind="OSError", detail="down")),
    "raise what may pass": _of_a_call(
        lambda step, n, _, move: ev.StepRetrying(
            step=step,
            attempt=n,
            kind="ConnectionError",
            detail="{gone}",
            wait=1.0,
            again_at=100.0,
            attempts=5,
            unanswered=bool(move.pick % 2),
            cost=0.125,
        )
    ),
    "abort": _of_a_call(lambda step, n, _, __: ev.StepAborted(step=step, attempt=n)),
    "find the gate shut": _of_a_call(lambda step, n, _, __: ev.StepNotBegun(step=step, attempt=n)),
    "cut": _of_a_call(
        lambda step, n, log, __: ev.StepCut(step=step, attempt=n, length=log.steps[step].length, cost=0.5)
    ),
    "write": _of_a_call(
        lambda step, n, log, _: ev.SegmentWritten(step=step, attempt=n, offset=log.steps[step].length, text="héllo ")
    ),
    "write over": _of_a_call(
        lambda step, n, log, _: ev.SegmentWritten(step=step, attempt=n, offset=log.steps[step].length // 2, text="…")
    ),
    "close": _close,
    "ask": _ask,
    "wait": lambda session, log, move: [ev.SessionWaiting()],
    "wake": lambda session, log, move: [ev.SessionWoken()],
    "expire": lambda session, log, move: expire(session, 1e9),
    "pause": lambda session, log, move: [ev.SessionPaused(unknown=session.lost)],
    "cancel": lambda session, log, move: [
        ev.SessionCancelled(receipt=tuple(session.cancel.receipt.values()) if session.cancel else ())
    ],
    "told that it happened": _of_a_call(
        lambda step, n, _, move: ev.StepFinished(step=step, attempt=n, value=move.value, told_by="probe")
    ),
    "told that it did not": _of_a_call(
        lambda step, n, _, __: ev.StepSettled(step=step, attempt=n, by="ada", happened=False)
    ),
    "told nothing": _of_a_call(lambda step, n, _, __: ev.StepSettled(step=step, attempt=n, by="probe")),
    "give up": _of_a_call(lambda step, n, _, __: ev.StepFailed(step=step, attempt=n, kind=GIVEN_UP, detail="no")),
    "undo": _undo,
    "undone": _undo_ended(),
    "fail to undo": _undo_ended("no"),
    "lose the undo": _undo_ended("no end", lost=True),
    "undo all": lambda session, log, move: [ev.UndoFinished()],
    "hold": lambda session, log, move: [ev.HoldTaken(name=f"lock {move.pick % 2}", release="tools:unlock")],
    "release": lambda session, log, move: [ev.HoldReleased(name=f"lock {move.pick % 2}")],
    "see a change": lambda session, log, move: [ev.WorldChanged(changes=(ev.Change("file:a", "1", "2"),))],
    "fork": lambda session, log, move: [ev.SessionForked(source="sess_1@3")],
    "complete": lambda session, log, move: [ev.SessionCompleted(result=move.value, state=move.value)],
    "go on with what was said": _complete,
    "see": _see,
    "fail": _fail,
    "park": lambda session, log, move: [ev.SessionParked()],
    "take": lambda session, log, move: [
        ev.SessionTaken(epoch=Epoch(session.position), worker="w", lost=_lost(session)),
    ],
    "checkpoint": lambda session, log, move: [
        ev.CheckpointTaken(scope=session.next_scope, state=move.value),
    ],
    "draw": lambda session, log, move: [ev.ValueDrawn(name="now", value=move.value)],
    "plan": lambda session, log, move: [ev.PlanChanged(items=(ev.PlanItem("write", "running"),))],
    "report": lambda session, log, move: [ev.ReportMade(progress=move.pick / 10, hypothesis="slow")],
    "fall silent": lambda session, log, move: [ev.AgentSilent(seconds=30.0)],
    "change": lambda session, log, move: [ev.AgentChanged(before=session.agent_version, now=str(move.pick))],
}
any_move: Final = st.builds(Move, do=st.sampled_from(sorted(DRIVER)), pick=st.integers(0, 11), value=values)


def events_of(session: Session, log: StepLog, move: Move) -> Sequence[ev.AnyEvent]:
    """What ``move`` would journal."""
    return DRIVER[move.do](session, log, move)


# ---- whole histories

_VALUES: Final = (Value(), Value(raw=msgspec.Raw(b'{"rows":[1,2.5,null]}')), Value(blob="ab" * 16, size=40_000))
_PICKS: Final = {"begin": 6, "finish": 3, "ask": 4, "write": 2, "abort": 2, "cut": 2, "fail": 4}
_MOVES: Final = tuple(Move(do, pick, _VALUES[pick % 3]) for do in DRIVER for pick in range(_PICKS.get(do, 1)))
_LEVELS: Final[tuple[Level, ...]] = ("notify", "ask_plan", "pause", "stop")
_OPERATOR: Final[Mapping[str, Any]] = {"id": _ID, "role": "operate"}
_WISHES: Final[tuple[cmd.AnyCommand, ...]] = (
    cmd.Pause(**_OPERATOR),
    cmd.Pause(**_OPERATOR, grace=1.0),
    cmd.Resume(**_OPERATOR),
    cmd.Redirect(**_OPERATOR, text="in French", level="goal"),
    cmd.Redirect(**_OPERATOR, text="shorter", grace=0.0, resume=True),
    cmd.Answer(**_OPERATOR, value=_VALUES[1]),
    cmd.Message(**_OPERATOR, text="then the appendix"),
    cmd.Message(**_OPERATOR, text="then print it", behaviour="redirect"),
    cmd.Edit(**_OPERATOR, message=MessageId("msg_2"), text="in Dutch"),
    cmd.Edit(**_OPERATOR, message=MessageId("queued_2"), text="in Dutch"),
    cmd.Withdraw(**_OPERATOR, message=MessageId("msg_3")),
    cmd.Withdraw(**_OPERATOR, message=MessageId("queued_1")),
    cmd.OutsideEvent(**_OPERATOR, text="it broke", source="ci"),
    cmd.Budget(**_OPERATOR, budget=5.0),
    cmd.Cancel(**_OPERATOR),
    cmd.Cancel(**_OPERATOR, undo="all"),
    cmd.Undo(**_OPERATOR),
    cmd.Halt(**_OPERATOR),
    cmd.Lift(**_OPERATOR),
    *(cmd.Intervene(**_OPERATOR, decision=replace(STOP, level=level)) for level in _LEVELS),
    cmd.Answer(**_OPERATOR, value=_inline("go on")),
    cmd.Answer(**_OPERATOR, value=_inline("shorter")),
    cmd.Label(**_OPERATOR, about="int_1", verdict="wrong"),
    cmd.Rate(**_OPERATOR, score=4),
)
_ENDS_MUCH: Final = (ev.CancelRequested, ev.SessionHalted, ev.SessionCompleted, ev.SessionFailed)


def _is_possible(session: Session, events: Sequence[ev.AnyEvent]) -> bool:
    try:
        for event in events:
            session = evolve(session, ev.Recorded(session.position, session.at, event))
    except ImpossibleEvent:
        return False
    return bool(events)


def _decided(session: Session, wish: cmd.AnyCommand) -> Sequence[ev.AnyEvent]:
    try:
        return decide(session, wish)
    except Refused:
        return ()


@st.composite
def stories(draw: st.DrawFn, *, min_size: int = 0, max_size: int = 40) -> Story:
    """A random history that could have been; each deed is one of those that are possible where it stands."""
    story = Story()
    for _ in range(draw(st.integers(min_size, max_size))):
        deeds = [events_of(story.session, story.log, move) for move in _MOVES]
        deeds += [_decided(story.session, wish) for wish in _WISHES]
        deeds = [deed for deed in deeds if _is_possible(story.session, deed)]
        gentle = [deed for deed in deeds if not isinstance(deed[0], _ENDS_MUCH)]
        choice = draw(st.sampled_from([*gentle, *gentle, *deeds]))
        with contextlib.suppress(ImpossibleEvent):  # the step log knows more than the session
            story.happen(*choice)
    return story
