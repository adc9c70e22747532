"""Threads for plain functions run as steps. Daemons: one that never ends must not keep its process from ending."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_IDLE_SECONDS = 10.0


def carriable(function: Callable[P, T]) -> Callable[P, T]:
    """Return ``function`` such that a ``StopIteration`` leaves it as a ``RuntimeError``, as it leaves a coroutine.

    A future cannot carry it, and a ``GeneratorExit`` out of one closes the coroutines that wait for it instead of
    reaching them: who waits for either would wait for ever.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (StopIteration, GeneratorExit) as error:
            name = type(error).__name__
            raise RuntimeError(f"{name}: {error}" if error.args else name) from error

    return call


class ThreadPool(Executor):
    """Runs each call in a thread, kept for the next one for a while, at most ``limit`` at the same time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._alive = 0
        self._idle = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run ``fn`` in a thread."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(carriable(fn)(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the call's outcome
                future.set_exception(error)

        with self._lock:
            needed = self._calls.qsize() >= self._idle and self._alive < self._limit
            self._alive += needed
        self._calls.put(call)
        if needed:
            threading.Thread(target=self._serve, name="midcourse-step", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down: idle threads end by themselves; one that still runs is not waited for."""

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                call = self._calls.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    self._idle -= 1
                    if self._calls.empty():
                        self._alive -= 1
                        return
                continue
            with self._lock:
                self._idle -= 1
            call()
            # An idle thread keeps nothing of its last call alive: a closure over a run would keep the whole session.
            del call
