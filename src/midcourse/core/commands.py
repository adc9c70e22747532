"""The wishes people and policies have for a session. A wish may be refused; what came of it is an event."""

from math import isfinite
from typing import Final, Literal, dataclass_transform, get_args

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level
from midcourse.core.ids import AskId, CommandId, PauseId
from midcourse.errors import Damaged, InvalidInput

Role = Literal["watch", "steer", "approve", "operate"]

TEXT_LIMIT: Final = 100_000
"""The longest instruction, reason or prompt that is taken."""
ID_LIMIT: Final = 200
"""The longest command id that is taken."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Command(msgspec.Struct, gc=False, frozen=True, kw_only=True, tag_field="command", omit_defaults=True):
    """A wish with an id that is unique for the session's life, and who wished it."""

    id: CommandId
    by: str = "local"
    role: Role = "steer"


class Pause(Command, tag="pause"):
    """Stop, keep the context. ``grace``: seconds that tool calls in flight may go on; None for as long as they take."""

    reason: str = ""
    grace: float | None = None


class Resume(Command, tag="resume"):
    """Go on. ``pause`` names the pause to lift; None is the one that stands when this is decided."""

    pause: PauseId | None = None


class Redirect(Command, tag="redirect"):
    """Change the course: add an instruction (``step``), replace the goal (``goal``) or explain (``clarify``)."""

    text: str
    level: Level = "step"
    grace: float | None = None
    resume: bool = False


class Cancel(Command, tag="cancel"):
    """End the session. ``grace``: seconds that calls in flight may go on; ``undo``: what is rolled back.

    Without ``undo``, what is in flight; or, if a cancel stands already, what that one rolls back.
    """

    grace: float = 2.0
    reason: str = ""
    undo: UndoChoice | None = None


class Undo(Command, tag="undo"):
    """Roll back every effect of a session that has ended, newest first, as far as it can be."""

    reason: str = ""


class Answer(Command, tag="answer"):
    """Answer an ask; without ``ask`` the only one that is open."""

    value: Value = NOTHING
    ask: AskId | None = None


class Halt(Command, tag="halt"):
    """The kill switch: stop at once, undo nothing, until an operator lifts it."""

    reason: str = ""


class Lift(Command, tag="lift"):
    """Lift a halt: the session is back where it was."""


AnyCommand = Pause | Resume | Redirect | Cancel | Undo | Answer | Halt | Lift

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyCommand)


def verb(command: type[AnyCommand] | AnyCommand) -> str:
    """The command's word, as people write it."""
    return str(command.__struct_config__.tag)


def encode_command(command: AnyCommand) -> bytes:
    """A command as it lies in an inbox."""
    return _encoder.encode(command)


def decode_command(content: bytes) -> AnyCommand:
    """A command from an inbox.

    Raises:
        Damaged: it cannot be read.
    """
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"A command in the inbox cannot be read ({error}). It is refused; send it again.") from error


def check_command(command: AnyCommand) -> None:
    """Refuse what no session could use, before it becomes durable.

    Raises:
        InvalidInput: an id or a text that is empty or too long, a grace below zero, a field of another type.
    """
    if not 0 < len(command.id) <= ID_LIMIT:
        raise InvalidInput(
            f"A command's id has 1 to {ID_LIMIT} characters; this one has {len(command.id)}.",
            field="id",
        )
    for field in ("text", "reason", "by"):
        if not isinstance(getattr(command, field, ""), str):
            raise InvalidInput(f"{field} is {getattr(command, field)!r}; it is a text.", field=field)
    match command:
        case Redirect(text=text) if not text.strip():
            raise InvalidInput("A redirect needs an instruction: say in words what should change.", field="text")
        case Redirect(text=text) | Pause(reason=text) | Cancel(reason=text) | Undo(reason=text) | Halt(reason=text):
            if len(text) > TEXT_LIMIT:
                raise InvalidInput(
                    f"The text has {len(text):,} characters; at most {TEXT_LIMIT:,} are taken. "
                    "Put the long part where the agent can read it and refer to it.",
                    field="text",
                )
        case _:
            pass
    match command:
        case Pause(grace=grace) | Redirect(grace=grace) if grace is not None:
            _check_grace(grace, " None lets calls in flight finish.")
        case Cancel(grace=grace, undo=undo):
            _check_grace(grace, "")
            if undo is not None and undo not in get_args(UndoChoice):
                raise InvalidInput(f"undo is {undo!r}; it is one of {', '.join(get_args(UndoChoice))}.", field="undo")
        case _:
            pass
    try:
        _decoder.decode(_encoder.encode(command))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidInput(f"This {verb(command)} could not be read back by whoever decides it: {error}.") from error


def _check_grace(grace: object, hint: str) -> None:
    if not isinstance(grace, int | float) or not isfinite(grace) or grace < 0:
        raise InvalidInput(f"grace is {grace}; it is a number of seconds, 0 or more.{hint}", field="grace")
