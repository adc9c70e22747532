"""Pauses: what is asked for, what stands, what is lifted, and the stop that waits for the end of a turn."""

from typing import Literal

from midcourse.core.effects import UndoChoice
from midcourse.core.events.event import Event
from midcourse.core.ids import PauseId, SessionId, StepId

DeferredVerb = Literal["pause", "cancel"]
"""A stop that waits for the end of the turn."""


class PauseRequested(Event, tag="session.pause_requested@1"):
    """A request to stop the session and keep its context. ``grace`` None lets calls in flight finish.

    Repeated during a pause, it changes its grace, its reason, or when it lapses.
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
    wants: float | None = None
    """Dollars that a child would have spent in all with a call that its parent cannot pay, as far as it knows."""


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


class StopDeferred(Event, tag="stop.deferred@1"):
    """A request to stop a protected session: it finishes its turn first. ``undo``: what a cancel rolls back."""

    stop: DeferredVerb
    by: str
    reason: str = ""
    undo: UndoChoice = "in-flight"
    lapses: float | None = None


class StopTakenBack(Event, tag="stop.taken_back@1"):
    """A stop that waited for the end of the turn does not stand any more."""

    by: str


PauseEvent = PauseRequested | PauseRenewed | PauseLifted | SessionPaused | SessionResumed | StopDeferred | StopTakenBack
