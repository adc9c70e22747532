"""What an owner says of a command it has decided, and what a control answers to whoever sent it."""

from typing import Literal

import msgspec

from midcourse.core.events import ReceiptLine
from midcourse.core.ids import PauseId, Position, SessionId, StepId
from midcourse.errors import MidcourseError, Refused
from midcourse.ports.store import Durability
from midcourse.runtime.calls import RunningCall

Level = Literal["accepted", "decided", "stopping", "stopped"]
"""What is known: the command is durable; it was decided; the gate is shut; nothing runs."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an inbox row was decided. It lies in the row, for whoever put it."""

    code: str = "ok"
    message: str = ""
    allowed: tuple[str, ...] = ()
    status: str = ""
    position: Position = Position(0)
    pause: PauseId | None = None
    running: tuple[RunningCall, ...] = ()
    unknown: tuple[StepId, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Outcome)


def encode_outcome(outcome: Outcome) -> bytes:
    """As it lies in the inbox row."""
    return _encoder.encode(outcome)


def decode_outcome(content: bytes) -> Outcome:
    """From the inbox row."""
    return _decoder.decode(content)


def raise_if_refused(session_id: SessionId, outcome: Outcome) -> None:
    """Raise what the owner refused the command with."""
    if outcome.code == "ok":
        return
    raise Refused(
        outcome.message,
        code=outcome.code,
        allowed=outcome.allowed,
        session_id=session_id,
        status=outcome.status,
    )


def refusal(error: MidcourseError, status: str, position: Position) -> Outcome:
    """The outcome of a command that was refused."""
    allowed = error.allowed if isinstance(error, Refused) else ()
    return Outcome(code=error.code, message=error.message, allowed=allowed, status=status, position=position)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A control's answer: what is known, and never more.

    ``level`` is how far it has got; ``running`` lists every call that had begun and was not known to have ended;
    ``unknown`` are calls that were lost with their process, so that nobody can say how they ended;
    ``durability`` is what the answer survives (``durable`` False: the write failed, and it was stopped all the same);
    ``unreachable_since`` is set when the owner is silent.
    """

    level: Level
    status: str
    session: SessionId
    durability: Durability
    durable: bool = True
    position: Position = Position(0)
    pause: PauseId | None = None
    running: tuple[RunningCall, ...] = ()
    unknown: tuple[StepId, ...] = ()
    unreachable_since: float | None = None
    receipt: tuple[ReceiptLine, ...] = ()

    def __str__(self) -> str:
        if not self.durable:
            return f"{self.level}, not durable"
        if self.unreachable_since is not None:
            return f"{self.level}, owner not reachable since {self.unreachable_since:.3f}"
        names = (f"{call.name} ({call.doing})" if call.doing else call.name for call in self.running)
        still = f", still running: {', '.join(names)}" if self.running else ""
        lost = f", effects in flight unknown: {', '.join(self.unknown)}" if self.unknown else ""
        return f"{self.level}, {self.status}{still}{lost}"
