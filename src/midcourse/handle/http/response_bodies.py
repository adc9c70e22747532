"""The bodies of a server's answers, read into the same values that an open store gives."""

from collections.abc import Mapping
from typing import Any

import msgspec

from midcourse.core.effects import UndoChoice
from midcourse.core.events import Recorded, decode_record
from midcourse.core.ids import Position, SessionId
from midcourse.core.inspection import Inspection, StepView
from midcourse.core.receipt import Receipt
from midcourse.core.session import Session
from midcourse.ports.bus import Delta


class WireEvent(msgspec.Struct):
    """An event as it is sent."""

    position: Position
    at: float
    type: str
    version: int
    data: dict[str, msgspec.Raw]


class WireDelta(msgspec.Struct):
    """A preview as it is sent."""

    step: str
    attempt: int
    offset: int
    text: str


class WireResult(msgspec.Struct):
    """The result of a session, once it has ended."""

    status: str
    ended: bool
    result: Any = None


class WireInspection(msgspec.Struct):
    """A session at a position."""

    session: msgspec.Raw
    steps: tuple[StepView, ...]
    state: Any
    history: tuple[Any, ...] = ()


class WireMessage(msgspec.Struct):
    """Of a message, what a session counts."""

    is_seen: bool = True
    withdrawn: bool = False


class WireCounts(msgspec.Struct):
    """Of a session, what is sent in other words than it is kept."""

    updated_at: float = 0.0
    messages: list[WireMessage] = []


class WireEnd(msgspec.Struct):
    """The end of a journal."""

    position: Position


class WireReason(msgspec.Struct):
    """Why a stream ends."""

    reason: str


class WireId(msgspec.Struct):
    """Of a session, all that its handle needs."""

    id: SessionId


def event_of(sent: WireEvent) -> Recorded:
    """Return an event at its place in the journal, also from a server of another version.

    Raises:
        Damaged: this version does not know the event.
    """
    # By way of a journal's row, which knows the versions of an event.
    event = {"type": f"{sent.type}@{sent.version}", **sent.data}
    record = decode_record(msgspec.json.encode({"at": sent.at, "event": event}))
    return Recorded(sent.position, record.at, record.event)


def delta_of(session: SessionId, sent: WireDelta) -> Delta:
    return Delta(session, sent.step, sent.attempt, sent.offset, sent.text)


def inspection_of(content: bytes) -> Inspection:
    """A session as it was at a position."""
    sent = msgspec.json.decode(content, type=WireInspection)
    return Inspection(session_of(bytes(sent.session)), sent.steps, sent.state, sent.history)


def session_of(content: bytes) -> Session:
    """Return a session, without the bookkeeping that only its journal needs."""
    sent = msgspec.json.decode(content, type=WireCounts)
    return msgspec.structs.replace(
        msgspec.json.decode(content, type=Session),
        at=sent.updated_at,
        seen=sum(one.is_seen for one in sent.messages),
        withdrawn=sum(one.withdrawn for one in sent.messages),
    )


def previews_of(sent: Mapping[UndoChoice, Receipt]) -> Mapping[UndoChoice, Receipt]:
    """Return what a cancel would do, by its ``undo``."""
    return {choice: msgspec.structs.replace(one, is_preview=True) for choice, one in sent.items()}
