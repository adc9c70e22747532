"""The sticky gate: nothing of a session begins unless it is open, and checking and passing are one act.

It is derived, not set: it is open exactly while the folded status lets the agent run. A change of the status holds the
journal's lock, and so does a passing call; so the calls listed when a stop is decided are all there are.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from midcourse.core.ids import PauseId, StepId
from midcourse.core.session import Status
from midcourse.errors import InterruptRequested
from midcourse.runtime.calls import CallInFlight
from midcourse.runtime.journal import Journal

LETS_RUN: Final = frozenset({Status.RUNNING, Status.WAITING})


class Gate:
    """The calls that have begun, the waiting ones, and the state of the gate."""

    def __init__(
        self,
        journal: Journal,
        *,
        is_fresh: Callable[[], bool],
        on_wait: Callable[[], None],
        is_held: Callable[[], bool] = lambda: False,
        is_owed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.begun: dict[StepId, CallInFlight] = {}
        self.on_the_way: dict[StepId, CallInFlight] = {}
        self.settling: dict[StepId, str] = {}
        self.stops_on_the_way = 0
        self.too_dear: PauseId | None = None
        self.interrupted = False
        self.draining = False
        self.drain_until = 0.0
        self._journal = journal
        self._is_fresh = is_fresh
        self._is_held = is_held
        self._is_owed = is_owed
        self._on_wait = on_wait
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._stale: dict[asyncio.Future[None], None] = {}
        self._aborted: dict[asyncio.Future[None], None] = {}
        self._asking: dict[StepId, asyncio.Future[None]] = {}
        self._delayed: dict[asyncio.Future[None], Callable[[], bool]] = {}

    @property
    def is_open(self) -> bool:
        """True if a call may begin now. Check it under the journal's lock, and pass in the same hold of it."""
        return not self.interrupted and self.lets_calls_continue and not self._is_held()

    @property
    def lets_priced_end(self) -> bool:
        """True if the session pauses for the price of a call alone: what was priced before that call ends normally."""
        session = self._journal.session
        stands = session.pause is not None and session.pause.id == self.too_dear
        return stands and session.status is Status.PAUSING

    @property
    def lets_journaled_begin(self) -> bool:
        """True if a call whose start is durable may begin now. Look, and pass, as for ``is_open``."""
        return self.is_open or (self.lets_priced_end and not self.interrupted and not self._is_shut)

    @property
    def lets_calls_continue(self) -> bool:
        """True if no stop applies to what has begun: an agent that has ended leaves its calls to end by themselves.

        A child that was spawned has begun in this sense, although its own agent has not.
        """
        return self._journal.session.status in LETS_RUN and not self._is_shut

    @property
    def _is_shut(self) -> bool:
        """True if something shuts it that the status does not tell."""
        journal = self._journal
        return bool(
            self.stops_on_the_way
            or self._is_owed()
            or self.draining
            or journal.broken is not None
            or journal.leaving
            # A process that was stopped must read its inbox before it starts anything.
            or not self._is_fresh()
        )

    @property
    def has_calls(self) -> bool:
        """True if a call has begun and not ended, is being settled, or has a start in the journal and none here yet."""
        return bool(self.begun or self.on_the_way or self.settling)

    @property
    def waiting(self) -> int:
        """The number of the agent's paths that wait at the gate or at an ask, or to try again."""
        return len(self._waiting) + len(self._asking) + len(self._delayed)

    @property
    def has_waiting(self) -> bool:
        """True if a path of the agent waits to pass."""
        return bool(self._waiting)

    @property
    def only_asking(self) -> bool:
        """True if every path that is known waits for a person."""
        return bool(self._asking) and not self._waiting and not self._delayed and not self.has_calls

    async def wait(self) -> None:
        """Wait until the gate is open.

        Raises:
            InterruptRequested: the agent is being interrupted.
        """
        while True:
            if self.interrupted:
                raise InterruptRequested
            with self._journal.lock:
                if self.is_open:
                    return
            waiter = self._add_waiter()
            self._waiting[waiter] = None
            try:
                await waiter
            finally:
                del self._waiting[waiter]

    async def wait_for(self, seconds: float | None, *, unless: Callable[[], bool]) -> None:
        """Wait for so long, with the gate open or shut, or until ``unless`` holds after a decision.

        ``seconds``: None is for however long that takes.

        Raises:
            InterruptRequested: the agent is being interrupted.
        """
        if self.interrupted:
            raise InterruptRequested
        if (seconds is not None and seconds <= 0) or unless():
            return
        waiter = self._add_waiter()
        self._delayed[waiter] = unless
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, _let_pass, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            del self._delayed[waiter]

    async def until_fresh(self) -> None:
        """Wait until the inbox has been polled since this process was last suspended. Usually costs nothing."""
        while not self._is_fresh() and not self.interrupted:
            waiter = self._add_waiter()
            self._stale[waiter] = None
            try:
                await waiter
            finally:
                del self._stale[waiter]

    async def until_decided(self) -> None:
        """Wait until the stop that aborts ahead of its decision is decided or refused, or cannot be written."""
        journal = self._journal
        while self.stops_on_the_way and journal.session.status in LETS_RUN and journal.broken is None:
            waiter = asyncio.get_running_loop().create_future()
            self._aborted[waiter] = None
            try:
                await waiter
            finally:
                del self._aborted[waiter]

    def release_aborted(self) -> None:
        """Have the calls that were aborted ahead of a decision look whether it is there. On the agent's loop."""
        for waiter in self._aborted:
            _let_pass(waiter)

    async def wait_for_answer(self, step: StepId) -> None:
        """Wait for an answer to the ask that ``step`` opened, or for its end.

        Raises:
            InterruptRequested: the agent is being interrupted.
        """
        if self.interrupted:
            raise InterruptRequested
        waiter = self._add_waiter()
        self._asking[step] = waiter
        try:
            await waiter
        finally:
            self._asking.pop(step, None)

    def _add_waiter(self) -> "asyncio.Future[None]":
        """Return a future to wait at; a stop may have been waiting for this."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._on_wait)
        return loop.create_future()

    def release_stale(self) -> None:
        """Wake the tasks that waited for a poll of the inbox, in any status. On the agent's loop."""
        if self._stale and self._is_fresh():
            for waiter in [waiter for waiter in self._stale if not waiter.done()]:
                waiter.set_result(None)

    def release_waiters(self) -> None:
        """Let those pass who can. On the agent's loop."""
        with self._journal.lock:
            passing = list(self._waiting) if self._waiting and self.is_open else []
        for waiter in passing:
            _let_pass(waiter)
        for waiter in [waiter for waiter, is_over in self._delayed.items() if is_over()]:
            _let_pass(waiter)
        asks = self._journal.log.asks
        for step, waiter in self._asking.items():
            record = asks.get(step)
            if not waiter.done() and (record is None or record.end):
                waiter.set_result(None)

    def interrupt(self) -> None:
        """Interrupt the agent: all its waiting and later tasks get the stop. On the agent's loop."""
        self.interrupted = True
        for waiter in [*self._waiting, *self._stale, *self._asking.values(), *self._delayed]:
            if not waiter.done():
                waiter.set_exception(InterruptRequested())


def _let_pass(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
