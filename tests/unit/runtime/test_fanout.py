"""What one process hears of a session from another it tells its own watchers, and no third process."""

from collections.abc import Callable

import pytest

from midcourse.core.ids import SessionId
from midcourse.ports.bus import Delta, Grown, Note
from midcourse.runtime.fanout import Fanout
from midcourse.testing import FakeClock

SESSION = SessionId("sess_1")


class Line:
    """A bus that only keeps what was sent."""

    address = "here"

    def __init__(self) -> None:
        self.sent: list[tuple[str, Note]] = []

    def send(self, address: str, note: Note) -> None:
        self.sent.append((address, note))

    def listen(self, hear: Callable[[Note], None]) -> None:
        raise AssertionError("not used")

    def close(self) -> None:
        raise AssertionError("not used")


@pytest.mark.parametrize("note", [Grown(SESSION), Delta(SESSION, "1/say#1", 1, 0, "Hel")])
def test_a_note_of_another_process_is_not_sent_on(note: Grown | Delta) -> None:
    """Two processes may listen to each other for one session, which moved between them: a note would never end."""
    clock = FakeClock()

    async def test() -> None:
        line = Line()
        fanout = Fanout(line, clock)
        fanout.tell(SESSION, "elsewhere", deltas=True)
        with fanout.watching(SESSION, deltas=True) as watcher:
            fanout.hear(note)
            began = clock.monotonic()
            await watcher.wait(60.0)
            assert clock.monotonic() == began  # it was told
            assert list(watcher.deltas) == [note][: isinstance(note, Delta)]
        assert line.sent == []
        if isinstance(note, Grown):
            fanout.grown(SESSION)
        else:
            fanout.preview(note)
        assert line.sent == [("elsewhere", note)]

    clock.run(test())
