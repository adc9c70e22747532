"""Verbs over many sessions, each written once: as an open store carries it out, with the address a server has it at."""

from collections.abc import Callable, Collection, Coroutine
from functools import wraps
from inspect import Signature, signature
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast

import msgspec

from midcourse.core.commands import Role
from midcourse.handle.local import LocalTransport
from midcourse.handle.transport import Request, Transport
from midcourse.runtime.control import Control
from midcourse.runtime.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")
_UNSENT: Final = ("by",)


class Verbs:
    """A group of verbs over a transport. What a verb does itself, it does on an open store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def _local(self) -> LocalTransport:
        assert isinstance(self._transport, LocalTransport)
        return self._transport

    @property
    def _control(self) -> Control:
        return self._local.control

    @property
    def _worker(self) -> Worker:
        return self._local.worker

    @property
    def _role(self) -> Role:
        return self._local.role


def served(
    place: str,
    answer: Any = None,
    *,
    item: Any = None,
    within: str = "",
    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET",
    once: str = "",
    patience: float = 0.0,
    check: Callable[..., object] | None = None,
    sends: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given,
    reads: Callable[[bytes], Any] | None = None,
    unsent: Collection[str] = _UNSENT,
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Have a server asked for a verb at ``place``, with the verb's parameters, where the transport leads to one.

    The answer, or its field ``within``, is read as the type ``answer``, or by ``reads``; a list of ``item`` is read
    page by page, until it is whole or has the verb's ``limit``. ``check`` gets the parameters that it names, wherever
    the verb is carried out. The ``unsent`` are for an open store: a server knows its caller.
    """

    def read(content: bytes) -> Any:
        if within:
            content = msgspec.json.decode(content, type=dict[str, msgspec.Raw])[within]
        return msgspec.json.decode(content, type=answer)

    def sent(given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in sends(given).items() if value is not None and name not in unsent}

    request = Request(method, place, reads or read, sent, item, within, once, patience)
    checked = frozenset(signature(check).parameters) if check is not None else frozenset[str]()

    def declare(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        taken = signature(work)

        @wraps(work)
        async def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            given = _bound(taken, args, kwargs)
            group = cast("Verbs", given.pop("self"))
            if check is not None:
                check(**{name: value for name, value in given.items() if name in checked})
            return await group._transport.do(request, given, lambda: work(*args, **kwargs))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        return verb

    return declare


def _bound(taken: Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    bound = taken.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)
