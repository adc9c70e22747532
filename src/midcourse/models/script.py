"""The input and output of a scripted model: values without a framework, a wire, a clock or a thread.

A script is a function of the conversation alone. It keeps nothing between two calls, so it gives the same answer after
a crash and a resume, on another machine, or when a client tries a request again.

A player of a script (an HTTP server, a framework's model class) calls ``answer`` for the next message.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeAlias, cast

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

CUT_OFF: Final = "Your last message was cut off in the middle."
"""The beginning of the user's message that asks a model to continue its own."""
_WORD: Final = re.compile(r"\s*\S+\s*|\s+")
_FRAGMENT: Final = 8


# ---- what it says


@dataclass(frozen=True, slots=True)
class Text:
    """Words for the person, streamed one by one with ``every`` seconds before each but the first."""

    text: str
    every: float = 0.0

    @property
    def parts(self) -> tuple[str, ...]:
        """The streamed pieces: each word with the space around it. Joined they are the text."""
        return tuple(_WORD.findall(self.text))


@dataclass(frozen=True, slots=True)
class Call:
    """A request to use a tool. Without an ``id``, ``answer`` gives it one.

    ``raw`` is sent in place of the arguments, letter for letter: so a model can be one that writes broken JSON. The
    arguments are streamed in fragments, with ``every`` seconds before each but the first.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str | None = None
    raw: str | None = field(default=None, kw_only=True)
    every: float = field(default=0.0, kw_only=True)

    @property
    def spelled(self) -> str:
        """The arguments as they are sent: ``raw``, or JSON."""
        return self.raw if self.raw is not None else json.dumps(dict(self.arguments), ensure_ascii=False)

    @property
    def parts(self) -> tuple[str, ...]:
        """The streamed pieces of the arguments. Joined they are ``spelled``."""
        spelled = self.spelled
        return tuple(spelled[start : start + _FRAGMENT] for start in range(0, len(spelled), _FRAGMENT))


def call_of(name: str, spelled: str, id: str) -> Call:
    """Return a call as a conversation has it: its arguments read, or kept ``raw`` if they are no JSON object."""
    try:
        arguments: object = json.loads(spelled)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return Call(name, cast("dict[str, object]", arguments), id)
    return Call(name, id=id, raw=spelled)


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """An error of the provider: an HTTP answer if nothing was said before it, else the end of a broken stream.

    Status 0 is a connection that is cut, without a word about why. ``retry_after``: the header of that name.
    """

    status: int
    message: str
    retry_after: str = ""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes where a chunk should be. Only a model behind HTTP can say it; elsewhere it is a failure."""

    text: str


Piece: TypeAlias = Text | Call | Wait | Fail | Garbage


# ---- what it hears


@dataclass(frozen=True, slots=True)
class Said:
    """One message. ``calls`` are an assistant's; ``call_id`` names the call of which a tool's text is the result."""

    role: Role
    text: str
    calls: tuple[Call, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """All messages so far, in order."""

    said: tuple[Said, ...] = ()

    def __iter__(self) -> Iterator[Said]:
        return iter(self.said)

    def __len__(self) -> int:
        return len(self.said)

    @property
    def system(self) -> str:
        """The instructions, joined by lines."""
        return "\n".join(said.text for said in self.said if said.role == "system")

    @property
    def user(self) -> str:
        """The person's last message; empty if there is none."""
        return next((said.text for said in reversed(self.said) if said.role == "user"), "")

    @property
    def latest(self) -> "Conversation":
        """The conversation from the person's last message on: after a redirect, all that concerns the new course."""
        last = max((at for at, said in enumerate(self.said) if said.role == "user"), default=0)
        return Conversation(self.said[last:])

    @property
    def cut(self) -> "tuple[Conversation, str]":
        """The conversation before an answer that was cut, and the beginning of that answer; empty if none was.

        A model is given the beginning as its own last message, with or without a request to continue it.
        """
        said = self.said
        if len(said) > 1 and said[-1].role == "user" and said[-1].text.startswith(CUT_OFF):
            said = said[:-1]
        if said and said[-1].role == "assistant" and said[-1].text and not said[-1].calls:
            return Conversation(said[:-1]), said[-1].text
        return self, ""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call the model made, in order."""
        return tuple(call for said in self.said for call in said.calls)

    @property
    def rounds(self) -> int:
        """The number of finished messages of the model: each of their calls has a result."""
        answered = {said.call_id for said in self.said if said.role == "tool"}
        return sum(
            bool(said.text.strip() or said.calls) and all(call.id in answered for call in said.calls)
            for said in self.said
            if said.role == "assistant"
        )

    def finished(self, *tools: str) -> tuple[tuple[Call, str], ...]:
        """Return the calls of these tools that have a result, each with it, in the order of the results."""
        calls = {call.id: call for call in self.calls if call.name in tools}
        results = (said for said in self.said if said.role == "tool")
        return tuple((calls[said.call_id], said.text) for said in results if said.call_id in calls)

    def results(self, tool: str) -> tuple[str, ...]:
        """Return the results of the calls of ``tool``, in order. Calls without a result are not among them."""
        return tuple(text for _, text in self.finished(tool))


# ---- scripts


class Script(Protocol):
    """Decides what is said next, from the conversation alone."""

    def __call__(self, conversation: Conversation, /) -> Sequence[Piece]:
        """Return the pieces of the model's next message, in order. It may be called again for the same conversation."""
        ...


def replies(*rounds: Piece | Sequence[Piece]) -> Script:
    """Return a script that plays the first round first, the second when the first is finished, and so on.

    The round follows from the conversation (``Conversation.rounds``). Past the end it fails with a sentence, and with a
    status that clients do not retry.
    """
    listed = tuple((each,) if isinstance(each, Text | Call | Wait | Fail | Garbage) else tuple(each) for each in rounds)

    def script(conversation: Conversation, /) -> Sequence[Piece]:
        at = conversation.rounds
        if at < len(listed):
            return listed[at]
        return (
            Fail(
                400,
                f"The script has {len(listed)} rounds and all of them are in this conversation. "
                "Give replies() one more, or end the agent's loop earlier.",
            ),
        )

    return script


def answer(script: Script, conversation: Conversation) -> tuple[Piece, ...]:
    """Return the next message of ``script``, with an id for each call.

    An id is ``call_<round>_<index>``. It is the same whenever the conversation is, and new to it: the round is the
    number of the model's messages so far, or a later one if earlier messages were dropped and it is in use.

    An answer that was cut is continued, if the script still begins in the same way.
    """
    conversation, begun = conversation.cut
    taken = {call.id for call in conversation.calls}
    at = sum(said.role == "assistant" for said in conversation)
    while any(name is not None and name.startswith(f"call_{at}_") for name in taken):
        at += 1
    made: list[Piece] = []
    index = 0
    for piece in _behind(begun, script(conversation)):
        if isinstance(piece, Call):
            made.append(replace(piece, id=f"call_{at}_{index}") if piece.id is None else piece)
            index += 1
        else:
            made.append(piece)
    return tuple(made)


def _behind(begun: str, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Return the rest of an answer whose beginning was sent; all of it, if it begins otherwise."""
    rest = list(pieces)
    while begun and rest:
        first = rest.pop(0)
        if not isinstance(first, Text):
            continue
        if first.text.startswith(begun):
            return [replace(first, text=first.text[len(begun) :]), *rest]
        if not begun.startswith(first.text):
            break
        begun = begun.removeprefix(first.text)
    return pieces


# ---- usage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, by which a word is meant here: what is counted must be the same every time."""

    heard: int
    said: int


def tokens(text: str) -> int:
    return len(text.split())


def usage(conversation: Conversation, pieces: Sequence[Piece]) -> Usage:
    """Return the tokens of a message of these ``pieces`` in this conversation."""
    heard = sum(tokens(said.text) + sum(_cost(call) for call in said.calls) for said in conversation)
    return Usage(heard, sum(_cost(piece) for piece in pieces))


def _cost(piece: Piece) -> int:
    match piece:
        case Text():
            return tokens(piece.text)
        case Call():
            return tokens(piece.name) + tokens(piece.spelled)
        case Wait() | Fail() | Garbage():
            return 0
