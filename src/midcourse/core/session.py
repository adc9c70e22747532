"""The life of a session: its states, the table of what changes them, and the fold of its journal.

The rules of this module: whatever changes a status is in ``TRANSITIONS``; an event that is in neither table, or that
contradicts what is known of its step, ask or pause, cannot happen, and folding it is an error. This module knows
nothing of stores, agents or clocks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeVar

import msgspec

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import Effect, UndoChoice
from midcourse.core.ids import AskId, MessageId, PauseId, Position, SessionId, StepId, is_review_step, message_id
from midcourse.core.terms import NO_TERMS, Expiry, Terms

replace = msgspec.structs.replace
T = TypeVar("T")


class Status(StrEnum):
    """The status of a session. ``pausing`` and ``cancelling`` are real: no stop is shown as finished before it is."""

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
"""Nothing happens any more without a new turn, or a retry of a failed one."""

LIVE: Final = frozenset(Status) - ENDED
WORKS: Final = frozenset({Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""Statuses in which its clock runs: waiting does not count."""
NEEDS_DRIVING: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""Without an owner, a session in one of these is acquired by any worker that can."""

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
    (Status.PAUSED, ev.PauseRequested): Status.PAUSED,
    (Status.PAUSING, ev.PauseRenewed): Status.PAUSING,
    (Status.PAUSED, ev.PauseRenewed): Status.PAUSING,
    (Status.PAUSING, ev.SessionPaused): Status.PAUSED,
    (Status.PAUSING, ev.SessionResumed): BACK,
    (Status.PAUSED, ev.SessionResumed): BACK,
    **{(status, ev.CancelRequested): Status.CANCELLING for status in LIVE},
    (Status.CANCELLING, ev.SessionCancelled): Status.CANCELLED,
    **{(status, ev.SessionHalted): Status.HALTED for status in LIVE - {Status.HALTED}},
    (Status.HALTED, ev.HaltLifted): BACK,
    (Status.RUNNING, ev.SessionCompleted): Status.COMPLETED,
    # Not from halted: a steerer can retry a failed session, and would lift the kill switch that way.
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
    ev.PauseLifted: frozenset({Status.PAUSING, Status.PAUSED}),
    ev.SessionParked: frozenset({Status.PAUSED, Status.WAITING, Status.HALTED, Status.RUNNING, Status.QUEUED}),
    ev.SessionTaken: frozenset(Status),
    ev.SessionForked: frozenset(Status),
    # An ended session may be rolled back, too; a live one is cancelled for that.
    ev.UndoRequested: ENDED,
    ev.UndoFinished: ENDED,
    ev.UndoBegun: frozenset(Status) - {Status.HALTED, Status.QUEUED},
    ev.UndoEnded: frozenset(Status),
    ev.HoldReleased: frozenset(Status),
    ev.ToolsNeeded: frozenset({Status.CANCELLING, Status.HALTED}) | ENDED,
    ev.WorldChanged: frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSING}),
    ev.SessionRedirected: frozenset(
        {Status.QUEUED, Status.RUNNING, Status.PAUSING, Status.PAUSED, Status.WAITING},
    ),
    ev.MessageQueued: frozenset(Status) - {Status.CANCELLING, Status.HALTED},
    ev.MessageEdited: frozenset(Status),
    ev.MessageWithdrawn: frozenset(Status),
    **dict.fromkeys(
        (
            ev.StepNotBegun,
            ev.StepFinished,
            ev.StepFailed,
            ev.StepAborted,
            ev.StepSettled,
            ev.HoldTaken,
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
            ev.MessagesSeen,
            ev.InterventionMade,
        ),
        LIVE,
    ),
    # Nothing of a session that is being cancelled is done again.
    ev.StepRetrying: LIVE - {Status.CANCELLING},
    ev.InterventionLabelled: frozenset(Status),
    ev.BudgetRaised: frozenset(Status),
    ev.StopDeferred: frozenset({Status.RUNNING, Status.WAITING}),
    ev.StopTakenBack: frozenset({Status.RUNNING, Status.WAITING}),
    ev.SessionRated: ENDED,
    ev.SessionErased: ENDED,
}
"""The statuses in which an event that changes no status may happen."""


class OpenCall(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """An attempt at a step that has begun and has no outcome.

    ``end`` is how its body stopped living: not at all, ``aborted`` by a stop, ``lost`` with its process, or ``failed``
    with what ``raised`` names, to be tried again at ``again_at``. None is an outcome: an abandoned request may still
    land until ``settled_at``. ``undo``: how the last undo ended. ``redirected`` is the place of the last message that
    changed the course since; there were ``said`` when it began. ``spent`` dollars of it are in the session's cost
    already; ``written`` tokens of it have come so far, which are not in the session's yet. ``free``: it is known to
    cost nothing.
    """

    step: StepId
    name: str
    kind: ev.StepKind
    attempt: int
    since: float
    effect: Effect = "read"
    key: str = ""
    tool: str = ""
    digest: str = ""
    given: Value = NOTHING
    settle: float = 0.0
    can_undo: bool = False
    can_probe: bool = False
    asks_if_silent: bool = False
    inherited: bool = False
    end: Literal["", "aborted", "lost", "failed"] = ""
    ended_at: float = 0.0
    silent: bool = False
    undo: Literal["", "running", "done", "failed", "lost"] = ""
    undos: int = 0
    probed: bool = False
    told: Literal["", "no"] = ""
    redirected: int | None = None
    said: int = 1
    raised: str = ""
    again_at: float = 0.0
    before: "OpenCall | None" = None
    spent: float = 0.0
    written: int = 0
    free: bool = False

    @property
    def lost(self) -> bool:
        """True if the process it ran in is gone."""
        return self.end == "lost"

    @property
    def settled_at(self) -> float:
        """When a request it sent can no longer land."""
        return self.ended_at + self.settle

    @property
    def careful(self) -> bool:
        """True if its worker may still send, for a tool that wants a person to be asked then."""
        return self.silent and self.asks_if_silent

    @property
    def is_unsettled(self) -> bool:
        """True if it may have happened, and its outcome is unknown."""
        return bool(self.end) and self.effect != "read" and self.undo != "done" and self.told != "no"


class OpenAsk(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A question to a person that can still be answered."""

    id: AskId
    step: StepId
    reason: str
    prompt: str
    since: float
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None
    on_expiry: Expiry = "fail"

    @property
    def is_review(self) -> bool:
        """True if a policy opened it with its pause, so that no path of the agent waits for it."""
        return is_review_step(self.step)


class ChildAsk(msgspec.Struct, gc=False, frozen=True):
    """An open ask of a child: answer it as ``child/ask``."""

    child: SessionId
    ask: AskId
    reason: str
    prompt: str
    since: float


class Message(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A message to the session: its goal, a redirect, the message that opened a turn, an event outside.

    ``withdrawn``: it has no effect, because it was taken back, or repeated in the message that opened a turn.
    """

    text: str
    level: ev.MessageLevel
    turn: int
    by: str = "local"
    at: float = 0.0
    grace: float | None = None
    withdrawn: bool = False


def standing(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages that were not withdrawn."""
    return tuple(one for one in messages if not one.withdrawn)


class QueuedMessage(msgspec.Struct, gc=False, frozen=True):
    """A message that waits until the agent is done with what it works on."""

    id: MessageId
    text: str
    by: str
    at: float


class StandingPause(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The pause that stands, and the status it came from. ``lapses_at``: when it lifts itself, if it does.

    ``beneath`` is the parent's pause of a child that people have paused too: each is lifted by its own resume.
    ``renewals``: how often it was sent down to the children again.
    ``budget``: what the session's budget must be before it can be lifted. ``wants``: what a child would then
    have spent, which its parent cannot pay. ``joined``: who else has paused it since.
    """

    id: PauseId
    by: str
    since: float
    origin: Status
    reason: str = ""
    grace: float | None = None
    lapses_at: float | None = None
    budget: float | None = None
    renewals: int = 0
    beneath: "StandingPause | None" = None
    wants: float | None = None
    joined: tuple[str, ...] = ()

    def of(self, by: str) -> "StandingPause | None":
        """Return the pause that ``by`` asked for: this one, or the one beneath it."""
        return self if self.by == by else self.beneath if self.beneath is not None and self.beneath.by == by else None


class StandingCancel(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The cancel under way. ``receipt`` has a line for each effect that was in flight or has been rolled back since.

    ``gives_up``: an operator does not wait for tools that no process has.
    """

    by: str
    since: float
    grace: float
    reason: str = ""
    undo: UndoChoice = "in-flight"
    receipt: Mapping[str, ev.ReceiptLine] = {}
    force: bool = False
    operates: bool = False
    gives_up: bool = False
    restart: bool = False


class DeferredStop(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A person's stop that waits for the end of the turn, because the session is protected."""

    stop: ev.DeferredVerb
    by: str
    since: float
    reason: str = ""
    undo: UndoChoice = "in-flight"
    lapses: float | None = None


class StandingUndo(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The undo of a session that has ended; ``done`` once everything was tried.

    ``gives_up``: an operator does not wait for tools that no process has.
    """

    by: str
    since: float
    reason: str = ""
    done: bool = False
    receipt: Mapping[str, ev.ReceiptLine] = {}
    gives_up: bool = False


class Hold(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Something the session holds until it ends or releases it by itself."""

    name: str
    release: str
    given: Value = NOTHING
    tries: int = 0
    error: str = ""


class Failure(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The reason of a session's failure, and the step that a resume retries."""

    code: str
    message: str
    step: StepId | None = None


class Session(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A session as its journal tells it, up to ``position``.

    ``unpriced`` model calls have no known price: what was spent is at least ``cost``. It has ``worked`` for so many
    seconds, and since ``working_since`` if that is set; while it waits, is paused or halted, the clock stands. Its
    cancel or undo ``needs`` these tools, and waits for a process that has them. ``cuts`` are the answers that a stop
    has cut, and how a resume continues each; empty: it begins again.
    """

    id: SessionId
    agent: str
    agent_version: str
    mode: ev.Mode
    origin: str
    resumable: bool
    created_at: float
    parent: SessionId | None = None
    forked_from: str = ""
    restarts: SessionId | None = None
    terms: Terms = NO_TERMS
    status: Status = Status.QUEUED
    position: Position = Position(0)
    at: float = 0.0
    turn: int = 1
    scope: str = "1"
    checkpoints: int = 0
    scope_messages: int = 1
    messages: tuple[Message, ...] = ()
    seen: int = 1
    withdrawn: int = 0
    amended: int = 0
    queue: tuple[QueuedMessage, ...] = ()
    queued: int = 0
    calls: Mapping[StepId, OpenCall] = {}
    cuts: Mapping[StepId, ev.Continues] = {}
    children: Mapping[StepId, SessionId] = {}
    has_spawned: bool = False  # a child that had ended may work again
    child_asks: tuple[ChildAsk, ...] = ()
    unreached: tuple[SessionId, ...] = ()
    asks: tuple[OpenAsk, ...] = ()
    asks_opened: int = 0
    pause: StandingPause | None = None
    pauses: int = 0
    deferred: DeferredStop | None = None
    cancel: StandingCancel | None = None
    discarded: bool = False
    restarted_as: SessionId | None = None
    undo: StandingUndo | None = None
    holds: Mapping[str, Hold] = {}
    needs: tuple[str, ...] = ()
    loose_keys: Mapping[str, str] = {}
    changes: tuple[ev.Change, ...] = ()
    halted_from: Status | None = None
    halted_by: str = ""
    halted_at: float = 0.0
    halt_reason: str = ""
    switch: str = ""
    halts: int = 0
    plan: tuple[ev.PlanItem, ...] = ()
    progress: float | None = None
    hypothesis: str = ""
    unstated: Literal["", "asked", "reviewed", "allowed"] = ""
    """The state in this turn of a required hypothesis that the agent has not stated."""
    finished_steps: int = 0
    cost: float = 0.0
    unpriced: int = 0
    tokens: int = 0
    # Tokens and dollars of the last few answers of models, by which the next is priced.
    outputs: tuple[int, ...] = ()
    prices: tuple[float, ...] = ()
    worked: float = 0.0
    working_since: float | None = None
    result: Value | None = None
    failure: Failure | None = None
    receipt: tuple[ev.ReceiptLine, ...] = ()
    interventions: int = 0
    labels: Mapping[str, ev.Verdict] = {}
    score: int | None = None
    erased_at: float | None = None

    @property
    def may_have_children(self) -> bool:
        """True if a stop has to check its children: those that work, or that had ended and work again."""
        return self.has_spawned or bool(self.children)

    @property
    def written(self) -> int:
        """Tokens of answers that are being written: counted as they come, so an estimate."""
        return sum(call.written for call in self.calls.values() if not call.end)

    @property
    def estimated(self) -> bool:
        """True if ``cost`` has the price of an answer that is still being written."""
        return any(call.spent > 0 for call in self.calls.values() if not call.end)

    @property
    def unpriced_so_far(self) -> int:
        """Model calls that have no known price, those among them that are writing now."""
        writing = (call for call in self.calls.values() if call.written and not call.end)
        return self.unpriced + sum(not call.spent and not call.free for call in writing)

    @property
    def is_protected(self) -> bool:
        """True if a person's stop waits for the end of the turn."""
        return self.terms.task_class == "protected"

    @property
    def finishing(self) -> DeferredStop | None:
        """The stop that the end of this turn completes, as long as the session works. Halted, it does not."""
        return self.deferred if self.status in (Status.RUNNING, Status.WAITING) else None

    @property
    def goal(self) -> str:
        """The present goal: the last message in force that set one."""
        return next((one.text for one in reversed(self.messages) if one.level == "goal" and not one.withdrawn), "")

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages in force. Those that the agent has seen always stay the beginning."""
        return standing(self.messages) if self.withdrawn else self.messages

    def last_said(self, since: int = 0) -> int | None:
        """Return the place of the last message in force, from place ``since`` on; None if all were withdrawn."""
        places = range(len(self.messages) - 1, max(since, 0) - 1, -1)
        return next((place for place in places if not self.messages[place].withdrawn), None)

    @property
    def amendable(self) -> tuple[MessageId, ...]:
        """The messages that can still be edited or withdrawn: redirects the model has not seen, and queued ones."""
        unseen = range(self.seen, len(self.messages))
        redirects = [message_id(index + 1) for index in unseen if not self.messages[index].withdrawn]
        return (*redirects, *(one.id for one in self.queue))

    @property
    def mark(self) -> str:
        """A short text of what a person decides by: it changes with the status, an ask, a message or the budget."""
        budget = "" if self.terms.budget is None else f".b{self.terms.budget:.12g}"
        asks = ".".join(ask.id for ask in self.asks)
        turn = f"{self.turn}.{self.pauses}.{self.halts}.{len(self.messages)}.{self.amended}.{self.queued}"
        deferred = f".{self.deferred.stop}" if self.deferred is not None else ""
        return f"{self.status}.{turn}{budget}{deferred}.{asks}".rstrip(".")

    @property
    def next_scope(self) -> str:
        """The name of the next checkpoint's scope: by its place, so that a fall back finds the same names."""
        return f"{self.turn}.{self.checkpoints + 1}"

    @property
    def running(self) -> tuple[StepId, ...]:
        """Calls that have begun and have not ended, in a process that lives as far as the journal knows."""
        return tuple(call.step for call in self.calls.values() if not call.end)

    @property
    def lost(self) -> tuple[StepId, ...]:
        """Calls that had begun in a process that is gone, and may have changed something."""
        return tuple(call.step for call in self.calls.values() if call.lost and call.is_unsettled)

    @property
    def undo_choice(self) -> UndoChoice:
        """The effects that the present cancel or undo rolls back."""
        if self.cancel is not None:
            return self.cancel.undo
        return "none" if self.undo is None else "all"

    @property
    def is_being_undone(self) -> bool:
        """True if it has ended and is being rolled back."""
        return self.undo is not None and not self.undo.done

    @property
    def waits_for_tools(self) -> bool:
        """True if the rollback needs tools, and was not given up."""
        if self.status is Status.CANCELLING:
            return self.cancel is not None and not self.cancel.gives_up
        return self.undo is not None and not self.undo.done and not self.undo.gives_up

    @property
    def deadlines(self) -> tuple[float, ...]:
        """The times of automatic changes: an ask expires, a pause lapses."""
        asks = tuple(ask.expires_at for ask in self.asks if ask.expires_at is not None)
        lapses = self.pause.lapses_at if self.pause is not None else None
        return asks if lapses is None else (*asks, lapses)

    def ask(self, ask: AskId) -> OpenAsk | None:
        return next((one for one in self.asks if one.id == ask), None)
