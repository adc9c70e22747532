"""What a server's answers hold, read into the same values that an open store gives."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from midcourse.core.audit import Audited, AuditEntry
from midcourse.core.bulk import BulkOutcome
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Recorded, decode_record
from midcourse.core.ids import Position, SessionId
from midcourse.core.inspection import Inspection, StepView
from midcourse.core.receipt import Receipt
from midcourse.core.session import Session
from midcourse.core.terms import Terms
from midcourse.ports.bus import Delta
from midcourse.ports.store import Head


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


class WireBulk(msgspec.Struct):
    """What became of many sessions."""

    outcomes: list[BulkOutcome]


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that a server runs. ``goals`` are examples of what to ask of it, the plainest first."""

    name: str
    version: str
    mode: str
    resumable: bool
    origin: str
    asks: bool
    terms: Terms
    description: str = ""
    goals: tuple[str, ...] = ()


class WireLogin(msgspec.Struct):
    """A login code, as the link that lets a browser in."""

    link: str


class WireResult(msgspec.Struct):
    """Whether a session has ended, and with what."""

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


def heads_of(sent: Iterable[Mapping[str, Any]]) -> list[Head]:
    """Heads. What only a store needs of them is not sent."""
    return [msgspec.convert({"digest": "", **head}, Head) for head in sent]


def audited_of(sent: Iterable[Mapping[str, Any]]) -> list[Audited]:
    """Entries of the audit log, which the server has checked."""
    return [Audited(entry["seq"], msgspec.convert(entry, AuditEntry)) for entry in sent]


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
