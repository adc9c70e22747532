"""Run a plain function of an open node in a thread of its own, where it may wait for days and blocks no other."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")
_names = count(1)


class OwnThread:
    """Hold the futures that a thread waits for on the loop; they are abandoned with its node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits_for: set[Future[Any]] = set()
        self._is_left = False

    def keep(self, future: Future[Any]) -> None:
        """Register a future that this thread may wait for."""
        with self._lock:
            self._waits_for.add(future)
            is_left = self._is_left
        if is_left:
            future.cancel()
        future.add_done_callback(self._waits_for.discard)

    def leave(self) -> None:
        """Abandon this thread: its result is no longer wanted, so it need not wait for anything."""
        with self._lock:
            self._is_left = True
            given_up = list(self._waits_for)
        for future in given_up:
            future.cancel()


_own: ContextVar[OwnThread | None] = ContextVar("midcourse_langgraph_thread", default=None)


def keep(future: Future[Any]) -> None:
    """Give it up with the node whose thread this is."""
    own = _own.get()
    if own is not None:
        own.keep(future)


def wait_for(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a coroutine on another thread's loop and wait for it, until the node is left."""
    waits_for = asyncio.run_coroutine_threadsafe(coroutine, loop)
    keep(waits_for)
    return waits_for.result()


def is_on(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if this code runs on the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def in_own_thread(function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
    """Return the result of ``function``. One that is abandoned runs to its end, and its result is dropped."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    own = OwnThread()
    context = copy_context()
    context.run(_own.set, own)

    def tell(deliver: Callable[[Any], None], what: Any) -> None:
        if not ended.done():
            deliver(what)

    def work() -> None:
        deliver: Callable[[Any], None] = ended.set_result
        what: Any
        try:
            what = context.run(function, *arguments, **keywords)
        except StopIteration as error:  # a future cannot carry it
            deliver, what = ended.set_exception, RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # noqa: BLE001 - it is the node's, and the graph's to handle
            deliver, what = ended.set_exception, error
        with suppress(RuntimeError):  # the loop is closed, and no task waits
            loop.call_soon_threadsafe(tell, deliver, what)

    # A daemon: a process must be able to end while a node waits.
    threading.Thread(target=work, name=f"midcourse-node-{next(_names)}", daemon=True).start()
    try:
        return await ended
    finally:
        own.leave()
