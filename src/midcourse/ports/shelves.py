"""Whose a shelf is, its keys by their beginning, and how one is read of which something may be damaged."""

from collections.abc import Sequence
from typing import TypedDict, TypeVar

import msgspec

from midcourse.core.ids import SessionId
from midcourse.errors import Damaged
from midcourse.ports.store import Store

T = TypeVar("T")


class KeyRange(TypedDict):
    """The keys from ``first`` to ``last``."""

    first: str
    last: str


def below(prefix: str) -> KeyRange:
    """Return the range of the keys that begin with ``prefix``: ``store.shelved(shelf, **below(prefix))``."""
    return {"first": prefix, "last": f"{prefix}\U0010ffff"}


def decoded(content: bytes, kind: type[T]) -> T | None:
    """Return the record in an item; None if it is damaged, or of another Midcourse."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_shelf_of(session_id: SessionId, shelf: str) -> bool:
    """Return True if a shelf is its alone: ``langgraph:<id>``, ``chat:<id>:shown``. By place: an id may be any word."""
    return goes_with(session_id, shelf) or (shelf.startswith("chat:") and shelf.split(":")[1:-1] == [session_id])


def goes_with(session_id: SessionId, shelf: str) -> bool:
    """Return True if a fork of a session gets such a shelf, too: a framework's data, and not what people were shown."""
    return shelf.partition(":")[2] == session_id


async def readable(
    store: Store, shelf: str, *, first: str = "", last: str = ""
) -> tuple[list[tuple[str, bytes]], Sequence[str]]:
    """Return the undamaged items of a shelf from ``first`` to ``last``, in order; and the keys of the damaged ones.

    Raises:
        StoreError, Damaged: the store cannot be read.
    """
    whole: list[tuple[str, bytes]] = []
    damaged: list[str] = []
    while True:
        try:
            whole += await store.shelved(shelf, first=first, last=last)
        except Damaged as error:
            if "key" not in error.fields:  # it is the store that cannot be read
                raise
            key = str(error.fields["key"])
        else:
            return whole, damaged
        before = [one for one in await store.shelf_keys(shelf, first=first, last=last) if one < key]
        if before:  # counted, too: an empty last key would be the end of the shelf
            whole += await store.shelved(shelf, first=first, last=before[-1], limit=len(before))
        damaged.append(key)
        first = f"{key}\0"
