"""What a ``state`` agent has gathered: a list that only grows, of which every item is written once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from midcourse.core.codec import decode, encode
from midcourse.core.steps import StepLog
from midcourse.ports.store import Store
from midcourse.runtime.loading import content_of


class History(Sequence[Any]):
    """``run.history``: append to it, read it; a checkpoint or the end of a turn saves what is new.

    A list in ``run.state`` is written anew by every checkpoint, so that its cost grows with the square of its length.
    Do not change an item after it was appended: what is saved stays as it was.
    """

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = list(items)
        self._saved = len(self._items)

    def append(self, item: Any) -> None:
        """Add one JSON-like item at the end."""
        self._items.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        """Add several at the end."""
        self._items.extend(items)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def grown(self) -> bytes | None:
        """What is not saved yet, encoded; None if there is nothing."""
        new = self._items[self._saved :]
        return encode(new, what="run.history") if new else None

    def saved(self) -> None:
        """Everything there is now is on its way to the journal."""
        self._saved = len(self._items)


async def load_history(store: Store, log: StepLog) -> History:
    """The history as checkpoints have saved it, piece by piece.

    Raises:
        Damaged: a piece of it is not what was written.
    """
    return History([item for piece in log.history for item in decode(await content_of(store, piece))])
