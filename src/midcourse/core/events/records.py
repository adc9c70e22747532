"""Records: an event, when and where it was journaled, and the bytes of a journal row, whatever version wrote them."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, get_args

import msgspec

from midcourse.core.events.asks import AskEvent
from midcourse.core.events.calls import CallEvent
from midcourse.core.events.cancels import CancelEvent
from midcourse.core.events.event import Event
from midcourse.core.events.halts import HaltEvent
from midcourse.core.events.interventions import InterventionEvent
from midcourse.core.events.messages import MessageEvent
from midcourse.core.events.pauses import PauseEvent
from midcourse.core.events.turns import TurnEvent
from midcourse.core.ids import Position
from midcourse.errors import Damaged, Unencodable

AnyEvent = TurnEvent | PauseEvent | MessageEvent | CancelEvent | HaltEvent | CallEvent | AskEvent | InterventionEvent


class Record(msgspec.Struct, gc=False, frozen=True):
    """An event and when it was journaled (seconds since 1970): what one row of a journal says."""

    at: float
    event: AnyEvent


class Recorded(msgspec.Struct, gc=False, frozen=True):
    """A record at its place in the journal; ``position`` is the event's id."""

    position: Position
    at: float
    event: AnyEvent

    @property
    def type(self) -> str:
        """``{domain}.{action}``."""
        return event_type(self.event)


def event_type(event: AnyEvent) -> str:
    """Return the type of an event without its version: ``{domain}.{action}``."""
    return str(event.__struct_config__.tag).partition("@")[0]


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: Final[dict[str, Upcaster]] = {}
"""From a tag of the past to the fields of the next version, whose tag the result carries. Empty until there is one."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def _number_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type in (float, float | None))


_NUMBERS: Final = {kind: _number_fields(kind) for kind in get_args(AnyEvent)}


def encode_record(record: Record) -> bytes:
    """Encode one journal row.

    Raises:
        Unencodable: it holds a number or a text that could not be read back.
    """
    event = record.event
    for name in _NUMBERS[type(event)]:
        number = getattr(event, name)
        if number is not None and not isfinite(number):
            raise Unencodable(
                f"'{name}' of '{event_type(event)}' is {number}, which cannot be journaled. Give a finite number.",
                what=name,
            )
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError as error:
        raise Unencodable(
            f"'{event_type(event)}' holds text that is not Unicode ({error.reason}), which cannot be journaled. "
            "Decode it first, for example with errors='replace'.",
            what=event_type(event),
        ) from error


def decode_record(content: bytes, upcasters: Mapping[str, Upcaster] = UPCASTERS) -> Record:
    """Decode one journal row, of any version.

    Raises:
        Damaged: no version of Midcourse known here wrote this.
    """
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _upcast(content, upcasters, error)


def _upcast(content: bytes, upcasters: Mapping[str, Upcaster], error: Exception) -> Record:
    tags: list[str] = []
    try:
        record = msgspec.json.decode(content, type=dict[str, Any])
        event: dict[str, Any] = record["event"]
        tags.append(str(event["type"]))
        while tags[-1] in upcasters:
            event = upcasters[tags[-1]](event)
            if event["type"] in tags:
                raise ValueError(f"the upcasters go round in a circle at '{event['type']}'")
            tags.append(str(event["type"]))
        # By way of bytes: a value stays JSON as it is, which no conversion between objects would leave it.
        return _decoder.decode(msgspec.json.encode({**record, "event": event}))
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as again:
        name = f"of type '{tags[0]}' " if tags else ""
        raise Damaged(
            f"A journal record {name}cannot be read ({again if len(tags) > 1 else error}). It was written by a newer "
            "Midcourse, or it is damaged: upgrade this program, or restore the store from a backup.",
        ) from again
