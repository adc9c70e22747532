"""Turns: how a session begins, who has it, what a turn does beside its steps, and how it ends."""

from typing import Literal

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.events.event import Event
from midcourse.core.events.messages import MessageLevel
from midcourse.core.ids import Epoch, MessageId, SessionId, StepId
from midcourse.core.terms import NO_TERMS, Terms

Mode = Literal["replay", "state"]
PlanStatus = Literal["queued", "running", "done", "interrupted"]


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
    """A message that waits until the agent is done with its present work."""

    message: MessageId
    text: str
    by: str


class CheckpointTaken(Event, tag="checkpoint.taken@1"):
    """A ``state`` agent said "start here": opens the scope that later steps are named in.

    ``history`` is what ``run.history`` has grown by since the last one: each item is written once.
    """

    scope: str
    state: Value = NOTHING
    history: Value = NOTHING


class ValueDrawn(Event, tag="value.drawn@1"):
    """The agent read the clock, a random number or its messages; a replay sees the same."""

    name: str
    value: Value


class Change(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Something that was observed has changed. ``why`` is set if it could not be checked.

    ``policy`` is the reaction its tool wants: ``go_on``, ``tell`` the agent, ``ask`` a person, ``refuse``.
    """

    resource: str
    before: str | None
    now: str | None
    policy: str = "tell"
    why: str = ""


class WorldChanged(Event, tag="world.changed@1"):
    """Things that tools had observed have changed, or could not be checked. Journaled before the agent continues."""

    changes: tuple[Change, ...]


class PlanItem(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One line of the plan people see."""

    title: str
    status: PlanStatus = "queued"


class PlanChanged(Event, tag="plan.changed@1"):
    """The agent's task list, as a whole."""

    items: tuple[PlanItem, ...]


class ReportMade(Event, tag="report.made@1"):
    """An agent's report: progress, hypothesis, an artifact it made with its description, a remark.

    ``step``: its model reported it in that answer, and no ``run.report`` did.
    """

    progress: float | None = None
    hypothesis: str = ""
    artifact: str = ""
    message: str = ""
    documentation: str = ""
    step: StepId | None = None


class AgentChanged(Event, tag="agent.changed@1"):
    """The session continues under another version of its agent."""

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


class SessionCompleted(Event, tag="session.completed@1"):
    """The agent returned; the turn is over."""

    result: Value = NOTHING
    state: Value = NOTHING
    history: Value = NOTHING


class SessionFailed(Event, tag="session.failed@1"):
    """The agent raised, or cannot continue. ``code`` is the reason in one word, ``step`` the one a resume retries."""

    code: str
    message: str
    step: StepId | None = None


class SessionErased(Event, tag="session.erased@1"):
    """All texts in it were erased, up to here. ``kept`` is the digest of what was left of each record."""

    by: str
    reason: str = ""
    kept: str = ""


TurnEvent = (
    SessionCreated
    | SessionStarted
    | SessionTaken
    | SessionForked
    | SessionParked
    | TurnOpened
    | MessageQueued
    | CheckpointTaken
    | ValueDrawn
    | WorldChanged
    | PlanChanged
    | ReportMade
    | AgentChanged
    | AgentSilent
    | LoopBlocked
    | SessionCompleted
    | SessionFailed
    | SessionErased
)
