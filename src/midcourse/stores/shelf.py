"""A shelf in memory: keys in order, each value with its checksum."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from midcourse.core.codec import checksum
from midcourse.stores import refusals


def item_seal(shelf: str, key: str, value: bytes) -> bytes:
    """The seal over a value and the place it belongs to."""
    return checksum(shelf.encode(), key.encode(), value)


class Shelf:
    """What the memory store keeps of one shelf."""

    __slots__ = ("items", "keys", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: list[str] = []
        self.items: dict[str, tuple[bytes, bytes]] = {}

    def put(self, key: str, value: bytes | None) -> None:
        """Keep ``value`` under ``key``, or take it away."""
        known = key in self.items
        if value is not None:
            self.items[key] = (value, item_seal(self.name, key, value))
            if not known:
                insort(self.keys, key)
        elif known:
            del self.items[key]
            del self.keys[bisect_left(self.keys, key)]

    def holds(self, key: str, value: bytes | None) -> bool:
        """Whether that very value lies under ``key``, whole; None: nothing does."""
        return self.items.get(key) == (None if value is None else (value, item_seal(self.name, key, value)))

    def between(self, first: str, last: str) -> Sequence[str]:
        """The keys from ``first`` to ``last``; an empty ``last`` is the end."""
        end = bisect_right(self.keys, last) if last else len(self.keys)
        return self.keys[bisect_left(self.keys, first) : end]

    def value(self, key: str) -> bytes:
        """The value under ``key``.

        Raises:
            Damaged: it does not match its seal.
        """
        value, seal = self.items[key]
        if item_seal(self.name, key, value) != seal:
            raise refusals.damaged_item(self.name, key)
        return value
