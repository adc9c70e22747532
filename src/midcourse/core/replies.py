"""The reply to a command: how far it has got, what still runs, what the reply survives."""

from typing import Literal

import msgspec

from midcourse.core.effects import Effect
from midcourse.core.events import ReceiptLine, StepKind
from midcourse.core.ids import MessageId, PauseId, Position, SessionId, StepId

Durability = Literal["nothing", "process", "power"]
"""The events that an acknowledged write survives: the store's own end, a killed process, a power failure."""

Level = Literal["accepted", "decided", "stopping", "stopped"]
"""The known progress: the command is durable; it was decided; the gate is shut; nothing runs."""

Counted = Literal["", "approved", "refused"]
"""The effect of an answer to a request for approval: anything but a yes refuses."""


class RunningCall(msgspec.Struct, frozen=True):
    """A call that had begun and has not ended, as a control's answer lists it.

    ``doing`` says what it waits for if that is not its own end: to be settled, to be undone, its thread.
    """

    step: StepId
    name: str
    kind: StepKind | Literal["agent"]
    attempt: int
    seconds: float
    effect: Effect = "read"
    doing: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a command: what is known, and never more.

    ``level`` is its progress; ``pause`` and ``message`` name what it made, to be resumed, edited or withdrawn;
    ``running`` lists every call that had begun and was not known to have ended; ``unknown`` are calls that were lost
    with their process, so that their outcome is unknown; ``durability`` is what the answer survives (``durable`` False:
    the write failed, and it was stopped all the same); ``unreachable_since`` is set when the owner is silent.
    ``finishes_first``: it is protected, and stops at the end of its turn; ``restarted_as`` begins anew what was forced
    to end. ``counted`` is what an answer to an approval counted as. ``paused_by``: who else had paused it, where it is
    paused again or resumed.
    """

    level: Level
    status: str
    session: SessionId
    durability: Durability
    durable: bool = True
    position: Position = Position(0)
    pause: PauseId | None = None
    message: MessageId | None = None
    running: tuple[RunningCall, ...] = ()
    unknown: tuple[StepId, ...] = ()
    unreachable_since: float | None = None
    receipt: tuple[ReceiptLine, ...] = ()
    finishes_first: bool = False
    restarted_as: SessionId | None = None
    counted: Counted = ""
    paused_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.durable:
            return f"{self.level}, not durable"
        if self.unreachable_since is not None:
            return f"{self.level}, owner not reachable since {self.unreachable_since:.3f}"
        if self.finishes_first:
            return f"{self.level}, finishes first"
        names = (f"{call.name} ({call.doing})" if call.doing else call.name for call in self.running)
        still = f", still running: {', '.join(names)}" if self.running else ""
        lost = f", effects in flight unknown: {', '.join(self.unknown)}" if self.unknown else ""
        anew = f", begun anew as {self.restarted_as}" if self.restarted_as else ""
        told = f", counted as {self.counted}" if self.counted else ""
        told += f", had been paused by {' and '.join(self.paused_by)}" if self.paused_by else ""
        return f"{self.level}, {self.status}{told}{still}{lost}{anew}"
