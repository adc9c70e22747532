"""Sessions of this process whose journal could not be written: what is owed to them, and when they are tried again."""

import threading
from collections.abc import Sequence
from itertools import count
from typing import Final

from midcourse.core.commands import AnyCommand, encode_command
from midcourse.core.ids import CommandId, Epoch, SessionId
from midcourse.errors import Damaged, MidcourseError
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store

_MOST_PATIENT: Final = 60.0
"""The longest wait, in seconds, before a session whose journal could not be written is tried again."""


class Unwritten:
    """They are still this process's: each goes on from what is durable, once it can be written again."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._epochs: dict[SessionId, Epoch] = {}
        self._owed: dict[SessionId, dict[CommandId, AnyCommand]] = {}
        self._order = count(1)
        self._answered: dict[SessionId, int] = {}  # few: only where a stop could not be written
        self._damage: dict[SessionId, Damaged] = {}
        self._patience: dict[SessionId, float] = {}
        self._try_again_at: dict[SessionId, float] = {}

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._epochs

    def epoch(self, session_id: SessionId) -> Epoch | None:
        """Under which epoch a write failed; None: none has."""
        return self._epochs.get(session_id)

    def damage(self, session_id: SessionId) -> Damaged | None:
        """Return the error if the session cannot continue because the store is damaged."""
        return self._damage.get(session_id) if session_id in self._epochs else None

    def add(self, session_id: SessionId, epoch: Epoch, error: MidcourseError) -> None:
        """A write failed. It is tried again, after longer each time.

        What cannot be written may be a step's result, and to try again runs the step again.
        """
        wait = self._patience[session_id] = min(_MOST_PATIENT, 2 * self._patience.get(session_id, 0.25))
        self._try_again_at[session_id] = self._clock.monotonic() + wait
        self._epochs[session_id] = epoch
        if isinstance(error, Damaged):
            self._damage[session_id] = error

    def due(self, now: float) -> list[SessionId]:
        """Return those to try again by now."""
        failed = {*list(self._epochs), *(session_id for session_id in list(self._owed) if session_id in self._answered)}
        return [session_id for session_id in failed if self._try_again_at.get(session_id, now) <= now]

    def waits(self, session_id: SessionId) -> bool:
        """Return whether it is too early to try this session again."""
        return session_id in self._epochs and self._try_again_at[session_id] > self._clock.monotonic()

    def try_soon(self, session_id: SessionId) -> None:
        """Try this session again now: a command was just written, so the store works."""
        if session_id in self._epochs:
            self._try_again_at[session_id] = self._clock.monotonic()

    def taken(self, session_id: SessionId) -> None:
        """It is driven again."""
        self._epochs.pop(session_id, None)
        self._damage.pop(session_id, None)

    def left_whole(self, session_id: SessionId) -> None:
        """It was let go with all of its journal written: should a write fail again, it is tried again soon."""
        self._patience.pop(session_id, None)

    def owe(self, session_id: SessionId, stop: AnyCommand) -> None:
        """Owe a stop from the moment it is sent until it is in the inbox: nothing of the session begins before that.

        Kept in memory: if this process ends before it can write again, the stop is lost, as its answer had said.
        """
        with self._lock:
            self._owed.setdefault(session_id, {}).setdefault(stop.id, stop)

    def owes(self, session_id: SessionId) -> bool:
        """Return whether a stop was sent that is not in the inbox yet."""
        return session_id in self._owed

    def owed(self, session_id: SessionId) -> tuple[AnyCommand, ...]:
        """Return the stops that are not in the inbox yet, in the order they were sent."""
        with self._lock:
            return tuple(self._owed.get(session_id, {}).values())

    def paid(self, session_id: SessionId, stop: CommandId) -> None:
        """Note that the stop is in the inbox, or that the session refuses it."""
        with self._lock:
            owed = self._owed.get(session_id, {})
            owed.pop(stop, None)
            if not owed:
                self._owed.pop(session_id, None)

    async def pay(self, session_id: SessionId, stops: Sequence[AnyCommand] | None = None) -> None:
        """Put what is owed into the inbox, in its order; ``stops``: only these.

        A stop that somebody else is putting there at this moment is put twice, which is the same as once.

        Raises:
            StoreError: that still cannot be written.
        """
        for stop in self.owed(session_id) if stops is None else stops:
            if stop.id in self._owed.get(session_id, {}):
                await self._store.put(session_id, stop.id, encode_command(stop), self._clock.now())
                self.paid(session_id, stop.id)

    def place(self) -> int:
        """Return the place in time of a command that is sent now."""
        return next(self._order)

    def answered(self, session_id: SessionId) -> None:
        """Note that a stop was answered as not durable."""
        self._answered[session_id] = next(self._order)

    def has_answered_since(self, session_id: SessionId, place: int) -> bool:
        """Return whether a stop was answered as not durable after that place."""
        return self._answered.get(session_id, 0) > place
