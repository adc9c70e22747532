"""Rows to values and back, with their seals: whatever does not match its seal is never followed."""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from midcourse.core.audit import encode_entry
from midcourse.core.codec import checksum
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId
from midcourse.errors import Damaged
from midcourse.ports.store import Change, Head, InboxRow
from midcourse.stores import store_errors

PACKED: Final = 512
"""Bytes from which on a record or a snapshot is compressed."""
_PACKED_MARK: Final = b"x"
"""The first byte of what zlib has compressed. No record has it: one begins with a brace, a tombstone with zero."""
_PACKED_WITH: Final = (
    b'"observed":{"free":true,"text":"","value":{"raw":{"at":1795130778.,"event":{"type":"segment.written@1","step":"1/",'
    b'"attempt":1,"offset":0,"text":"'
    b'{"at":1795130778.,"event":{"type":"step.finished@1","step":"1/#1","attempt":1,"streamed":true,"cost":0.0,"tokens":'
    b'{"at":1795130778.,"event":{"type":"step.finished@1","step":"1/#1","attempt":1,"value":{"raw":"","cost":0.0,"tokens":0}}'
)
"""Phrases of records, which need not be written out. Never changed: what is stored cannot be read with others."""
PLACES: Final = 2**32
"""The number of positions of a session: a row's place is its session's key times this, plus its position."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Head)


class Encoded(NamedTuple):
    """The encoded parts of a change, made in the caller's thread; the writer only writes. ``owner``: its seal."""

    head: bytes
    head_seal: bytes
    owner: bytes
    audit: Sequence[bytes]


class Ownership(NamedTuple):
    """The owner of a session by its row; the seal has been checked."""

    head: Head
    epoch: Epoch
    owner: WorkerId | None
    address: str


def encode_head(head: Head) -> tuple[bytes, bytes]:
    """Return a head as it is written, and its seal."""
    content = _encoder.encode(head)
    return content, checksum(content)


def encode(change: Change, owner: bytes) -> Encoded:
    """Return what is written of a change."""
    return Encoded(*encode_head(change.head), owner, [encode_entry(entry) for entry in change.audit])


@lru_cache(maxsize=10_000)
def owner_seal(session_id: SessionId, epoch: int, owner: str | None) -> bytes:
    """Return the seal over the owner of a session."""
    return checksum(session_id.encode(), b"%d" % epoch, b"" if owner is None else b"+" + owner.encode())


def command_seal(session_id: SessionId, seq: int, command_id: CommandId, put_at: float, content: bytes) -> bytes:
    """Return the seal over a command as it was put."""
    return checksum(session_id.encode(), b"%d" % seq, command_id.encode(), float(put_at).hex().encode(), content)


def outcome_seal(seal: bytes, outcome: bytes) -> bytes:
    """Return the seal over the outcome of a command."""
    return checksum(seal, outcome)


def snapshot_seal(session_id: SessionId, position: int, content: bytes) -> bytes:
    """Return the seal over a snapshot and its place."""
    return checksum(session_id.encode(), b"%d" % position, content)


def item_seal(shelf: str, key: str, value: bytes) -> bytes:
    """Return the seal over an item of a shelf and the place it belongs to."""
    return checksum(shelf.encode(), key.encode(), value)


def packed(content: bytes) -> bytes:
    """Return what is stored of a record or a snapshot."""
    if len(content) < PACKED and content[:1] != _PACKED_MARK:
        return content
    packing = zlib.compressobj(1, zdict=_PACKED_WITH)
    return packing.compress(content) + packing.flush()


def unpacked(stored: bytes) -> bytes:
    """Return what was stored; as it is, if it is damaged: its digest shows that."""
    if stored[:1] != _PACKED_MARK:
        return stored
    unpacking = zlib.decompressobj(zdict=_PACKED_WITH)
    try:
        content = unpacking.decompress(stored)
    except zlib.error:
        return stored
    return content if unpacking.eof and not unpacking.unused_data else stored


def read_item(shelf: str, row: Sequence[Any]) -> tuple[str, bytes]:
    """Return a key and its value, from a row of the statements ``shelved`` and ``shelved_newest``.

    Raises:
        Damaged: they do not match their seal.
    """
    key, value, seal = row
    try:
        whole = item_seal(shelf, key, value) == seal
    except (TypeError, AttributeError):
        whole = False
    if not whole:
        raise store_errors.damaged_item(shelf, str(key))
    return key, value


def read_head(session_id: Any, columns: Sequence[Any], content: Any, seal: Any) -> Head:
    """Return the head in ``content``; ``columns`` (status, agent, created_at, wake_at) must be equal.

    Raises:
        Damaged: it does not match its seal or its row.
    """
    head = whole_head(content, seal)
    if head is None or columns_of(head) != (session_id, *columns):
        raise store_errors.damaged_head(session_id)
    return head


def whole_head(content: Any, seal: Any) -> Head | None:
    """Return the head in ``content``; None if it does not match its seal."""
    try:
        return _decoder.decode(content) if checksum(content) == seal else None
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None


def columns_of(head: Head) -> tuple[object, ...]:
    """Return the columns of a session's row that repeat what its head says."""
    return head.id, head.status, head.agent, head.created_at, head.wake_at


def read_ownership(row: Sequence[Any]) -> Ownership:
    """Return the ownership in a row of the statements ``session`` and ``unattended_sessions``.

    Raises:
        Damaged: the head or the owner does not match its seal.
    """
    session_id, epoch, owner, seal, *columns, content, head_seal, address = row
    head = read_head(session_id, columns, content, head_seal)
    check_owner(session_id, epoch, owner, seal)
    return Ownership(head, Epoch(epoch), owner, address if isinstance(address, str) else "")


def check_owner(session_id: SessionId, epoch: Any, owner: Any, seal: Any) -> None:
    """Refuse an owner that was not written by a store.

    Raises:
        Damaged: epoch and owner do not match their seal.
    """
    try:
        whole = owner_seal(session_id, epoch, owner) == seal
    except (TypeError, AttributeError):
        whole = False
    if not whole:
        raise Damaged(
            f"Who owns session '{session_id}' does not match its checksum. Nothing of it is followed; "
            "restore the store from a backup.",
            session_id=session_id,
        )


def read_command(session_id: SessionId, row: Sequence[Any]) -> InboxRow:
    """Return the command in a row of the statements ``command`` and ``undecided_commands``.

    Raises:
        Damaged: the command or its outcome does not match its seal.
    """
    seq, command_id, put_at, content, seal, outcome, sealed_outcome = row
    try:
        whole = command_seal(session_id, seq, command_id, put_at, content) == seal and (
            sealed_outcome is None if outcome is None else outcome_seal(seal, outcome) == sealed_outcome
        )
    except (TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise store_errors.damaged_command(session_id, command_id)
    return InboxRow(seq=seq, id=command_id, put_at=put_at, content=content, outcome=outcome)


def damaged_row(row: Sequence[Any]) -> InboxRow:
    """Return a row without content for a command that cannot be followed."""
    seq, command_id, *_ = row
    return InboxRow(
        seq=seq if isinstance(seq, int) else 0,
        id=CommandId(command_id if isinstance(command_id, str) else ""),
        put_at=0.0,
        content=b"",
    )


def place(key: int, position: int) -> int:
    """Return the place of a row of the session."""
    return key * PLACES + position


def places(key: int) -> tuple[int, int]:
    """Return the first and last place of a session's rows."""
    return key * PLACES, key * PLACES + PLACES - 1


def position_of(where: int) -> Position:
    """Return the position, or sequence number, at a place."""
    return Position(where % PLACES)
