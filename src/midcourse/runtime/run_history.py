"""The collected items of a ``state`` agent: a list that only grows, of which every item is written once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import msgspec

from midcourse.core.codec import decode, encode
from midcourse.core.steps import StepLog
from midcourse.ports.store import Store
from midcourse.runtime.session_loader import contents_of


class RunHistory(Sequence[Any]):
    """``run.history``: append to it, read it; a checkpoint or the end of a turn saves what is new.

    A list in ``run.state`` is written anew by every checkpoint, so that its cost grows with the square of its length.
    Do not change an item after it was appended: what is saved stays as it was.
    """

    def __init__(self, pieces: Sequence[bytes] = ()) -> None:
        self._pieces = pieces
        self._found: list[Any] | None = None
        self._new: list[Any] = []
        self._saved = 0

    def append(self, item: Any) -> None:
        """Add one JSON-like item at the end."""
        self.extend((item,))

    def extend(self, items: Iterable[Any]) -> None:
        """Add several at the end."""
        added = list(items)
        self._new.extend(added)
        if self._found is not None:
            self._found.extend(added)

    @property
    def spelled(self) -> list[bytes]:
        """The items at the beginning of this run, each as the JSON it was saved as: for custom readers."""
        return [bytes(item) for piece in self._pieces for item in msgspec.json.decode(piece, type=list[msgspec.Raw])]

    @property
    def _items(self) -> list[Any]:
        if self._found is None:
            self._found = [*(item for piece in self._pieces for item in decode(piece)), *self._new]
        return self._found

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
        """Return what is not saved yet, encoded; None if there is nothing."""
        new = self._new[self._saved :]
        return encode(new, what="run.history") if new else None

    def saved(self) -> None:
        """Note that all items are on their way to the journal."""
        self._saved = len(self._new)


async def load_run_history(store: Store, log: StepLog) -> RunHistory:
    """Load the history from the checkpoints, piece by piece.

    Raises:
        Damaged: a piece of it is not what was written.
    """
    return RunHistory(await contents_of(store, log.history))
