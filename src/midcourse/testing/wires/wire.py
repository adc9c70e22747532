"""What is the same in every API: a request is heard or objected to, and the answer is written piece by piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from midcourse.models.script import Call, Conversation, Piece, Usage

T = TypeVar("T")

CREATED: Final = 1_700_000_000
"""When every answer was made: a fixed second, so that the same script gives the same bytes."""


class Objection(Exception):
    """A request that the real provider refuses too."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request that makes sense."""

    conversation: Conversation
    model: str
    streams: bool
    wants_usage: bool = True


class Writer(Protocol):
    """Writes one answer. The methods return bytes of a stream of server-sent events; ``whole`` is the same at once."""

    def begin(self) -> bytes:
        """What comes before anything is said."""
        ...

    def text(self, part: str) -> bytes:
        """A word."""
        ...

    def call(self, call: Call) -> bytes:
        """The beginning of a call: its id and its name."""
        ...

    def arguments(self, part: str) -> bytes:
        """A fragment of the arguments of the call that was begun last."""
        ...

    def garbage(self, text: str) -> bytes:
        """``text`` where a client expects JSON."""
        ...

    def end(self, usage: Usage) -> bytes:
        """What comes after everything is said."""
        ...

    def broken(self, objection: Objection) -> bytes:
        """What is sent when an answer fails that has begun."""
        ...

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> Mapping[str, object]:
        """The answer to a request that does not stream."""
        ...


class Wire(Protocol):
    """One API of one provider."""

    path: str

    def key(self, headers: Mapping[str, str]) -> str | None:
        """The key that a request brings."""
        ...

    def wrong_key(self, key: str | None) -> Objection:
        """What is said to a key that is not the right one."""
        ...

    def heard(self, body: bytes) -> Heard:
        """The request in ``body``.

        Raises:
            Objection: the provider would refuse it.
        """
        ...

    def error(self, objection: Objection) -> Mapping[str, object]:
        """The body of an answer that is an error."""
        ...

    def writer(self, heard: Heard, number: int) -> Writer:
        """Who writes the answer to the request that is the ``number``-th of this server."""
        ...


def decoded(body: bytes, kind: type[T]) -> T:
    """The request as ``kind``. What a field should be is said as msgspec says it; unknown fields are left alone."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Objection(str(error)) from error
    except msgspec.DecodeError as error:
        raise Objection(f"We could not parse the JSON body of your request: {error}") from error


def encoded(value: object) -> bytes:
    """JSON."""
    return msgspec.json.encode(value)


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """A server-sent event."""
    named = b"" if name is None else b"event: %s\n" % name.encode()
    return named + b"data: " + encoded(data) + b"\n\n"
