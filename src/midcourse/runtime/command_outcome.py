"""The outcome of a command, by its owner. It is in the command's inbox row, for the sender."""

import msgspec

from midcourse.core.ids import MessageId, PauseId, Position, SessionId, StepId
from midcourse.core.replies import Counted, RunningCall
from midcourse.errors import Damaged, InvalidInput, MidcourseError, Refused


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision about an inbox row. It is in the row, for the sender."""

    code: str = "ok"
    message: str = ""
    allowed: tuple[str, ...] = ()
    status: str = ""
    position: Position = Position(0)
    pause: PauseId | None = None
    about: MessageId | None = None
    running: tuple[RunningCall, ...] = ()
    unknown: tuple[StepId, ...] = ()
    deferred: bool = False
    counted: Counted = ""
    paused_by: tuple[str, ...] = ()
    raise_to: float | None = None
    field: str = ""
    """Of ``invalid_input``: what of the command cannot be used."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CommandOutcome)


def encode_outcome(outcome: CommandOutcome) -> bytes:
    """Encode it for the inbox row."""
    return _encoder.encode(outcome)


def decode_outcome(content: bytes) -> CommandOutcome:
    """Decode it from the inbox row."""
    return _decoder.decode(content)


def raise_if_refused(session_id: SessionId, outcome: CommandOutcome) -> None:
    """Raise what the owner refused the command with."""
    if outcome.code == "ok":
        return
    if outcome.code == Damaged.code:  # the finder of the damage refused every command in the inbox
        raise Damaged(outcome.message, session_id=session_id)
    if outcome.code == InvalidInput.code:
        raise InvalidInput(outcome.message, field=outcome.field)
    more = {} if outcome.raise_to is None else {"raise_to": outcome.raise_to}
    raise Refused(
        outcome.message,
        code=outcome.code,
        allowed=outcome.allowed,
        session_id=session_id,
        status=outcome.status,
        **more,
    )


def refusal(error: MidcourseError, status: str, position: Position) -> CommandOutcome:
    """Return the outcome of a command that was refused."""
    allowed = error.allowed if isinstance(error, Refused) else ()
    raise_to = error.fields.get("raise_to")
    return CommandOutcome(
        code=error.code,
        message=error.message,
        allowed=allowed,
        status=status,
        position=position,
        raise_to=raise_to if isinstance(raise_to, float) else None,
        field=str(error.fields.get("field", "")) if isinstance(error, InvalidInput) else "",
    )
