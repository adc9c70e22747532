"""Sessions of this process whose journal could not be written: what is owed to them, and when they are tried again."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Final

from midcourse.core.commands import AnyCommand, encode_command
from midcourse.core.ids import CommandId, Epoch, SessionId
from midcourse.errors import Damaged, MidcourseError
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store

_AT_FIRST: Final = 0.5
"""Seconds before a session whose journal could not be written is tried again, the first time; then twice as many."""
_OUTAGE: Final = 5.0
"""At most so many while nothing at all can be written: to try again is then an empty write, and no step runs again."""
_MOST_PATIENT: Final = 60.0
"""At most so many if something was written since: to try again may run a step again."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """When a session could not be written, and for how many seconds it waits.

    ``alone``: the seconds once another session has kept a result since. They double if this one then fails again.
    """

    at: float
    wait: float = _AT_FIRST
    alone: float = _AT_FIRST


class FailedWrites:
    """Sessions that this process still owns: each continues from its journal, once that can be written again."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._epochs: dict[SessionId, Epoch] = {}
        self._owed: dict[SessionId, dict[CommandId, AnyCommand]] = {}
        self._order = count(1)
        self._answered: dict[SessionId, int] = {}  # few: only where a stop could not be written
        self._damage: dict[SessionId, Damaged] = {}
        self._replaced: MidcourseError | None = None
        self._failures: dict[SessionId, _Failure] = {}
        self._written_at = self._kept_at = -inf

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._epochs

    def epoch(self, session_id: SessionId) -> Epoch | None:
        """Under which epoch a write failed; None: none has."""
        return self._epochs.get(session_id)

    def lasting(self, session_id: SessionId) -> MidcourseError | None:
        """Return the error if the session cannot continue in this process: the store is damaged, or another one."""
        return self._replaced or (self._damage.get(session_id) if session_id in self._epochs else None)

    def note(self, error: MidcourseError) -> None:
        """Note a failure of the store, whichever session it was for: one that was replaced takes no write any more."""
        if error.code == "store_replaced":
            self._replaced = error

    def add(self, session_id: SessionId, epoch: Epoch, error: MidcourseError) -> None:
        """Note a failed write. It is tried again, after longer each time."""
        now, before = self._clock.monotonic(), self._failures.get(session_id)
        failure = _Failure(now)
        if before is not None:
            most = _MOST_PATIENT if before.at < self._written_at else _OUTAGE
            alone = 2 * before.alone if before.at < self._kept_at else before.alone
            failure = _Failure(now, min(most, 2 * before.wait), min(_MOST_PATIENT, alone))
        self._failures[session_id] = failure
        self._epochs[session_id] = epoch
        self.note(error)
        if isinstance(error, Damaged):
            self._damage[session_id] = error

    def _due_at(self, session_id: SessionId) -> float:
        failure = self._failures.get(session_id)
        if failure is None:
            return -inf
        wait = min(failure.wait, failure.alone) if failure.at < self._kept_at else failure.wait
        return failure.at + wait

    def written(self) -> None:
        """Note that the store took a write."""
        self._written_at = self._clock.monotonic()

    def kept(self, session_id: SessionId) -> None:
        """Note that a session's result was written: it is whole again, and those that failed with the store are due."""
        self._written_at = self._kept_at = self._clock.monotonic()
        self._failures.pop(session_id, None)

    def due(self, now: float) -> list[SessionId]:
        """Return those to try again by now."""
        owed = [session_id for session_id in list(self._owed) if session_id in self._answered]
        failed = dict.fromkeys((*list(self._epochs), *owed))
        return [session_id for session_id in failed if self._due_at(session_id) <= now]

    def waits(self, session_id: SessionId) -> bool:
        """Return whether it is too early to try this session again."""
        return session_id in self._epochs and self._due_at(session_id) > self._clock.monotonic()

    def try_soon(self, session_id: SessionId) -> None:
        """Try this session again soon: a command to it was just written, so the store works."""
        failure = self._failures.get(session_id)
        if failure is not None:
            self._failures[session_id] = replace(failure, wait=_AT_FIRST)

    def taken(self, session_id: SessionId) -> None:
        """Note that it is driven again."""
        self._epochs.pop(session_id, None)
        self._damage.pop(session_id, None)

    def defer(self, session_id: SessionId, stop: AnyCommand) -> None:
        """Owe a stop from the moment it is sent until it is in the inbox: nothing of the session begins before that.

        Kept in memory: if this process ends before it can write again, the stop is lost, as its answer had said.
        """
        with self._lock:
            self._owed.setdefault(session_id, {}).setdefault(stop.id, stop)

    def has_deferred(self, session_id: SessionId) -> bool:
        """Return whether a stop was sent that is not in the inbox yet."""
        return session_id in self._owed

    def deferred(self, session_id: SessionId) -> tuple[AnyCommand, ...]:
        """Return the stops that are not in the inbox yet, in the order they were sent."""
        with self._lock:
            return tuple(self._owed.get(session_id, {}).values())

    def forget_deferred(self, session_id: SessionId, stop: CommandId) -> None:
        """Note that the stop is in the inbox, or that the session refuses it."""
        with self._lock:
            owed = self._owed.get(session_id, {})
            owed.pop(stop, None)
            if not owed:
                self._owed.pop(session_id, None)

    async def flush(self, session_id: SessionId, stops: Sequence[AnyCommand] | None = None) -> None:
        """Put the deferred stops into the inbox, in their order; ``stops``: only these.

        A stop that is put there by another caller at the same moment is put twice, which is the same as once.

        Raises:
            StoreError: that still cannot be written.
        """
        for stop in self.deferred(session_id) if stops is None else stops:
            if stop.id in self._owed.get(session_id, {}):
                await self._store.put(session_id, stop.id, encode_command(stop), self._clock.now())
                self.forget_deferred(session_id, stop.id)

    async def pay_all(self) -> None:
        """Put all that is owed into the inboxes.

        Raises:
            StoreError: that still cannot be written.
        """
        for session_id in list(self._owed):
            await self.flush(session_id)

    def place(self) -> int:
        """Return the place in time of a command that is sent now."""
        return next(self._order)

    def answered(self, session_id: SessionId) -> None:
        """Note that a stop was answered as not durable."""
        self._answered[session_id] = next(self._order)

    def has_answered_since(self, session_id: SessionId, place: int) -> bool:
        """Return whether a stop was answered as not durable after that place."""
        return self._answered.get(session_id, 0) > place
