"""What requests may hold. Untrusted input becomes a value here, or a sentence that says why not."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from midcourse.core.commands import ID_LIMIT, TEXT_LIMIT, Behaviour, Role
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.terms import TaskClass

LONGEST_WAIT = 60.0
"""Seconds the longest request waits for an outcome."""
LONGEST_GRACE = 366 * 24 * 3600.0

Text = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]
Reason = Annotated[str, Field(max_length=TEXT_LIMIT)]
Name = Annotated[str, Field(min_length=1, max_length=ID_LIMIT)]
SessionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$")]
Grace = Annotated[float, Field(ge=0, le=LONGEST_GRACE, allow_inf_nan=False)]
Wait = Annotated[
    float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds to wait for the outcome.")
]
Money = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, description="Dollars.")]
Until = Annotated[
    Literal["accepted", "decided", "stopping", "stopped"],
    Field(description="How far it must have got before the answer comes: the gate is shut, or nothing runs."),
]


class Body(BaseModel):
    """A request's body. Unknown fields are refused: a misspelt one would be a wish that nobody hears."""

    model_config = ConfigDict(extra="forbid", strict=False, str_strip_whitespace=False)


class NewSession(Body):
    """Give an agent a goal."""

    agent: Name
    goal: Reason = ""
    session_id: SessionName | None = None
    task_class: TaskClass | None = None
    budget: Money | None = None


class Fork(Body):
    """A new session that goes on from a point of this one."""

    at: Annotated[int, Field(ge=1, le=2**53)] | None = None
    session_id: SessionName | None = None
    paused: bool = False


class Pause(Body):
    """Stop, keep the context. Without ``grace`` tool calls in flight may finish."""

    reason: Reason = ""
    grace: Grace | None = None
    until: Until = "stopping"
    wait: Wait = 10.0


class Resume(Body):
    """Go on after a pause, or try a failed session again."""

    pause: Name | None = None
    wait: Wait = 10.0


class Redirect(Body):
    """Change the course: one more instruction, another goal, an explanation."""

    text: Text
    level: RedirectLevel = "step"
    grace: Grace | None = None
    resume: bool = False
    wait: Wait = 10.0


class Cancel(Body):
    """End the session, and roll back what is in flight, everything, or nothing."""

    reason: Reason = ""
    grace: Grace = 2.0
    undo: UndoChoice | None = None
    until: Until = "stopping"
    wait: Wait = 10.0


class Undo(Body):
    """Roll back every effect of a session that has ended."""

    reason: Reason = ""
    wait: Wait = 60.0


class Answer(Body):
    """Answer an ask; without ``ask`` the only one that is open. A child's is named ``child/ask``."""

    value: JsonValue
    ask: Annotated[str, Field(min_length=1, max_length=2 * ID_LIMIT)] | None = None
    wait: Wait = 10.0


class Message(Body):
    """Say something; ``behaviour`` is what it does while the agent works."""

    text: Text
    behaviour: Behaviour = "enqueue"
    wait: Wait = 10.0


class Edit(Body):
    """Other words for a message that the model has not seen."""

    text: Text
    wait: Wait = 10.0


class OutsideEvent(Body):
    """Something happened outside, so that what the agent assumes may no longer hold."""

    text: Text
    source: Annotated[str, Field(max_length=ID_LIMIT)] = ""
    wait: Wait = 10.0


class Budget(Body):
    """What the session may cost from now on, in dollars; a paused one goes on."""

    budget: Money
    resume: bool = True
    wait: Wait = 10.0


class NewToken(Body):
    """A token for a program or a person, or (with ``session``) for a session itself."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role = "watch"
    session: SessionName | None = None


class Chat(Body):
    """A message to an agent, in a new session or one that goes on."""

    agent: Name
    message: Text
    session_id: SessionName | None = None
    behaviour: Behaviour = "enqueue"


class ChatResume(Body):
    """The answer to what the agent asked."""

    session_id: Name
    answer: JsonValue
    ask_id: Annotated[str, Field(min_length=1, max_length=2 * ID_LIMIT)] | None = None
