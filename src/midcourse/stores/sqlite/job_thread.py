"""A thread with a queue: work goes in from any event loop, and each answer goes back to the loop it came from."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from midcourse.errors import StoreUnavailable
from midcourse.stores import store_errors
from midcourse.stores.sqlite.fork_detection import generation

T = TypeVar("T")
C = TypeVar("C")


class Job(NamedTuple, Generic[C]):
    """Work to be done on the lane's connection, and who waits for it."""

    future: "asyncio.Future[Any]"
    work: Callable[[C], Any]


class JobAnswer(NamedTuple):
    """The outcome of a job."""

    future: "asyncio.Future[Any]"
    value: Any
    error: BaseException | None


def _settle(answers: Iterable[JobAnswer]) -> None:
    for future, value, error in answers:
        if future.done():
            continue  # the waiting task was cancelled; the work was done all the same
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def deliver(answers: Iterable[JobAnswer]) -> None:
    """Hand the answers over, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[JobAnswer]] = {}
    for answer in answers:
        by_loop.setdefault(answer.future.get_loop(), []).append(answer)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, group)
        except RuntimeError:
            continue  # that loop is closed: no task waits there any more, and the others must not notice


class JobThread(Generic[C]):
    """Serves jobs in the order they were submitted, up to ``at_once`` of them in one go."""

    def __init__(
        self, *, store: str, serve: Callable[[list[Job[C]]], None], end: Callable[[], None], at_once: int
    ) -> None:
        self._store = store
        self._serve = serve
        self._end = end
        self._at_once = at_once
        self._queue: SimpleQueue[Job[C] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closing = False
        self._ended: list[asyncio.Future[None]] = []
        self._done = False
        self._generation = generation()
        # A daemon: a program that forgets to close must be able to end; what it was not answered is not promised.
        self._thread = threading.Thread(target=self._run, name=f"midcourse {store}", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def submit(self, work: Callable[[C], T]) -> "asyncio.Future[T]":
        """Enqueue ``work``. The future resolves on the calling loop; cancelling it does not take the work back."""
        if generation() != self._generation:
            return self.refuse(self._forked())
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._closing:
                self._queue.put(Job(future, work))
                return future
        return self.refuse(store_errors.closed(self._store))

    def refuse(self, error: Exception) -> "asyncio.Future[Any]":
        """Return the answer to work that is not enqueued."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(error if generation() == self._generation else self._forked())
        return future

    def _forked(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._store} was opened before fork. Open it again in the child; the parent's is not disturbed.",
            code="store_forked",
        )

    async def close(self) -> None:
        """Serve what was submitted, refuse what comes now, and end the thread."""
        if generation() != self._generation:
            raise self._forked()
        ended = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._done:
                return
            self._ended.append(ended)
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        await ended

    def _run(self) -> None:
        while True:
            jobs, last = self._take()
            if jobs:
                self._serve(jobs)
            if last:
                break
        with contextlib.suppress(Exception):  # a task that waits for the end must get it, even if closing fails
            self._end()
        with self._lock:
            self._done = True
        deliver(JobAnswer(ended, None, None) for ended in self._ended)

    def _take(self) -> tuple[list[Job[C]], bool]:
        """Wait for a job, then take what else is there. True: no more will come."""
        jobs: list[Job[C]] = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= self._at_once:
                return jobs, False
            try:
                job = self._queue.get_nowait()
            except Empty:
                return jobs, False
        return jobs, True
