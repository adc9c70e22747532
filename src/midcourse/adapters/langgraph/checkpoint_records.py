"""The records on a thread's shelf, and their keys.

::

    c/{namespace}/{checkpoint}                         a checkpoint, without the values of its channels
    v/{namespace}/{channel}/{chain}/{place}/{name}     a piece of a channel's value
    w/{namespace}/{checkpoint}/{task}/{index}          a write that a task made on top of a checkpoint

A shelf for each thread: to delete or to copy a thread is to do it to a shelf, no thread's checkpoints are read for the
sake of another's, and to see all threads is to list the shelves. Checkpoint ids are in the order of time, so that the
newest is the last. The pieces of a value are side by side: one read gives them all. Namespaces, channels and tasks are
quoted, and hold no slash; a checkpoint's id is the end of its key and is not, so that its order stays.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import msgspec

from midcourse.adapters.langgraph.channel_pieces import ChannelPiece, Reference
from midcourse.errors import Damaged

SHELVES: Final = "langgraph:"
"""The beginning of the names of the threads' shelves."""
CHECKPOINTS: Final = "c/"
PIECES: Final = "v/"
WRITES: Final = "w/"

S = TypeVar("S", bound=msgspec.Struct)
Typed = tuple[str, bytes]
"""A value as LangGraph's serialisers give it: what kind it is, and its bytes."""

_encoder = msgspec.msgpack.Encoder()


class CheckpointRecord(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint as it is stored."""

    parent: str | None
    checkpoint: Typed
    metadata: Typed
    channels: dict[str, Reference]


class Write(msgspec.Struct, array_like=True, frozen=True):
    """A task's write to a channel. ``index`` counts the task's writes; special channels have fixed negative ones."""

    path: str
    task: str
    index: int
    channel: str
    value: Typed


class CheckpointAddress(NamedTuple):
    """A checkpoint: the shelf of its thread, its namespace, its id."""

    shelf: str
    namespace: str
    id: str

    @property
    def key(self) -> str:
        return f"{checkpoints_in(self.namespace)}{self.id}"

    @property
    def writes(self) -> str:
        """The beginning of the keys of its writes."""
        return f"{WRITES}{_quoted(self.namespace)}/{_quoted(self.id)}/"

    @classmethod
    def of(cls, shelf: str, key: str) -> "CheckpointAddress":
        """Return the checkpoint whose record has the key ``key``."""
        _, namespace, checkpoint = key.split("/", 2)
        return cls(shelf, unquote(namespace, errors="surrogatepass"), checkpoint)


def checkpoints_in(namespace: str) -> str:
    """Return the beginning of the keys of a namespace's records."""
    return f"{CHECKPOINTS}{_quoted(namespace)}/"


def chain_of(namespace: str, channel: str, reference: Reference) -> str:
    """Return the beginning of the keys of a chain's pieces."""
    return f"{PIECES}{_quoted(namespace)}/{_quoted(channel)}/{reference.chain}/"


def piece_at(chain: str, place: int, name: str = "") -> str:
    """Return the key of a piece; without a name, the beginning of all keys at that place."""
    return f"{chain}{place:08x}/{name}"


def place_of(key: str) -> tuple[str, int, str]:
    """Return the chain, place and name in the key of a piece."""
    chain, place, name = key.rsplit("/", 2)
    return f"{chain}/", int(place, 16), name


def write_at(address: CheckpointAddress, task: str, index: int) -> str:
    return f"{address.writes}{_quoted(task)}/{index}"


def writes_of(key: str) -> str:
    """Return the beginning of the keys of all writes on top of the same checkpoint."""
    return f"{key.rsplit('/', 2)[0]}/"


def encode(value: CheckpointRecord | Write | ChannelPiece) -> bytes:
    return _encoder.encode(value)


_decoders: Final[Mapping[type, msgspec.msgpack.Decoder[CheckpointRecord | Write | ChannelPiece]]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (CheckpointRecord, Write, ChannelPiece)
}


def decode(kind: type[S], shelf: str, key: str, content: bytes) -> S:
    """Decode the record under ``key``.

    Raises:
        Damaged: it is something else.
    """
    try:
        value = _decoders[kind].decode(content)
    except msgspec.MsgspecError as error:
        raise Damaged(
            f"'{key}' on the shelf '{shelf}' is no record of a LangGraph thread. "
            "Nothing of it is followed; restore the store from a backup.",
            shelf=shelf,
            key=key,
        ) from error
    assert isinstance(value, kind)  # its decoder gives nothing else
    return value


def needless(
    keys: Sequence[str],
    records: Mapping[CheckpointAddress, CheckpointRecord],
    kept: Mapping[CheckpointAddress, CheckpointRecord],
) -> list[str]:
    """Return those ``keys`` of a shelf that are not needed once only ``kept`` of its ``records`` are left."""
    lengths: dict[str, int] = {}
    for address, record in kept.items():
        for channel, reference in record.channels.items():
            if reference.chain:
                chain = chain_of(address.namespace, channel, reference)
                lengths[chain] = max(reference.place, lengths.get(chain, 0))
    dropped = [address for address in records if address not in kept]
    # Only writes of what is dropped now: those of a checkpoint that is being put may be there before it.
    unwritten = {address.writes for address in dropped}
    gone = [address.key for address in dropped]
    for key in keys:
        if key.startswith(PIECES):
            chain, place, _ = place_of(key)
            # What a kept value continues stays, whether or not its own checkpoint does: it is the value's beginning.
            if place > lengths.get(chain, -1):
                gone.append(key)
        elif key.startswith(WRITES) and writes_of(key) in unwritten:
            gone.append(key)
    return gone


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
