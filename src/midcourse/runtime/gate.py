"""The sticky gate: nothing of a session begins unless it stands open, and looking and passing are one act.

It is derived, not set: it stands open exactly while the folded status lets the agent run. Whoever changes the status
holds the journal's lock, and so does whoever passes; so the calls listed when a stop is decided are all there are.
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
    """Who has begun, who waits, and whether anybody may pass."""

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
        self._waiting: set[asyncio.Future[None]] = set()
        self._stale: set[asyncio.Future[None]] = set()
        self._asking: dict[StepId, asyncio.Future[None]] = {}
        self._delayed: dict[asyncio.Future[None], Callable[[], bool]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a call may begin now. Look under the journal's lock, and pass in the same hold of it."""
        return not self.interrupted and self.lets_calls_continue and not self._is_held()

    @property
    def lets_priced_end(self) -> bool:
        """Whether the session pauses for the price of a call alone: what was priced before that call ends normally."""
        session = self._journal.session
        stands = session.pause is not None and session.pause.id == self.too_dear
        return stands and session.status is Status.PAUSING

    @property
    def lets_journaled_begin(self) -> bool:
        """Whether a call whose start is durable may begin now. Look, and pass, as for ``is_open``."""
        return self.is_open or (self.lets_priced_end and not self.interrupted and not self._is_shut)

    @property
    def lets_calls_continue(self) -> bool:
        """Whether no stop stands against what has begun: an agent that has ended leaves its calls to end by themselves.

        A child that was spawned has begun in this sense, although its own agent has not.
        """
        return self._journal.session.status in LETS_RUN and not self._is_shut

    @property
    def _is_shut(self) -> bool:
        """Whether something shuts it that the status does not tell."""
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
        """Whether a call has begun and not ended, is being settled, or has a start in the journal and none here yet."""
        return bool(self.begun or self.on_the_way or self.settling)

    @property
    def waiting(self) -> int:
        """How many paths of the agent stand at the gate or at an ask, or wait to try again."""
        return len(self._waiting) + len(self._asking) + len(self._delayed)

    @property
    def has_waiting(self) -> bool:
        """Whether a path of the agent waits to pass."""
        return bool(self._waiting)

    @property
    def only_asking(self) -> bool:
        """Whether every path that is known waits for a person."""
        return bool(self._asking) and not self._waiting and not self._delayed and not self.has_calls

    async def wait(self) -> None:
        """Until the gate stands open.

        Raises:
            InterruptRequested: the agent is being taken down.
        """
        while True:
            if self.interrupted:
                raise InterruptRequested
            with self._journal.lock:
                if self.is_open:
                    return
            waiter = self._add_waiter()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)

    async def wait_for(self, seconds: float | None, *, unless: Callable[[], bool]) -> None:
        """For so long, whether the gate is open or shut, or until ``unless`` holds after something was decided.

        ``seconds``: None is for however long that takes.

        Raises:
            InterruptRequested: the agent is being taken down.
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
        """Until the inbox has been looked at since this process last stood still. Costs nothing when it did not."""
        while not self._is_fresh() and not self.interrupted:
            waiter = self._add_waiter()
            self._stale.add(waiter)
            try:
                await waiter
            finally:
                self._stale.discard(waiter)

    async def wait_for_answer(self, step: StepId) -> None:
        """Until something becomes of the ask that ``step`` opened.

        Raises:
            InterruptRequested: the agent is being taken down.
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
        """A place to wait at; that somebody stands there may be what a stop has been waiting for."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._on_wait)
        return loop.create_future()

    def release_stale(self) -> None:
        """Let those go on who waited for a look at the inbox, whatever the status. On the agent's loop."""
        if self._stale and self._is_fresh():
            for waiter in [waiter for waiter in self._stale if not waiter.done()]:
                waiter.set_result(None)

    def release_waiters(self) -> None:
        """Let those pass who can. On the agent's loop."""
        with self._journal.lock:
            passing = [waiter for waiter in self._waiting if not waiter.done()] if self.is_open else []
        for waiter in passing:
            waiter.set_result(None)
        for waiter in [waiter for waiter, is_over in self._delayed.items() if is_over()]:
            _let_pass(waiter)
        self.release_stale()
        asks = self._journal.log.asks
        for step, waiter in self._asking.items():
            record = asks.get(step)
            if not waiter.done() and (record is None or record.end):
                waiter.set_result(None)

    def interrupt(self) -> None:
        """Take the agent down: everybody who waits, and whoever comes, gets the stop. On the agent's loop."""
        self.interrupted = True
        for waiter in [*self._waiting, *self._stale, *self._asking.values(), *self._delayed]:
            if not waiter.done():
                waiter.set_exception(InterruptRequested())


def _let_pass(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
