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
    """A request to end the session. ``grace``: how long calls in flight may run; ``undo``: what to roll back.

    ``force``: protected work does not finish first. The work of a protected session is discarded; with ``restart``, a
    new one begins the same.
    """

    by: str
    grace: float
    reason: str = ""
    undo: UndoChoice = "in-flight"
    force: bool = False
    restart: bool = False
    operates: bool = False
    """True if an operator sent it: only operators end the kill switch's halts of children."""
    wished_at: float | None = None
    """When it was put into the inbox. None for a deadline's, which has no command."""


class ReceiptLine(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The outcome of one effect, as far as it was observed. ``effect`` is ``hold`` for something that was held."""

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
    """A request to roll back the effects of an ended session, newest first.

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
    """The undo returned; or it raised ``error``; or (``lost``) its outcome is unknown."""

    step: StepId
    attempt: int
    key: str
    number: int
    error: str = ""
    lost: bool = False


class UndoFinished(Event, tag="undo.finished@1"):
    """Everything that could be rolled back was tried; the receipt reports each effect."""

    receipt: tuple[ReceiptLine, ...] = ()


class HoldTaken(Event, tag="hold.taken@1"):
    """The session holds something that must be released when it ends; ``release`` is the function's import path."""

    name: str
    release: str
    given: Value = NOTHING


class HoldReleased(Event, tag="hold.released@1"):
    """A hold was released; or the release raised ``error``, for the ``number``-th time."""

    name: str
    number: int = 1
    error: str = ""


class ToolsNeeded(Event, tag="tools.needed@1"):
    """A cancel or an undo needs tools that this process does not have. It continues where they are."""

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
