"""A fold at one position, written down with its checksum: it saves reading, and is never the truth.

Long results are not written again: it names the journal's rows that hold them, with one digest over all of them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from midcourse.core.codec import BLOB_LIMIT, NOTHING, Blob, Value, checksum, value_of
from midcourse.core.events import AnyEvent, SegmentWritten, StepFinished
from midcourse.core.ids import Position, StepId
from midcourse.core.session import Session
from midcourse.core.steps import StepLog, StepRecord
from midcourse.errors import Damaged

SIZE_LIMIT: Final = 1024 * 1024
"""A snapshot above this moves its larger values into blobs."""
TOOL_CALLS_LIMIT: Final = 1_000
"""At most so many ended calls lie between two snapshots, while one is small enough to be written that often."""
FORMAT: Final = 3
"""Raised whenever a snapshot is written otherwise than before."""
_READABLE: Final = (2, FORMAT)
"""Those in which a session and a step log are folded as they are now; others are rebuilt."""
_SMALLEST_BLOB: Final = 1024


class Snapshot(msgspec.Struct, gc=False, frozen=True):
    """A session and its step log at ``position``; ``digest`` is the journal's running digest there.

    ``outside`` is the checksum of the results that only the journal holds.
    """

    position: Position
    digest: bytes
    session: Session
    log: StepLog
    format: int = FORMAT
    outside: bytes = b""


class EncodedSnapshot(NamedTuple):
    """A snapshot's bytes, the blobs it had to make to stay below its size limit, and its size with all it names."""

    content: bytes
    blobs: tuple[Blob, ...]
    size: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> EncodedSnapshot:
    """Encode a snapshot. Its log is left alone."""
    results: list[bytes] = []
    steps, earlier = _stripped(snapshot.log.steps, results), _stripped(snapshot.log.earlier, results)
    log = replace(snapshot.log, steps=steps, earlier=earlier)
    snapshot = replace(snapshot, log=log, outside=checksum(*results) if results else b"")
    content, size = _encoder.encode(snapshot), sum(map(len, results))
    if len(content) <= SIZE_LIMIT:
        return EncodedSnapshot(content, (), len(content) + size)
    blobs: list[Blob] = []
    log = msgspec.json.decode(_encoder.encode(log), type=StepLog)  # a copy: the live log keeps its values
    for ask in log.asks.values():
        ask.value = _outside(ask.value, blobs)
    for name, drawn in log.drawn.items():
        log.drawn[name] = [_outside(value, blobs) for value in drawn]
    log.state = _outside(log.state, blobs)
    log.history = [_outside(piece, blobs) for piece in log.history]
    content = _encoder.encode(replace(snapshot, log=log))
    return EncodedSnapshot(content, tuple(blobs), len(content) + size)


def _stripped(steps: Mapping[StepId, StepRecord], results: list[bytes]) -> dict[StepId, StepRecord]:
    """Return the steps without the results that the journal holds, which are added to ``results``."""
    return {step: _without_result(record, results) if record.rows else record for step, record in steps.items()}


def _without_result(record: StepRecord, results: list[bytes]) -> StepRecord:
    if record.outcome != "finished":
        return record
    if record.streamed:
        results += [piece.encode() for piece in record.pieces]
        return replace(record, pieces=())
    results.append(bytes(record.value.raw))
    return replace(record, value=NOTHING)


def rows_outside(snapshot: Snapshot) -> list[Position]:
    """Return the positions of the results that a decoded snapshot lacks, in the order of its steps."""
    return [place for record in _lacking(snapshot) for place in record.rows]


def restore_results(snapshot: Snapshot, events: Mapping[Position, AnyEvent]) -> int:
    """Put the results back that a decoded snapshot lacks, from its journal's ``events``. Return their size.

    Raises:
        Damaged: they are not what they were.
    """
    results: list[bytes] = []
    for record in _lacking(snapshot):
        for place in record.rows:
            match events.get(place):
                case SegmentWritten(text=text) if record.streamed:
                    record.pieces += (text,)
                    results.append(text.encode())
                case StepFinished(value=value):
                    record.value = value
                    results.append(bytes(value.raw))
                case _:
                    raise _unreadable("the journal does not hold its results")
    if (checksum(*results) if results else b"") != snapshot.outside:
        raise _unreadable("the journal's results are not those that it names")
    return sum(map(len, results))


def _lacking(snapshot: Snapshot) -> Iterable[StepRecord]:
    for steps in (snapshot.log.steps, snapshot.log.earlier):
        yield from (record for record in steps.values() if record.rows and record.outcome == "finished")


def _outside(value: Value, blobs: list[Blob]) -> Value:
    if value.blob or len(bytes(value.raw)) <= _SMALLEST_BLOB:
        return value
    moved, blob = value_of(bytes(value.raw), limit=_SMALLEST_BLOB)
    if blob is not None:
        blobs.append(blob)
    return moved


def decode_snapshot(content: bytes) -> Snapshot:
    """Decode a snapshot whose checksum has been checked. The results that only the journal holds are lacking.

    Raises:
        Damaged: it cannot be read; use the one before it.
    """
    try:
        snapshot = _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error
    if snapshot.format not in _READABLE or snapshot.position != snapshot.session.position:
        raise Damaged("A snapshot was written by another version of Midcourse; it is rebuilt from the journal.")
    return snapshot


def _unreadable(error: object) -> Damaged:
    return Damaged(f"A snapshot cannot be read ({error}); it is rebuilt from the journal.")


def is_due(
    *,
    grown: int,
    last_size: int,
    steps_since: int,
    tokens_since: int = 0,
    most_steps: int = TOOL_CALLS_LIMIT,
    most_tokens: int | None = None,
) -> bool:
    """Return True if the journal has grown enough since the last snapshot to pay for a new one, or too far without.

    Writing one when the journal has grown by its size keeps the cost per step constant, however long the session. A
    large one every so many steps would not: the whole history again and again grows with the square of the steps. So
    ``most_steps`` and ``most_tokens`` hold while a snapshot takes at most 1 KB for each of them, or 32 KB in all.
    """
    if grown >= max(last_size, BLOB_LIMIT):
        return True
    if last_size > SIZE_LIMIT:
        return False
    return _is_far(steps_since, most_steps, last_size) or (
        most_tokens is not None and _is_far(tokens_since, most_tokens, last_size)
    )


def _is_far(since: int, most: int, size: int) -> bool:
    return since >= most and size <= max(BLOB_LIMIT, since * SIZE_LIMIT // TOOL_CALLS_LIMIT)
