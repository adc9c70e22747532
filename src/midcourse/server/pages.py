"""Pages of lists: ``limit`` and ``cursor`` in the query, ``next`` in the answer. One way for every list.

A cursor names the last item of a page by the key that orders the list. So what is added or removed between two pages
repeats no other item and hides none.
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from fastapi import Query

from midcourse.errors import InvalidInput

T = TypeVar("T")
USUAL: Final = 100
"""Items of a page, unless the caller says otherwise."""
LimitQuery = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
CursorQuery = Annotated[
    str | None, Query(description="`next` of the page before, as it was. The other parameters stay as they were.")
]


class Page(NamedTuple, Generic[T]):
    """Some items of a list, and the cursor of those behind them; None: these are the last."""

    items: Sequence[T]
    next: str | None


class Pages(Generic[T]):
    """The pages of one list: its items in the order of ``key``, which no two share. ``kind`` is the type of a key."""

    def __init__(self, name: str, kind: object, key: Callable[[T], Any]) -> None:
        self._name = name
        self._key = key
        whole: Any = tuple.__class_getitem__((Literal[name], kind))
        self._decoder = msgspec.json.Decoder[Any](whole)

    def after(self, cursor: str | None) -> Any:
        """Return the key of the last item that was seen; None: none was.

        Raises:
            InvalidInput: ``invalid_cursor``: it is no cursor of this list.
        """
        if cursor is None:
            return None
        try:
            content = b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            return self._decoder.decode(content)[1]
        except ValueError:  # msgspec's errors are such, too
            raise not_a_cursor() from None

    def cursor(self, key: object) -> str:
        """Return the cursor of what is behind the item with that key."""
        return urlsafe_b64encode(msgspec.json.encode((self._name, key))).rstrip(b"=").decode()

    def first(self, items: Sequence[T], limit: int) -> Page[T]:
        """Return the first ``limit`` of items that are in order, and begin behind the cursor."""
        shown = items[:limit]
        return Page(shown, self.cursor(self._key(shown[-1])) if len(items) > limit else None)

    def of(self, items: Iterable[T], limit: int, cursor: str | None) -> Page[T]:
        """Return the page of a whole list that begins behind ``cursor``."""
        after = self.after(cursor)
        behind = [one for one in items if after is None or self._key(one) > after]
        return self.first(sorted(behind, key=self._key), limit)


def not_a_cursor() -> InvalidInput:
    """Return the error for what is no cursor of a list."""
    return InvalidInput(
        "cursor is the `next` of the page before, of the same list, and this is none. Leave it out to begin again.",
        code="invalid_cursor",
        field="cursor",
    )
