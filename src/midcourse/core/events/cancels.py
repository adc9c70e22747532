"""Cancels and undos: what they roll back, what is held until then, and the receipt."""

from typing import Literal

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import Effect, UndoChoice
from midcourse.core.events.event import Event
from midcourse.core.ids import SessionId, StepId

ReceiptOutcome = Literal[
    "undone",
    "kept",
    "cannot be undone",
    "undo failed",
    "undo ran with unknown result",
    "unknown",
    "still running",
]


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


class ToolsNeeded(Event, tag="tools.needed@1"):
    """What a cancel or an undo rolls back needs tools that this process does not have. It continues where they are."""

    tools: tuple[str, ...]


CancelEvent = (
    CancelRequested
    | SessionCancelled
    | UndoRequested
    | UndoBegun
    | UndoEnded
    | UndoFinished
    | HoldTaken
    | HoldReleased
    | ToolsNeeded
)
