"""A channel's value in pieces: a list that grew is stored as what was added to it, so that a thread grows linearly.

LangGraph saves the whole value of a channel with every checkpoint that changed it. A list of messages that grows by one
at each step would be written again and again. Serialised lists are their elements one after the other, behind a header
that counts them: if the new elements begin with all of the old ones, only the bytes behind those are new.

The pieces of a value form a chain. Each value is the chain's pieces from the first to its own, and knows the digest of
them all, so that neither a value that does not continue the last one nor a piece that is missing goes unnoticed.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from midcourse.core.codec import checksum
from midcourse.errors import Damaged

Version = int | float | str

SMALL: Final = 64
"""A value of up to so many bytes lies in its reference, which is about as long itself."""

_ARRAY: Final = "msgpack"
_ARRAY_HEADERS: Final[Mapping[int, int]] = {**dict.fromkeys(range(0x90, 0xA0), 1), 0xDC: 3, 0xDD: 5}
"""The length of a msgpack array's header, by its first byte."""


class Reference(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The value of a channel at a version. ``kind`` is the serialiser's word for it; empty: the channel has no value.

    A small value is ``header`` and ``small``. Any other has a ``chain`` and its place there.
    """

    version: Version
    kind: str = ""
    header: bytes = b""
    small: bytes = b""
    chain: str = ""
    place: int = 0
    size: int = 0
    digest: bytes = b""

    @property
    def name(self) -> str:
        """The name of the value's last piece: pieces of other values have other names."""
        summed = checksum(self.kind.encode(), self.header, self.digest)
        return base64.urlsafe_b64encode(summed).rstrip(b"=").decode()


class ChannelPiece(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Bytes of a value, and the name of the piece they continue (empty: they begin it)."""

    before: str
    content: bytes


def cut(version: Version, kind: str, content: bytes, before: Reference | None) -> tuple[Reference, ChannelPiece | None]:
    """Return the reference to a value, and the piece to store for it, if any. ``before``: the value it follows."""
    length = _ARRAY_HEADERS.get(content[0], 0) if kind == _ARRAY and content else 0
    header, body = content[:length], memoryview(content)[length:]
    if len(content) <= SMALL:
        return Reference(version, kind, header, bytes(body)), None
    summing = hashlib.blake2b(digest_size=16)
    if before is not None and _may_continue(before, kind, header, body):
        summing.update(body[: before.size])
        if summing.digest() == before.digest:
            rest = bytes(body[before.size :])
            if not rest and header == before.header:
                return msgspec.structs.replace(before, version=version), None
            summing.update(rest)
            continued = Reference(
                version, kind, header, b"", before.chain, before.place + 1, len(body), summing.digest()
            )
            return continued, ChannelPiece(before.name, rest)
        summing = hashlib.blake2b(digest_size=16)
    summing.update(body)
    whole = Reference(version, kind, header, b"", "", 0, len(body), summing.digest())
    return msgspec.structs.replace(whole, chain=whole.name), ChannelPiece("", bytes(body))


def _may_continue(before: Reference, kind: str, header: bytes, body: memoryview) -> bool:
    """Return True for a list, which may continue another value, and for a value that may be the same again."""
    if not before.chain or before.kind != kind:
        return False
    if header:
        return bool(before.header) and before.size <= len(body)
    return not before.header and before.size == len(body)


def joined(reference: Reference, pieces: Mapping[tuple[int, str], ChannelPiece]) -> tuple[str, bytes]:
    """Return the value as the serialiser made it, from the pieces of its chain by place and name.

    Raises:
        Damaged: a piece is missing, or they do not give what was cut.
    """
    if not reference.chain:
        return reference.kind, reference.header + reference.small
    parts: list[bytes] = []
    name = reference.name
    for place in range(reference.place, -1, -1):
        piece = pieces.get((place, name))
        if piece is None:
            raise Damaged(
                f"Piece {place} of the chain '{reference.chain}' is missing: the value cannot be put together. "
                "Restore the store from a backup.",
                chain=reference.chain,
                place=place,
            )
        parts.append(piece.content)
        name = piece.before
    parts.append(reference.header)
    content = b"".join(reversed(parts))
    body = memoryview(content)[len(reference.header) :]
    if name or len(body) != reference.size or hashlib.blake2b(body, digest_size=16).digest() != reference.digest:
        raise Damaged(
            f"The pieces of the chain '{reference.chain}' do not give the value that was cut into them. "
            "Restore the store from a backup.",
            chain=reference.chain,
        )
    return reference.kind, content
