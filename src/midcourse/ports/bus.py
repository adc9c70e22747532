"""Wake-ups between processes. The bus may lose everything: it carries hints, never truth."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from midcourse.core.ids import SessionId


class Wake(msgspec.Struct, gc=False, frozen=True, tag="wake"):
    """A command lies in the inbox of a session you own. Tell ``reply_to`` once it is decided."""

    session: SessionId
    reply_to: str = ""


class Watch(msgspec.Struct, gc=False, frozen=True, tag="watch"):
    """Tell ``reply_to`` for a while whenever the session's journal grows, and its previews if it wants them."""

    session: SessionId
    reply_to: str
    deltas: bool = False


class Grown(msgspec.Struct, gc=False, frozen=True, tag="grown"):
    """The session's journal has grown, or a command to it was decided."""

    session: SessionId


PREVIEWS_KEPT: Final = 256
"""Previews a slow watcher may lag behind; older ones are dropped, since the durable segment replaces them."""


class Delta(msgspec.Struct, gc=False, frozen=True, tag="delta"):
    """A preview of streamed text that is not durable yet; the segment with the same place replaces it."""

    session: SessionId
    step: str
    attempt: int
    offset: int
    text: str


Note = Wake | Watch | Grown | Delta


class Bus(Protocol):
    """Carries notes to addresses. Never blocks, never raises for a receiver that is gone."""

    @property
    def address(self) -> str:
        """The address at which this process receives notes."""
        ...

    def listen(self, hear: Callable[[Note], None]) -> None:
        """Call ``hear`` for each note from now on, on a thread of the bus. ``hear`` must not block."""
        ...

    def send(self, address: str, note: Note) -> None:
        """Send a note, if it goes at once."""
        ...

    def close(self) -> None:
        """Stop listening and give up the address."""
        ...
