"""A bus within one process, for the memory store and for tests."""

import itertools
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from midcourse.ports.bus import Note

LIMIT = 10_000
"""Notes that may wait to be heard; more are dropped, as any bus may."""

_log = logging.getLogger(__name__)

_numbers = itertools.count(1)
_buses: "dict[str, MemoryBus]" = {}


class MemoryBus:
    """Carries notes between the buses of this process."""

    def __init__(self) -> None:
        self._address = f"memory-{next(_numbers)}"
        self._notes: SimpleQueue[Note | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        _buses[self._address] = self

    @property
    def address(self) -> str:
        return self._address

    def listen(self, hear: Callable[[Note], None]) -> None:
        """Call ``hear`` for each note from now on, on a thread of the bus. ``hear`` must not block."""
        self._thread = threading.Thread(
            target=_listen, args=(self._notes, hear), name=f"midcourse bus {self._address}", daemon=True
        )
        self._thread.start()

    def send(self, address: str, note: Note) -> None:
        receiver = _buses.get(address)
        if receiver is not None:
            receiver._take(note)  # noqa: SLF001 - its own class

    def close(self) -> None:
        """Stop listening and give up the address."""
        if _buses.pop(self._address, None) is None:
            return
        self._notes.put(None)
        # `hear` may close the bus it hears from.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _take(self, note: Note) -> None:
        if self._notes.qsize() < LIMIT:
            self._notes.put(note)


def _listen(notes: "SimpleQueue[Note | None]", hear: Callable[[Note], None]) -> None:
    while (note := notes.get()) is not None:
        try:
            hear(note)
        except Exception:  # noqa: BLE001 - it is the listener's, and must not end the listening
            _log.exception("A note could not be handled: %s", type(note).__name__)
