"""Opens a store in this process, or connects to a server that has one."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Never, TypeVar

from midcourse.api.ctrl_c import CtrlC
from midcourse.api.midcourse import Midcourse
from midcourse.client import RemoteMidcourse
from midcourse.core.replies import Durability
from midcourse.core.session import ENDED
from midcourse.errors import InvalidInput
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.store import Store
from midcourse.runtime.settings import Settings
from midcourse.wiring import open_control, open_remote

T = TypeVar("T")


class Opening(AbstractAsyncContextManager[T]):
    """What ``open`` and ``connect`` return. Nothing is open before ``async with`` enters it."""

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


def open(
    store: str | Store = "sqlite:///midcourse.db",
    *,
    durability: Durability = "power",
    drive: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    redis: str | None = None,
    grace: float = 2.0,
    meter: Meter | None = None,
    recover: bool = True,
) -> Opening[Midcourse]:
    """Open a store, and go on with every session in it that was left running and whose agent is registered here.

    ``recover=False`` leaves those alone: it drives what it starts, and what somebody sends a command to.
    ``drive=False`` opens it to look and to steer only. Leaving the block lets sessions go at their next safe point
    (calls in flight within ``grace`` seconds); it cancels none. ``redis`` is the URL of the Redis in which people can
    read the checkpoints of agents that say ``backend: redis``; without it, what ``MIDCOURSE_REDIS_URL`` names.
    ``meter`` hears what happens: ``midcourse.telemetry.spans.Spans``, say.
    """

    @asynccontextmanager
    async def inside() -> AsyncGenerator[Midcourse]:
        with CtrlC() as interrupt:
            control = await open_control(
                store,
                durability=durability,
                drives=drive,
                recovers=recover,
                settings=settings or Settings(),
                clock=clock,
                redis=redis,
                meter=meter or UNMETERED,
            )
            midcourse = Midcourse(control)
            try:
                yield midcourse
            finally:
                kept = sum(driver.session.status not in ENDED for driver in control.worker.drivers())
                await midcourse.close(grace)
                if drive:
                    interrupt.tell(kept, control.worker.store.name, control.worker.store.durability)

    return Opening("open", inside())


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    patience: float = 30.0,
    clock: Clock | None = None,
) -> Opening[RemoteMidcourse]:
    """Steer the sessions of a server, with the verbs of an open store.

    Without ``url`` and ``token`` those in ``MIDCOURSE_URL`` and ``MIDCOURSE_TOKEN`` are taken. ``patience``: how many
    seconds a connection that was lost is tried again. Leaving the block stops nothing on the server.
    """

    @asynccontextmanager
    async def inside() -> AsyncGenerator[RemoteMidcourse]:
        remote = open_remote(url, token, patience=patience, clock=clock)
        try:
            yield remote
        finally:
            await remote.close()

    return Opening("connect", inside())
