"""The context managers that ``open`` and ``connect`` return."""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Never, TypeVar

from midcourse.errors import InvalidInput

T = TypeVar("T")


class Opening(AbstractAsyncContextManager[T]):
    """The result of ``open`` and ``connect``. Nothing is open before ``async with`` enters it."""

    def __init__(self, name: str, inside: AbstractAsyncContextManager[T]) -> None:
        self._name = name
        self._inside = inside

    async def __aenter__(self) -> T:
        return await self._inside.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inside.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # a type checker knows that it has none of these

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(self._sentence)

        def __await__(self) -> Never:
            raise InvalidInput(self._sentence, field=self._name)

        def __enter__(self) -> Never:
            raise InvalidInput(self._sentence, field=self._name)

        def __exit__(self, *_: object) -> None: ...

    @property
    def _sentence(self) -> str:
        return (
            f"midcourse.{self._name}(…) is not entered yet. Write 'async with midcourse.{self._name}(…) as mc:' and "
            "use mc inside the block; leaving it lets sessions go at a safe point."
        )
