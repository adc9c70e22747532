"""The wishes people and policies have for a session. A wish may be refused; what came of it is an event."""

from math import isfinite
from typing import Final, Literal, TypeGuard, dataclass_transform, get_args

import msgspec

from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level, Verdict
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, SessionId
from midcourse.core.policy.decisions import Decision
from midcourse.errors import Damaged, InvalidInput

Rung = Literal["watch", "steer", "approve", "operate"]
"""What people and their programs may do, each what the ones before may: look; steer; also approve; also operate."""
Role = Literal[Rung, "agent"]
"""What a sender may do: a rung of the people's ladder, or ``agent``, which stands on none: see ``agent_rights``."""
Behaviour = Literal["enqueue", "redirect", "reject"]
"""What a message does while an agent works: wait for its turn, change the course now, or be refused."""

BY_SESSION: Final = "session:"
"""How ``by`` begins for whatever acts for a session's agent: its code, its tools, its token. The id follows."""
BY_POLICY: Final = "policy:"
"""How ``by`` begins for a policy that steps in; its name and version follow."""
BY_AGENT: Final = "agent:"
"""How ``by`` begins for an agent that asks of its own accord; its name follows."""
BY_PARENT: Final = "parent "
"""How ``by`` begins for a session that passes on to a child what it was told itself; its id follows."""
TEXT_LIMIT: Final = 100_000
"""The longest instruction, reason or prompt that is taken."""
LONGEST_LAPSE: Final = 3600.0
"""Seconds after which a pause that lapses has lapsed, at the latest."""
ID_LIMIT: Final = 200
"""The longest command id that is taken."""
MARK_LIMIT: Final = 1000
"""Characters of the longest mark of a session, which names every ask that is open."""


def agent_of(by: str) -> SessionId | None:
    """Return the session whose agent ``by`` names; None if it names a person, a policy or the runtime."""
    return SessionId(by.removeprefix(BY_SESSION)) if by.startswith(BY_SESSION) else None


def agent_name(session_id: str) -> str:
    """Return how what an agent wishes is signed."""
    return f"{BY_SESSION}{session_id}"


def is_below(session_id: str, agent: str) -> bool:
    """Return whether a session is a child of an agent's, or a child of one."""
    return session_id.startswith(f"{agent}.")


def outranks(by: str, standing: str) -> bool:
    """Return whether a stop of ``by`` takes the place of one that an agent has sent: a person's, or its parent's."""
    agent, own = agent_of(standing), agent_of(by)
    return agent is not None and standing != by and (own is None or is_below(agent, own))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Command(msgspec.Struct, gc=False, frozen=True, kw_only=True, tag_field="command", omit_defaults=True):
    """A wish with an id that is unique for the session's life, and who wished it.

    ``expects``: the :attr:`Session.mark` it was made for; it is refused once the session has moved on from that.
    """

    id: CommandId
    by: str = "local"
    role: Role = "steer"
    expects: str = ""


class Pause(Command, tag="pause"):
    """Stop, keep the context. ``grace``: seconds that tool calls in flight may go on; None for as long as they take.

    With ``lapses`` it lifts itself after so many seconds, unless it is sent again, or somebody pauses for good.
    """

    reason: str = ""
    grace: float | None = None
    lapses: float | None = None


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

    Without ``undo``, what is in flight; or, if a cancel stands already, what that one rolls back. ``force`` is for
    sessions that finish first (class ``protected``): an operator ends it half-way. With ``restart`` as well, a new
    session begins the same anew.
    """

    grace: float = 2.0
    reason: str = ""
    undo: UndoChoice | None = None
    force: bool = False
    restart: bool = False


class Undo(Command, tag="undo"):
    """Roll back every effect of a session that has ended, newest first, as far as it can be."""

    reason: str = ""


class Answer(Command, tag="answer"):
    """Answer an ask; without ``ask`` the only one that is open."""

    value: Value = NOTHING
    ask: AskId | None = None


class Message(Command, tag="message"):
    """Say something. It opens a new turn of an ended session; ``behaviour`` is what it does to one that works."""

    text: str
    behaviour: Behaviour = "enqueue"


class Edit(Command, tag="edit"):
    """Say a redirect or a queued message in other words, as long as the model has not seen it."""

    message: MessageId
    text: str


class Withdraw(Command, tag="withdraw"):
    """Take a redirect or a queued message back, as long as the model has not seen it."""

    message: MessageId


class OutsideEvent(Command, tag="event"):
    """Something happened outside, so that what the agent assumes may no longer hold."""

    text: str
    source: str = ""


class Budget(Command, tag="budget"):
    """Raise what the session may cost, in dollars, and go on if it is paused."""

    budget: float
    resume: bool = True


class Halt(Command, tag="halt"):
    """The kill switch: stop at once, undo nothing, until an operator lifts it. ``switch``: the record it comes from."""

    reason: str = ""
    switch: str = ""


class Lift(Command, tag="lift"):
    """Lift a halt: the session is back where it was."""


class Intervene(Command, tag="intervene"):
    """A policy has decided to step in, or to tell people of something."""

    decision: Decision


class Label(Command, tag="label"):
    """Say whether it was right to step in. ``about``: an intervention (``int_3``), a pause or a message."""

    about: str
    verdict: Verdict
    note: str = ""


class Rate(Command, tag="rate"):
    """Say how content you are with a session that has ended, from 1 to 5."""

    score: int
    note: str = ""


AnyCommand = (
    Pause
    | Resume
    | Redirect
    | Cancel
    | Undo
    | Answer
    | Message
    | Edit
    | Withdraw
    | OutsideEvent
    | Budget
    | Halt
    | Lift
    | Intervene
    | Label
    | Rate
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyCommand)


def verb(command: type[AnyCommand] | AnyCommand) -> str:
    """The command's word, as people write it."""
    return str(command.__struct_config__.tag)


_PHRASES: Final = {
    "message": "send a message to",
    "edit": "edit a message of",
    "withdraw": "withdraw a message of",
    "event": "tell of an event",
    "budget": "raise the budget of",
    "intervene": "step in in",
    "label": "label an intervention of",
}


def phrase(command: AnyCommand) -> str:
    """What the command wants to do to a session, as it stands in a sentence before the session's name."""
    return _PHRASES.get(verb(command), verb(command))


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
    for field in ("text", "reason", "by", "expects", "message", "source", "about", "note"):
        value = getattr(command, field, "")
        if not isinstance(value, str):
            raise InvalidInput(f"{field} is {value!r}; it is a text.", field=field)
        most = MARK_LIMIT if field == "expects" else ID_LIMIT
        if field in ("expects", "message", "source", "about") and len(value) > most:
            raise InvalidInput(f"{field} has {len(value):,} characters; at most {most} are taken.", field=field)
    match command:
        case Redirect(text=text) if not text.strip():
            raise InvalidInput("A redirect needs an instruction: say in words what should change.", field="text")
        case Message(text=text) | Edit(text=text) | OutsideEvent(text=text) if not text.strip():
            raise InvalidInput(f"The text is empty: say it in words ({verb(command)}).", field="text")
        case (Redirect(text=text) | Message(text=text) | Edit(text=text) | OutsideEvent(text=text)) | (
            Pause(reason=text)
            | Cancel(reason=text)
            | Undo(reason=text)
            | Halt(reason=text)
            | Label(note=text)
            | Rate(note=text)
        ):
            if len(text) > TEXT_LIMIT:
                raise InvalidInput(
                    f"The text has {len(text):,} characters; at most {TEXT_LIMIT:,} are taken. "
                    "Put the long part where the agent can read it and refer to it.",
                    field="text",
                )
        case _:
            pass
    if isinstance(command, Pause | Redirect) and command.grace is not None:
        _check_grace(command.grace, " None lets calls in flight finish.")
    match command:
        case Pause(lapses=lapses) if lapses is not None and not (_is_number(lapses) and 0 < lapses <= LONGEST_LAPSE):
            raise InvalidInput(
                f"lapses is {lapses}; it is a number of seconds above 0, at most {LONGEST_LAPSE:g}.", field="lapses"
            )
        case Redirect(level=level) if level not in get_args(Level):
            raise InvalidInput(f"level is {level!r}; it is one of {', '.join(get_args(Level))}.", field="level")
        case Cancel(grace=grace, undo=undo):
            _check_grace(grace, "")
            if undo is not None and undo not in get_args(UndoChoice):
                raise InvalidInput(f"undo is {undo!r}; it is one of {', '.join(get_args(UndoChoice))}.", field="undo")
        case Message(behaviour=behaviour) if behaviour not in get_args(Behaviour):
            raise InvalidInput(
                f"behaviour is {behaviour!r}; it is one of {', '.join(get_args(Behaviour))}.", field="behaviour"
            )
        case Label(verdict=verdict) if verdict not in get_args(Verdict):
            raise InvalidInput(f"verdict is {verdict!r}; it is one of {', '.join(get_args(Verdict))}.", field="verdict")
        case Rate(score=score) if isinstance(score, bool) or not (isinstance(score, int) and 1 <= score <= 5):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            raise InvalidInput(f"score is {score!r}; it is a whole number from 1 to 5.", field="score")
        case Budget(budget=budget) if not (_is_number(budget) and 0 < budget <= 1e9):
            raise InvalidInput(f"budget is {budget}; it is a sum in dollars above 0, at most 1e9.", field="budget")
        case _:
            pass
    try:
        _decoder.decode(_encoder.encode(command))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidInput(f"This {verb(command)} could not be read back by whoever decides it: {error}.") from error


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and isfinite(value)


def _check_grace(grace: object, hint: str) -> None:
    if not _is_number(grace) or grace < 0:
        raise InvalidInput(f"grace is {grace}; it is a number of seconds, 0 or more.{hint}", field="grace")
