"""A store around another: it passes every call on, through two methods that a test's own store writes anew."""

from collections.abc import Awaitable, Callable
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar

from midcourse.core.replies import Durability
from midcourse.ports.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class WrappedStore:
    """Does what ``inner`` does. ``_write`` makes each write, ``_call`` everything else, given the call's name."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return make()

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        return await make()

    @property
    def durability(self) -> Durability:
        return self.inner.durability

    @property
    def name(self) -> str:
        return self.inner.name

    @staticmethod
    def _written(
        method: Callable[Concatenate[Store, P], Awaitable[T]],
    ) -> "Callable[Concatenate[WrappedStore, P], Awaitable[T]]":
        """Return a method that makes this write of the inner store when it is called."""

        @wraps(method)
        def write(self: "WrappedStore", *given: P.args, **named: P.kwargs) -> Awaitable[T]:
            call = method.__name__
            return self._write(call, lambda: getattr(self.inner, call)(*given, **named))

        return write

    @staticmethod
    def _called(
        method: "Callable[Concatenate[Store, P], CoroutineType[Any, Any, T]]",
    ) -> "Callable[Concatenate[WrappedStore, P], CoroutineType[Any, Any, T]]":
        """Return a method that makes this call of the inner store."""

        @wraps(method)
        async def pass_on(self: "WrappedStore", *given: P.args, **named: P.kwargs) -> T:
            call = method.__name__
            return await self._call(call, lambda: getattr(self.inner, call)(*given, **named))

        return pass_on

    # Writes take their place when they are called.
    create = _written(Store.create)
    append = _written(Store.append)
    put = _written(Store.put)
    take = _written(Store.take)
    save_snapshot = _written(Store.save_snapshot)
    erase = _written(Store.erase)
    shelve = _written(Store.shelve)
    trim_audit = _written(Store.trim_audit)
    enlist = _called(Store.enlist)
    close = _called(Store.close)
    head = _called(Store.head)
    heads = _called(Store.heads)
    below = _called(Store.below)
    read = _called(Store.read)
    snapshots = _called(Store.snapshots)
    blobs = _called(Store.blobs)
    undecided = _called(Store.undecided)
    row = _called(Store.row)
    shelved = _called(Store.shelved)
    shelf_keys = _called(Store.shelf_keys)
    shelves = _called(Store.shelves)
    audit = _called(Store.audit)
    audit_end = _called(Store.audit_end)
    unattended = _called(Store.unattended)
    unanswered = _called(Store.unanswered)
    pending = _called(Store.pending)
    changed = _called(Store.changed)
