"""The facts a journal is made of: past tense, versioned, never edited.

The tag of an event is ``{domain}.{action}@{version}``. To change the shape of one, give its class the next version and
register an upcaster from the old one; whatever was ever journaled stays readable.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, dataclass_transform, get_args

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import Effect, UndoChoice
from midcourse.core.ids import AskId, Epoch, InterventionId, MessageId, PauseId, Position, SessionId, StepId
from midcourse.core.policy.decisions import Decision
from midcourse.core.terms import NO_TERMS, Expiry, Terms
from midcourse.errors import Damaged, Unencodable

Level = Literal["step", "goal", "clarify"]
"""How a person changes a course: one more instruction, another goal, an explanation."""
MessageLevel = Literal[Level, "event"]
"""What a message to a session is: a person's, at its level, or word of an event outside."""
StepKind = Literal["tool", "model", "child"]
Continues = Literal["", "prefix", "quote"]
"""How a cut text goes on: from its own end, or by a request that quotes it. Empty: the answer begins again."""
Mode = Literal["replay", "state"]
DeferredVerb = Literal["pause", "cancel"]
"""A stop that waits for the end of the turn."""
Verdict = Literal["right", "wrong", "unsure"]
"""Whether it was right to step in."""
AskEnd = Literal["superseded", "withdrawn", "expired"]
ReceiptOutcome = Literal[
    "undone",
    "kept",
    "cannot be undone",
    "undo failed",
    "undo ran with unknown result",
    "unknown",
    "still running",
]
PlanStatus = Literal["queued", "running", "done", "interrupted"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Event(msgspec.Struct, gc=False, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """A fact about one session."""


class SessionCreated(Event, tag="session.created@1"):
    """A goal was given to an agent."""

    agent: str
    agent_version: str
    mode: Mode
    origin: str
    resumable: bool
    goal: str
    parent: SessionId | None = None
    forked_from: str = ""
    restarts: SessionId | None = None
    """The session that was forced to end, which this one begins anew."""
    terms: Terms = NO_TERMS
    by: str = "local"


class SessionStarted(Event, tag="session.started@1"):
    """The agent's code runs for the first time."""


class SessionTaken(Event, tag="session.taken@1"):
    """A new owner has the session; the calls that were alive in the old one are ``lost``.

    ``silent``: the old owner is not known to be dead, it has only not been heard of for too long.
    """

    epoch: Epoch
    worker: str
    lost: tuple[StepId, ...] = ()
    silent: bool = False


class SessionForked(Event, tag="session.forked@1"):
    """From here on this is a session of its own: what was in flight, held or done before is its source's."""

    source: str


class SessionParked(Event, tag="session.parked@1"):
    """The session lies in the store alone; nothing of it is in memory."""


class PauseRequested(Event, tag="session.pause_requested@1"):
    """Somebody wants the session to stop and keep its context. ``grace`` None lets calls in flight finish.

    Said again of a pause that stands, it changes its grace, its reason, or when it lapses.
    """

    pause: PauseId
    by: str
    reason: str = ""
    grace: float | None = None
    lapses: float | None = None
    wished_at: float | None = None
    """When it was put into the inbox; for a policy, when it decided."""
    budget: float | None = None
    """Dollars that the session's budget must be before this pause can be lifted."""


class PauseRenewed(Event, tag="session.pause_renewed@1"):
    """The pause that stands goes down to the children again: one of them may have been resumed since."""

    pause: PauseId
    by: str


class PauseLifted(Event, tag="session.pause_lifted@1"):
    """One of two pauses was lifted, the parent's or the people's. The other one still holds the session."""

    pause: PauseId
    by: str


class SessionPaused(Event, tag="session.paused@1"):
    """Nothing of the session runs. ``unknown`` are calls that were lost with their process, ``unreached`` children."""

    unknown: tuple[StepId, ...] = ()
    unreached: tuple[SessionId, ...] = ()


class SessionResumed(Event, tag="session.resumed@1"):
    """The pause was lifted, or a failed session is tried again."""

    by: str
    pause: PauseId | None = None


class SessionRedirected(Event, tag="session.redirected@1"):
    """A person, or an event outside, changed the course.

    ``grace`` None lets tool calls in flight finish; model streams are cut at once.
    """

    text: str
    level: MessageLevel
    by: str
    grace: float | None = None


class TurnOpened(Event, tag="session.turn_opened@1"):
    """A message to an ended session began a new turn.

    ``repeats``: so many messages at the end were said when the agent had just returned; this one stands for them.
    ``queued`` names the message that had waited for its turn, if it is one.
    """

    text: str
    level: MessageLevel
    by: str
    repeats: int = 0
    queued: MessageId | None = None


class MessageQueued(Event, tag="message.queued@1"):
    """Somebody said something that waits until the agent is done with what it works on."""

    message: MessageId
    text: str
    by: str


class MessageEdited(Event, tag="message.edited@1"):
    """A redirect or a queued message was said in other words before the model had seen it."""

    message: MessageId
    text: str
    by: str


class MessageWithdrawn(Event, tag="message.withdrawn@1"):
    """A redirect or a queued message was taken back before the model had seen it."""

    message: MessageId
    by: str


class MessagesSeen(Event, tag="message.seen@1"):
    """The agent has read the first ``count`` messages: from here on they stand as they are."""

    count: int


class BudgetRaised(Event, tag="budget.raised@1"):
    """What the session may cost, in dollars, from now on."""

    budget: float
    by: str


class CancelRequested(Event, tag="session.cancel_requested@1"):
    """Somebody wants the session to end. ``grace``: how long calls in flight may go on; ``undo``: what to roll back.

    ``force``: what finishes first does not. What a protected session was at is discarded; with ``restart``, a new one
    begins the same.
    """

    by: str
    grace: float
    reason: str = ""
    undo: UndoChoice = "in-flight"
    force: bool = False
    restart: bool = False
    operates: bool = False
    """Whether an operator wished it: the kill switch's halts of children are theirs alone to end."""
    wished_at: float | None = None
    """When it was put into the inbox. None: nobody put it there, it is a deadline's."""


class StopDeferred(Event, tag="stop.deferred@1"):
    """Somebody wants a protected session to stop: it finishes its turn first. ``undo``: what a cancel rolls back."""

    stop: DeferredVerb
    by: str
    reason: str = ""
    undo: UndoChoice = "in-flight"
    lapses: float | None = None


class StopTakenBack(Event, tag="stop.taken_back@1"):
    """A stop that waited for the end of the turn does not stand any more."""

    by: str


class ReceiptLine(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """What became of one effect, as far as it was observed. ``effect`` is ``hold`` for something that was held."""

    step: StepId
    name: str
    outcome: ReceiptOutcome
    effect: Effect | Literal["hold"] = "irreversible"
    attempt: int = 1
    detail: str = ""
    arguments: str = ""


class SessionCancelled(Event, tag="session.cancelled@1"):
    """The session ended by a cancel; the receipt tells of each effect that was in flight then, or was rolled back."""

    receipt: tuple[ReceiptLine, ...] = ()
    unreached: tuple[SessionId, ...] = ()
    restarted_as: SessionId | None = None
    """The session that begins anew what was forced to end."""


class UndoRequested(Event, tag="undo.requested@1"):
    """Somebody wants the effects of a session that has ended to be rolled back, newest first.

    ``force``: an operator gives up what needs a tool that no process has.
    """

    by: str
    reason: str = ""
    force: bool = False


class UndoBegun(Event, tag="undo.begun@1"):
    """The undo of an effect is about to run, for the ``number``-th time. ``attempt`` is the call's."""

    step: StepId
    name: str
    attempt: int
    key: str
    effect: Effect
    number: int


class UndoEnded(Event, tag="undo.ended@1"):
    """The undo returned; or it raised ``error``; or (``lost``) nobody can say what it did."""

    step: StepId
    attempt: int
    key: str
    number: int
    error: str = ""
    lost: bool = False


class UndoFinished(Event, tag="undo.finished@1"):
    """Everything that could be rolled back was tried; the receipt tells of each effect."""

    receipt: tuple[ReceiptLine, ...] = ()


class HoldTaken(Event, tag="hold.taken@1"):
    """The session holds something that must be let go when it ends; ``release`` is the import path of what lets go."""

    name: str
    release: str
    given: Value = NOTHING


class HoldReleased(Event, tag="hold.released@1"):
    """What was held has been let go; or letting it go raised ``error``, for the ``number``-th time."""

    name: str
    number: int = 1
    error: str = ""


class WorldChanged(Event, tag="world.changed@1"):
    """What tools had observed is different now, or could not be looked at. Told before the agent goes on."""

    changes: "tuple[Change, ...]"


class SessionHalted(Event, tag="session.halted@1"):
    """The kill switch stopped the session. ``switch``: the standing record it comes from, if it comes from one."""

    by: str
    reason: str = ""
    switch: str = ""
    wished_at: float | None = None
    """When it was put into the inbox."""


class HaltLifted(Event, tag="session.halt_lifted@1"):
    """An operator lifted the halt; the session is back where it was."""

    by: str


class SessionWaiting(Event, tag="session.waiting@1"):
    """Every path of the agent waits for an ask."""


class SessionWoken(Event, tag="session.woken@1"):
    """A path of the agent goes on although an ask is still open."""


class SessionCompleted(Event, tag="session.completed@1"):
    """The agent returned; the turn is over."""

    result: Value = NOTHING
    state: Value = NOTHING
    history: Value = NOTHING


class SessionFailed(Event, tag="session.failed@1"):
    """The agent raised, or cannot go on. ``code`` says why in one word, ``step`` which step a resume tries again."""

    code: str
    message: str
    step: StepId | None = None


class AgentChanged(Event, tag="agent.changed@1"):
    """The session goes on under another version of its agent."""

    before: str
    now: str


class AgentSilent(Event, tag="agent.silent@1"):
    """The agent's own code has made no ``run.*`` call for a while, so it cannot be paused there."""

    seconds: float
    advice: str = "cannot be paused here; wrap this call in run.step"


class LoopBlocked(Event, tag="agent.blocked@1"):
    """The session's code held the event loop it runs on, so that nothing else there could run, not even an abort."""

    seconds: float
    where: str
    advice: str = "run this call in a plain function given to run.step, which gets a thread"


class ToolsNeeded(Event, tag="tools.needed@1"):
    """What a cancel or an undo rolls back needs tools that this process does not have. It continues where they are."""

    tools: tuple[str, ...]


class ChildAsked(Event, tag="child.asked@1"):
    """A child of this session, or a child's child, needs a person."""

    child: SessionId
    ask: AskId
    reason: str
    prompt: str


class ChildAskClosed(Event, tag="child.ask_closed@1"):
    """A child's ask was answered, or can no longer be."""

    child: SessionId
    ask: AskId


class CheckpointTaken(Event, tag="checkpoint.taken@1"):
    """A ``state`` agent said "start here": opens the scope that later steps are named in.

    ``history`` is what ``run.history`` has grown by since the last one: each item is written once.
    """

    scope: str
    state: Value = NOTHING
    history: Value = NOTHING


class StepBegun(Event, tag="step.begun@1"):
    """An attempt at a step is about to run. ``digest`` stands for its arguments, ``arguments`` shows them.

    For a call that is no ``read``: ``key`` is what the other side knows it by, ``tool`` the import path of the tool,
    ``given`` its arguments by name (if it can be undone or probed), ``settle`` how long a lost request may still land.
    """

    step: StepId
    name: str
    kind: StepKind
    attempt: int
    digest: str
    arguments: str = ""
    effect: Effect = "read"
    key: str = ""
    tool: str = ""
    given: Value = NOTHING
    settle: float = 0.0
    can_undo: bool = False
    can_probe: bool = False
    asks_if_silent: bool = False
    approval: AskId | None = None


class StepNotBegun(Event, tag="step.not_begun@1"):
    """The gate shut before this attempt ran; what earlier attempts did stays as it was."""

    step: StepId
    attempt: int


class StepFinished(Event, tag="step.finished@1"):
    """The step has a result and is never executed again. ``streamed``: the result is the text of its segments.

    A model's ``cost`` of 0 is a price that nobody knows, unless it is ``free``: then it is known to cost nothing.

    ``told_by`` names the probe or the person who said that it had happened, when nobody saw it finish. ``observed`` is
    what the call looked at, with its versions. ``nothing_done``: it says itself that it changed nothing.
    """

    step: StepId
    attempt: int
    value: Value = NOTHING
    streamed: bool = False
    cost: float = 0.0
    tokens: int = 0
    told_by: str = ""
    observed: Mapping[str, "Observation"] = {}
    nothing_done: bool = False
    free: bool = False


class StepFailed(Event, tag="step.failed@1"):
    """The step raised; the agent sees that as its outcome. ``cut``: it did not end by itself, so it must settle.

    ``nothing_done``: it refused what it was given, before it did anything.
    """

    step: StepId
    attempt: int
    kind: str
    detail: str
    cost: float = 0.0
    tokens: int = 0
    cut: bool = False
    nothing_done: bool = False
    free: bool = False


class StepRetrying(Event, tag="step.retrying@1"):
    """The attempt raised what may pass, and the step is tried again ``wait`` seconds later, at ``again_at``.

    It is one of ``attempts`` that its retry allows. ``retry_after`` is what the other side asked for; ``unanswered``:
    no answer came, so what it sent must settle. ``left``: seconds of the step's timeout that the next one has.
    """

    step: StepId
    attempt: int
    kind: str
    detail: str
    wait: float
    again_at: float
    attempts: int
    retry_after: float | None = None
    unanswered: bool = False
    left: float | None = None
    cost: float = 0.0
    tokens: int = 0
    free: bool = False


class StepAborted(Event, tag="step.aborted@1"):
    """A stop ended this attempt, which may have happened all the same. ``asked``: it ended itself, to ask a person."""

    step: StepId
    attempt: int
    asked: bool = False


class StepSettled(Event, tag="step.settled@1"):
    """A probe or a person told whether a lost call happened: no, or (None) they cannot say. A yes finishes the step."""

    step: StepId
    attempt: int
    by: str
    happened: bool | None = None


class StepCut(Event, tag="step.cut@1"):
    """A stop or a redirect cut this model stream; what it had said stays, marked as cut.

    ``continues``: how the next attempt goes on from that; empty, if the answer begins again.
    """

    step: StepId
    attempt: int
    length: int
    cost: float = 0.0
    tokens: int = 0
    free: bool = False
    continues: Continues = ""


class StepClosed(Event, tag="step.closed@1"):
    """A redirect closed the step for good; ``truth`` says what is known of it."""

    step: StepId
    attempt: int
    message: int
    truth: str


class SegmentWritten(Event, tag="segment.written@1"):
    """A piece of streamed output, durable while its step still runs. It supersedes what stood from ``offset`` on.

    ``cost`` is what the attempt has cost by then, in all, as far as that is known (``free``: nothing, which is known),
    and ``tokens`` what it has written. Both are counted as they come, and its end says them again.
    ``continues``: how the next attempt would continue if the process died now.
    """

    step: StepId
    attempt: int
    offset: int
    text: str
    cost: float = 0.0
    tokens: int = 0
    free: bool = False
    continues: Continues = ""


class AskOpened(Event, tag="ask.opened@1"):
    """A person is needed. ``covers`` is the digest of what an approval would be for.

    Not answered before ``expires_at``, it is answered with its ``default``; without one, ``on_expiry`` happens.
    """

    ask: AskId
    step: StepId
    reason: str
    prompt: str
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None
    covers: str = ""
    on_expiry: Expiry = "fail"


class AskAnswered(Event, tag="ask.answered@1"):
    """A person (or the ask's own default, at its deadline) answered."""

    ask: AskId
    step: StepId
    value: Value
    by: str


class AskClosed(Event, tag="ask.closed@1"):
    """The ask can no longer be answered. ``then`` says what happens now that it has ``expired``.

    ``fail``: the agent gets ``AskExpired``. ``cancel``: the session is cancelled.
    """

    ask: AskId
    step: StepId
    end: AskEnd
    then: Expiry | None = None


class ValueDrawn(Event, tag="value.drawn@1"):
    """The agent looked at the clock, at chance or at its messages; a replay sees the same."""

    name: str
    value: Value


class Observation(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The version something had (None: it did not exist), and the call that can look at it again."""

    version: str | None
    tool: str
    given: Value = NOTHING


class Change(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Something that was observed is different now. ``why`` is set if it could not be looked at.

    ``policy`` is what its tool wants then: ``go_on``, ``tell`` the agent, ``ask`` a person, ``refuse``.
    """

    resource: str
    before: str | None
    now: str | None
    policy: str = "tell"
    why: str = ""


class PlanItem(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One line of the plan people see."""

    title: str
    status: PlanStatus = "queued"


class PlanChanged(Event, tag="plan.changed@1"):
    """The agent's task list, as a whole."""

    items: tuple[PlanItem, ...]


class ReportMade(Event, tag="report.made@1"):
    """What the agent says of itself: progress, hypothesis, an artifact it made and what that is, a remark.

    ``step``: its model said it in that answer, and no ``run.report`` did.
    """

    progress: float | None = None
    hypothesis: str = ""
    artifact: str = ""
    message: str = ""
    documentation: str = ""
    step: StepId | None = None


class InterventionMade(Event, tag="intervention.made@1"):
    """A policy, or the agent itself, stepped in or told people of something, with all of its reasons.

    ``pause`` and ``ask`` name what it led to.
    """

    intervention: InterventionId
    by: str
    decision: Decision
    pause: PauseId | None = None
    ask: AskId | None = None


class InterventionLabelled(Event, tag="intervention.labelled@1"):
    """A person says whether it was right to step in. ``about`` is an intervention, a pause or a message."""

    about: str
    verdict: Verdict
    by: str
    note: str = ""


class SessionRated(Event, tag="session.rated@1"):
    """A person says how content they are with it, from 1 to 5."""

    score: int
    by: str
    note: str = ""


class SessionErased(Event, tag="session.erased@1"):
    """What anybody wrote in it was erased, up to here. ``kept`` is the digest of what was left of each record."""

    by: str
    reason: str = ""
    kept: str = ""


AnyEvent = (
    SessionCreated
    | SessionStarted
    | SessionTaken
    | SessionForked
    | SessionParked
    | PauseRequested
    | PauseRenewed
    | PauseLifted
    | StopDeferred
    | StopTakenBack
    | SessionPaused
    | SessionResumed
    | SessionRedirected
    | TurnOpened
    | MessageQueued
    | MessageEdited
    | MessageWithdrawn
    | MessagesSeen
    | BudgetRaised
    | CancelRequested
    | SessionCancelled
    | UndoRequested
    | UndoBegun
    | UndoEnded
    | UndoFinished
    | HoldTaken
    | HoldReleased
    | WorldChanged
    | SessionHalted
    | HaltLifted
    | SessionWaiting
    | SessionWoken
    | SessionCompleted
    | SessionFailed
    | AgentChanged
    | AgentSilent
    | LoopBlocked
    | ToolsNeeded
    | ChildAsked
    | ChildAskClosed
    | CheckpointTaken
    | StepBegun
    | StepNotBegun
    | StepFinished
    | StepFailed
    | StepRetrying
    | StepAborted
    | StepSettled
    | StepCut
    | StepClosed
    | SegmentWritten
    | AskOpened
    | AskAnswered
    | AskClosed
    | ValueDrawn
    | PlanChanged
    | ReportMade
    | InterventionMade
    | InterventionLabelled
    | SessionRated
    | SessionErased
)


class Record(msgspec.Struct, gc=False, frozen=True):
    """An event and when it was journaled (seconds since 1970): what one row of a journal says."""

    at: float
    event: AnyEvent


class Recorded(msgspec.Struct, gc=False, frozen=True):
    """A record at its place in the journal; ``position`` is the event's id."""

    position: Position
    at: float
    event: AnyEvent

    @property
    def type(self) -> str:
        """``{domain}.{action}``."""
        return event_type(self.event)


def event_type(event: AnyEvent) -> str:
    """The type of an event without its version: ``{domain}.{action}``."""
    return str(event.__struct_config__.tag).partition("@")[0]


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: Final[dict[str, Upcaster]] = {}
"""From a tag of the past to the fields of the next version, whose tag the result carries. Empty until there is one."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def _number_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type in (float, float | None))


_NUMBERS: Final = {kind: _number_fields(kind) for kind in get_args(AnyEvent)}


def encode_record(record: Record) -> bytes:
    """One journal row.

    Raises:
        Unencodable: it holds a number or a text that could not be read back.
    """
    event = record.event
    for name in _NUMBERS[type(event)]:
        number = getattr(event, name)
        if number is not None and not isfinite(number):
            raise Unencodable(
                f"'{name}' of '{event_type(event)}' is {number}, which cannot be journaled. Give a finite number.",
                what=name,
            )
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError as error:
        raise Unencodable(
            f"'{event_type(event)}' holds text that is not Unicode ({error.reason}), which cannot be journaled. "
            "Decode it first, for example with errors='replace'.",
            what=event_type(event),
        ) from error


def decode_record(content: bytes, upcasters: Mapping[str, Upcaster] = UPCASTERS) -> Record:
    """One journal row back to a record, whatever version wrote it.

    Raises:
        Damaged: no version of Midcourse known here wrote this.
    """
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _upcast(content, upcasters, error)


def _upcast(content: bytes, upcasters: Mapping[str, Upcaster], error: Exception) -> Record:
    tags: list[str] = []
    try:
        record = msgspec.json.decode(content, type=dict[str, Any])
        event: dict[str, Any] = record["event"]
        tags.append(str(event["type"]))
        while tags[-1] in upcasters:
            event = upcasters[tags[-1]](event)
            if event["type"] in tags:
                raise ValueError(f"the upcasters go round in a circle at '{event['type']}'")
            tags.append(str(event["type"]))
        # By way of bytes: a value stays JSON as it is, which no conversion between objects would leave it.
        return _decoder.decode(msgspec.json.encode({**record, "event": event}))
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as again:
        name = f"of type '{tags[0]}' " if tags else ""
        raise Damaged(
            f"A journal record {name}cannot be read ({again if len(tags) > 1 else error}). It was written by a newer "
            "Midcourse, or it is damaged: upgrade this program, or restore the store from a backup.",
        ) from again
