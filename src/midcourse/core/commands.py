"""The commands of a session, each written once: its fields with their limits, its help, its example, its refusals.

HTTP routes, bodies and the OpenAPI document, the checks of the Python handle and the console's types are made from
these classes (``midcourse.core.parameters`` reads them). A command may be refused; what came of it is an event.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, cast, dataclass_transform, get_args

import msgspec
from msgspec import Meta

from midcourse.core.codec import JSON, NOTHING, Value
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level, Verdict
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, SessionId
from midcourse.core.parameters import check_struct
from midcourse.core.policy_decision import Decision
from midcourse.errors import Damaged, InvalidInput

Rung = Literal["watch", "steer", "approve", "operate"]
"""The roles of people and their programs, each with the rights of the ones before: look; steer; approve; operate."""
Role = Literal[Rung, "agent"]
"""The role of a sender: one of the people's ladder, or ``agent``, which is not on it: see ``agent_rights``."""
Behaviour = Literal["enqueue", "redirect", "reject"]
"""The effect of a message while an agent works: wait for its turn, change the course now, or be refused."""

BY_SESSION: Final = "session:"
"""The prefix of ``by`` for what acts for a session's agent: its code, its tools, its token. The id follows."""
BY_POLICY: Final = "policy:"
"""The prefix of ``by`` for a policy that steps in; its name and version follow."""
BY_AGENT: Final = "agent:"
"""The prefix of ``by`` for an agent that asks automatically; its name follows."""
BY_PARENT: Final = "parent "
"""The prefix of ``by`` for a parent session that passes a command on to a child; its id follows."""
TEXT_LIMIT: Final = 100_000
"""The longest instruction, reason or prompt."""
LONGEST_GRACE: Final = 366 * 24 * 3600.0
"""Seconds of the longest grace: a year, for "as long as it takes"."""
LONGEST_LAPSE: Final = 3600.0
"""Seconds after which a pause that lapses has lapsed, at the latest."""
ANSWER_LIMIT: Final = 1_000_000
"""The most bytes of an answer."""
ID_LIMIT: Final = 200
"""The longest command id."""
MARK_LIMIT: Final = 1000
"""Characters of the longest mark of a session, which names every ask that is open."""


def agent_of(by: str) -> SessionId | None:
    """Return the session whose agent ``by`` names; None if it names a person, a policy or the runtime."""
    return SessionId(by.removeprefix(BY_SESSION)) if by.startswith(BY_SESSION) else None


def agent_name(session_id: str) -> str:
    """Return the ``by`` of an agent's commands."""
    return f"{BY_SESSION}{session_id}"


def is_below(session_id: str, agent: str) -> bool:
    """Return whether a session is a child of an agent's, or a child of one."""
    return session_id.startswith(f"{agent}.")


def outranks(by: str, standing: str) -> bool:
    """Return whether a stop of ``by`` takes the place of one that an agent has sent: a person's, or its parent's."""
    agent, own = agent_of(standing), agent_of(by)
    return agent is not None and standing != by and (own is None or is_below(agent, own))


Id = Annotated[str, Meta(min_length=1, max_length=ID_LIMIT)]
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]
Reason = Annotated[str, Meta(max_length=TEXT_LIMIT, description="Why: kept in the journal and the audit log.")]
Grace = Annotated[float, Meta(ge=0, le=LONGEST_GRACE)]
StopGrace = Annotated[
    Grace | None, Meta(description="Seconds that calls in flight have to finish; left out, as long as they need.")
]


class Verb(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The ways to send a command: where, an example, and its refusals.

    ``chosen`` are fields that have a default in Python and in the store, and that people must choose: HTTP and the
    command line require them. ``is_stop``: its caller may wait for the gate to shut or for everything to end.
    """

    operation: str
    refusals: tuple[str, ...]
    example: Mapping[str, JSON] = {}
    method: Literal["POST", "PATCH", "DELETE"] = "POST"
    place: str = ""
    """The address below the session's; left out, the verb."""
    tag: str = "controls"
    role: Rung = "steer"
    """The lowest role that may send it. An agent may send it to its own session, and is refused there by ``decide``."""
    chosen: tuple[str, ...] = ()
    is_stop: bool = False
    wait: float = 10.0
    """Seconds that its caller waits for the outcome, if it does not say."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Command(msgspec.Struct, gc=False, frozen=True, kw_only=True, tag_field="command", omit_defaults=True):
    """A command with an id that is unique for the session's life, and its sender.

    ``expects``: the :attr:`Session.mark` it was made for; it is refused once the session has moved on from that.
    """

    sent: ClassVar[Verb | None] = None
    """None: people and programs do not send it as it is."""

    id: Annotated[CommandId, Meta(min_length=1, max_length=ID_LIMIT)]
    by: str = "local"
    role: Role = "steer"
    expects: Annotated[str, Meta(max_length=MARK_LIMIT)] = ""


class Pause(Command, tag="pause"):
    """Stop, keep the context. Streams are cut; tool calls in flight may finish, for ``grace`` seconds if given."""

    sent = Verb(
        operation="pause",
        refusals=("not_allowed", "session_ended"),
        example={"reason": "let me read the draft", "grace": 5},
        is_stop=True,
    )

    reason: Reason = ""
    grace: StopGrace = None
    lapses: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_LAPSE)] | None,
        Meta(description="Seconds after which it lifts itself, unless it is sent again. Left out, it stays."),
    ] = None


class Resume(Command, tag="resume"):
    """Continue after a pause, or try a failed session again. ``pause`` (or If-Match) names the pause to lift."""

    sent = Verb(
        operation="resume",
        refusals=(
            "agent_unavailable",
            "already_resumed",
            "budget_spent",
            "checkpoint_not_found",
            "kill_switch_stands",
            "not_allowed",
            "own_ask",
            "operator_only",
            "session_ended",
            "session_damaged",
        ),
        example={"pause": "pause_1"},
    )

    pause: Annotated[
        Annotated[PauseId, Meta(min_length=1, max_length=ID_LIMIT)] | None,
        Meta(description="The pause to lift, such as `pause_2`; left out, the current one."),
    ] = None


class Redirect(Command, tag="redirect"):
    """Change the course. The instruction is durable at once and is what the agent's model sees next.

    Until it has, the message named in the answer can be edited and withdrawn. A session's policy may want corrections
    (all but another goal) to be short.
    """

    sent = Verb(
        operation="redirect",
        refusals=(
            "agent_unavailable",
            "budget_spent",
            "not_allowed",
            "own_ask",
            "session_damaged",
            "session_discarded",
        ),
        example={"text": "Keep it to one page", "level": "step"},
        chosen=("level",),
    )

    text: Annotated[Text, Meta(description="What the agent's model sees next.")]
    level: Annotated[
        Level, Meta(description="`step`: add an instruction; `goal`: replace the goal; `clarify`: explain something.")
    ] = "step"
    grace: StopGrace = None
    resume: Annotated[bool, Meta(description="Also resume a paused session.")] = False


class Cancel(Command, tag="cancel"):
    """End the session. ``undo``: what is in flight (the default), ``all`` that had been done, or ``none``.

    A session of the class ``protected`` finishes its turn first (``finishes_first`` in the answer). An operator ends it
    half-way with ``force``: what it had reached is discarded. With ``restart`` as well, a new session begins the same
    anew, and ``restarted_as`` names it.
    """

    sent = Verb(
        operation="cancel",
        refusals=("operator_only",),
        example={"reason": "wrong customer", "undo": "all"},
        is_stop=True,
    )

    grace: Annotated[Grace, Meta(description="Seconds that calls in flight have to finish.")] = 2.0
    reason: Reason = ""
    # Without it: what is in flight; or, after an earlier cancel, what that one rolls back.
    undo: Annotated[
        UndoChoice | None,
        Meta(
            description="`in-flight`: roll back calls in flight (the default); `all`: also finished calls, newest "
            "first; `none`: only stop."
        ),
    ] = None
    force: Annotated[
        bool,
        Meta(
            description="End a `protected` session at once and discard its work; takes the role `operate`. "
            "Left out, it finishes its turn."
        ),
    ] = False
    restart: Annotated[bool, Meta(description="With `force`: start the same goal again in a new session.")] = False


class Undo(Command, tag="undo"):
    """Roll back every effect of a session that has ended, newest first, as far as it can be."""

    sent = Verb(operation="undo", refusals=("not_allowed",), example={"reason": "wrong folder"}, wait=60.0)

    reason: Reason = ""


class Answer(Command, tag="answer"):
    """Answer an ask, once. Asks with the reason ``need_approval`` want the role ``approve``."""

    sent = Verb(
        operation="answer_ask",
        refusals=(
            "agent_unavailable",
            "already_answered",
            "approver_only",
            "ask_id_required",
            "ask_not_found",
            "budget_spent",
            "not_allowed",
            "own_ask",
            "unclear_answer",
            "session_ended",
            "unencodable",
        ),
        example={"value": "yes", "ask": "ask_1"},
        chosen=("value",),
    )

    value: Annotated[Value, Meta(description="The answer: any JSON value.")] = NOTHING
    ask: Annotated[
        Annotated[AskId, Meta(min_length=1, max_length=2 * ID_LIMIT)] | None,
        Meta(description="Which ask, such as `ask_2`; left out, the only open one. A child's is `child/ask`."),
    ] = None


class Message(Command, tag="message"):
    """Say something. It opens a new turn of an ended session; while one works, ``behaviour`` says what it does."""

    sent = Verb(
        operation="message",
        refusals=("busy", "not_allowed", "own_ask", "session_damaged", "session_discarded"),
        example={"text": "Then send it to the team", "behaviour": "enqueue"},
    )

    text: Annotated[Text, Meta(description="The message.")]
    behaviour: Annotated[
        Behaviour, Meta(description="If the agent is busy: queue the message, redirect the agent, or refuse.")
    ] = "enqueue"


class Edit(Command, tag="edit"):
    """Say a redirect or a queued message in other words, as long as the model has not seen it."""

    sent = Verb(
        operation="edit",
        refusals=("message_not_found", "message_seen"),
        example={"text": "Keep it to two pages"},
        method="PATCH",
        place="messages/{message}",
    )

    message: Annotated[MessageId, Meta(max_length=ID_LIMIT)]
    text: Annotated[Text, Meta(description="The other words.")]


class Withdraw(Command, tag="withdraw"):
    """Take a redirect or a queued message back, as long as the model has not seen it."""

    sent = Verb(
        operation="withdraw",
        refusals=("message_not_found", "message_seen"),
        method="DELETE",
        place="messages/{message}",
    )

    message: Annotated[MessageId, Meta(max_length=ID_LIMIT)]


class OutsideEvent(Command, tag="event"):
    """Something happened outside: what the agent assumes may no longer hold. Its model sees this next."""

    sent = Verb(
        operation="tell_event",
        refusals=("not_allowed", "own_ask", "session_ended"),
        example={"text": "The price list was replaced", "source": "erp"},
    )

    text: Annotated[Text, Meta(description="What happened.")]
    source: Annotated[str, Meta(max_length=ID_LIMIT, description="Who or what reports it.")] = ""


class Budget(Command, tag="budget"):
    """Raise the session's budget, and continue it if it is paused. Children that outlive it spend from it, too."""

    sent = Verb(
        operation="raise_budget",
        refusals=("agent_unavailable", "budget_spent", "not_allowed", "not_raised"),
        example={"budget": 25},
    )

    budget: Annotated[float, Meta(gt=0, le=1e9, description="Dollars: more than before.")]
    resume: Annotated[bool, Meta(description="Also resume a paused session.")] = True


class Halt(Command, tag="halt"):
    """The kill switch: stop at once, undo nothing, until an operator lifts it. ``switch``: the record it comes from."""

    reason: Reason = ""
    switch: str = ""


class Lift(Command, tag="lift"):
    """Lift a halt: the session is back where it was."""


class Intervene(Command, tag="intervene"):
    """A policy has decided to step in, or to tell people of something."""

    decision: Decision


class Label(Command, tag="label"):
    """Say whether it was right to step in; the last word counts. An agent may not."""

    sent = Verb(
        operation="label",
        refusals=("intervention_not_found",),
        example={"about": "int_1", "verdict": "right", "note": "it was going in circles"},
        tag="interventions",
    )

    about: Annotated[Id, Meta(description="An intervention (`int_3`), a pause (`pause_1`) or a message (`msg_2`).")]
    verdict: Annotated[Verdict, Meta(description="Whether it was right to step in.")]
    note: Reason = ""


class Rate(Command, tag="rate"):
    """Say how content you are with a session that has ended; the last word counts. An agent may not."""

    sent = Verb(operation="rate", refusals=("not_allowed",), example={"score": 4}, tag="interventions")

    score: Annotated[int, Meta(ge=1, le=5, description="From 1 (bad) to 5 (good).")]
    note: Reason = ""


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

SENT: Final = tuple(kind for kind in get_args(AnyCommand) if kind.sent is not None)
"""The commands that people and programs send."""


def refusals(kind: type[AnyCommand]) -> tuple[str, ...]:
    """Return the codes with which a command that people send may be refused, those of every command among them.

    A cancel of an erased session is granted, but one that is sent again has lost its answer to the erasure.
    """
    own = () if kind.sent is None else kind.sent.refusals
    return ("command_id_taken", "damaged", "precondition_failed", "session_erased", *own)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyCommand)


def verb(command: type[AnyCommand] | AnyCommand) -> str:
    """Return the command's verb."""
    return str(command.__struct_config__.tag)


_PHRASES: Final = {
    "message": "send a message to",
    "edit": "edit a message of",
    "withdraw": "withdraw a message of",
    "event": "report an event",
    "budget": "raise the budget of",
    "intervene": "step in in",
    "label": "label an intervention of",
}


def phrase(command: AnyCommand) -> str:
    """Return the command in words, for a sentence before the session's name."""
    return _PHRASES.get(verb(command), verb(command))


def encode_command(command: AnyCommand) -> bytes:
    """Encode a command for an inbox."""
    return _encoder.encode(command)


def decode_command(content: bytes) -> AnyCommand:
    """Decode a command from an inbox.

    Raises:
        Damaged: it cannot be read.
    """
    try:
        try:
            return _decoder.decode(content)
        except msgspec.ValidationError:
            return msgspec.convert(_with_grace(msgspec.json.decode(content)), AnyCommand)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"A command in the inbox cannot be read ({error}). It is refused; send it again.") from error


def _with_grace(stored: object) -> object:
    """Return a stored command with a grace that is allowed now: "for ever" was longer once."""
    match stored:
        case {"grace": int() | float() as grace} if grace > LONGEST_GRACE:
            return {**cast("dict[str, object]", stored), "grace": LONGEST_GRACE}
        case _:
            return stored


def finite(grace: float | None) -> float | None:
    """Return a grace, or None for one that is longer than any: the calls in flight finish."""
    return None if isinstance(grace, int | float) and grace > LONGEST_GRACE else grace


def check_command(command: AnyCommand) -> bytes:
    """Refuse what no session could use, before it becomes durable. Return the command, encoded for an inbox.

    Raises:
        InvalidInput: a field is not what its class says, or a text is blank.
    """
    check_struct(command)
    if isinstance(command, Redirect | Message | Edit | OutsideEvent) and not command.text.strip():
        raise InvalidInput(f"The text is empty: say it in words ({verb(command)}).", field="text")
    if isinstance(command, Answer) and (size := len(bytes(command.value.raw))) > ANSWER_LIMIT:
        raise InvalidInput(
            f"The answer has {size:,} bytes; at most {ANSWER_LIMIT:,} are allowed. "
            "Put it where the agent can read it and answer with the place.",
            field="value",
        )
    try:
        return encode_command(command)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidInput(f"This {verb(command)} cannot be stored: {error}.") from error
