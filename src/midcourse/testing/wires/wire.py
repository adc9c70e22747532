"""The common part of every API: a request is read or refused, and the answer is written piece by piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from midcourse.models.script import Call, Conversation, Piece, Usage

T = TypeVar("T")

CREATED: Final = 1_700_000_000
"""The time of every answer: a fixed second, so that the same script gives the same bytes."""


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
        """Return the bytes before the first piece."""
        ...

    def text(self, part: str) -> bytes:
        """Return a word."""
        ...

    def call(self, call: Call) -> bytes:
        """Return the beginning of a call: its id and its name."""
        ...

    def arguments(self, part: str) -> bytes:
        """Return a fragment of the arguments of the call that was begun last."""
        ...

    def garbage(self, text: str) -> bytes:
        """Return ``text`` where a client expects JSON."""
        ...

    def end(self, usage: Usage) -> bytes:
        """Return the bytes after the last piece."""
        ...

    def broken(self, objection: Objection) -> bytes:
        """Return the bytes for an answer that fails after its beginning."""
        ...

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> Mapping[str, object]:
        """Return the answer to a request that does not stream."""
        ...


class Wire(Protocol):
    """One API of one provider."""

    path: str

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key of a request."""
        ...

    def wrong_key(self, key: str | None) -> Objection:
        """Return the error for a wrong key."""
        ...

    def heard(self, body: bytes) -> Heard:
        """Return the request in ``body``.

        Raises:
            Objection: the provider would refuse it.
        """
        ...

    def error(self, objection: Objection) -> Mapping[str, object]:
        """Return the body of an answer that is an error."""
        ...

    def writer(self, heard: Heard, number: int) -> Writer:
        """Return the writer of the answer to the ``number``-th request of this server."""
        ...


def decoded(body: bytes, kind: type[T]) -> T:
    """Decode the request as ``kind``. Wrong fields are reported as msgspec does; unknown fields are ignored."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Objection(str(error)) from error
    except msgspec.DecodeError as error:
        raise Objection(f"We could not parse the JSON body of your request: {error}") from error


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """Return a server-sent event."""
    named = b"" if name is None else b"event: %s\n" % name.encode()
    return named + b"data: " + encoded(data) + b"\n\n"
