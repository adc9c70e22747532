"""A fold at one position, written down with its checksum: it saves reading, and is never the truth."""

from typing import Final

import msgspec

from midcourse.core.codec import BLOB_LIMIT, Blob, Value, value_of
from midcourse.core.ids import Position
from midcourse.core.session import Session
from midcourse.core.steps import StepLog
from midcourse.errors import Damaged

SIZE_LIMIT: Final = 1024 * 1024
"""A snapshot above this moves its larger values into blobs."""
TOOL_CALLS_LIMIT: Final = 1_000
"""At most so many ended calls lie between two snapshots, while one is small enough to be written that often."""
FORMAT: Final = 2
"""Raised whenever a session or a step log is folded otherwise than before: older snapshots are then rebuilt."""
_SMALLEST_BLOB: Final = 1024


class Snapshot(msgspec.Struct, gc=False, frozen=True):
    """A session and its step log at ``position``; ``digest`` is the journal's running digest there."""

    position: Position
    digest: bytes
    session: Session
    log: StepLog
    format: int = FORMAT


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> tuple[bytes, tuple[Blob, ...]]:
    """Return the snapshot's bytes, and the blobs it had to make to stay below its size limit."""
    content = _encoder.encode(snapshot)
    if len(content) <= SIZE_LIMIT:
        return content, ()
    blobs: list[Blob] = []
    log = msgspec.json.decode(_encoder.encode(snapshot.log), type=StepLog)  # a copy: the live log keeps its values
    for record in log.steps.values():
        record.value = _outside(record.value, blobs)
    for ask in log.asks.values():
        ask.value = _outside(ask.value, blobs)
    for name, drawn in log.drawn.items():
        log.drawn[name] = [_outside(value, blobs) for value in drawn]
    log.state = _outside(log.state, blobs)
    log.history = [_outside(piece, blobs) for piece in log.history]
    return _encoder.encode(msgspec.structs.replace(snapshot, log=log)), tuple(blobs)


def _outside(value: Value, blobs: list[Blob]) -> Value:
    if value.blob or len(bytes(value.raw)) <= _SMALLEST_BLOB:
        return value
    moved, blob = value_of(bytes(value.raw), limit=_SMALLEST_BLOB)
    if blob is not None:
        blobs.append(blob)
    return moved


def decode_snapshot(content: bytes) -> Snapshot:
    """Decode a snapshot whose checksum has been checked.

    Raises:
        Damaged: it cannot be read; use the one before it.
    """
    try:
        snapshot = _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"A snapshot cannot be read ({error}); it is rebuilt from the journal.") from error
    if snapshot.format != FORMAT or snapshot.position != snapshot.session.position:
        raise Damaged("A snapshot was written by another version of Midcourse; it is rebuilt from the journal.")
    return snapshot


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
