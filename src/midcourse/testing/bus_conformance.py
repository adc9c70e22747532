"""Every promise of the bus port as a test: derive from ``BusConformance`` and bring two fixtures."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from midcourse.core.ids import SessionId
from midcourse.ports.bus import Bus, Delta, Grown, Note, Wake, Watch

SESSION = SessionId("sess_1")
NOTES = (
    Wake(SESSION, "here"),
    Wake(SESSION),
    Watch(SESSION, "here", deltas=True),
    Grown(SESSION),
    Delta(SESSION, "step", 2, 14, "wörds\x00"),
)
PATIENCE = 10.0


class BusConformance:
    """All of it. Every backend runs all of it."""

    @pytest.fixture
    def bus(self) -> Bus:
        raise NotImplementedError("Override the fixture `bus`: an open bus.")

    @pytest.fixture
    def peer(self) -> Bus:
        """Another bus that can reach it, as another process would have."""
        raise NotImplementedError("Override the fixture `peer`: a second bus that can reach `bus`.")

    def test_a_note_reaches_its_address(self, bus: Bus, peer: Bus) -> None:
        """Every kind of note arrives as it was sent, and only where it was sent to."""
        heard, elsewhere = SimpleQueue[Note](), SimpleQueue[Note]()
        bus.listen(heard.put)
        peer.listen(elsewhere.put)
        assert bus.address != peer.address
        for note in NOTES:
            peer.send(bus.address, note)
            assert heard.get(timeout=PATIENCE) == note
        assert elsewhere.empty()

    def test_a_bus_reaches_itself(self, bus: Bus) -> None:
        heard = SimpleQueue[Note]()
        bus.listen(heard.put)
        bus.send(bus.address, Grown(SESSION))
        assert heard.get(timeout=PATIENCE) == Grown(SESSION)

    def test_notes_are_heard_on_a_thread_of_the_bus(self, bus: Bus, peer: Bus) -> None:
        """``hear`` never runs in the thread that sends or listens."""
        heard = SimpleQueue[int]()
        bus.listen(lambda _: heard.put(threading.get_ident()))
        peer.send(bus.address, Grown(SESSION))
        bus.send(bus.address, Grown(SESSION))
        assert {heard.get(timeout=PATIENCE) for _ in range(2)}.isdisjoint({threading.get_ident()})

    def test_nobody_is_missed(self, bus: Bus) -> None:
        for address in ("", "/nowhere/at/all.sock", "x" * 500, "memory-0"):
            bus.send(address, Grown(SESSION))

    def test_a_closed_bus_is_gone(self, bus: Bus, peer: Bus) -> None:
        """After close nothing is heard; sending to it, sending from it and closing again raise nothing."""
        heard = SimpleQueue[Note]()
        bus.listen(heard.put)
        address = bus.address
        bus.close()
        peer.send(address, Grown(SESSION))
        bus.send(peer.address, Grown(SESSION))
        bus.close()
        assert heard.empty()

    def test_a_bus_that_never_listened_can_be_closed(self, bus: Bus, peer: Bus) -> None:
        bus.send(peer.address, Grown(SESSION))
        bus.close()

    def test_a_failing_listener_hears_the_next_note(self, bus: Bus, peer: Bus) -> None:
        """An error of ``hear`` is logged; the bus continues."""
        heard = SimpleQueue[Note]()

        def hear(note: Note) -> None:
            heard.put(note)
            raise ValueError("on purpose")

        bus.listen(hear)
        for note in NOTES[:2]:
            peer.send(bus.address, note)
            assert heard.get(timeout=PATIENCE) == note

    def test_a_listener_may_close_its_bus(self, bus: Bus, peer: Bus) -> None:
        closed = threading.Event()

        def hear(_: Note) -> None:
            bus.close()
            closed.set()

        bus.listen(hear)
        peer.send(bus.address, Grown(SESSION))
        assert closed.wait(PATIENCE)

    def test_sending_never_waits_for_a_listener(self, bus: Bus, peer: Bus) -> None:
        """A listener that hangs, or one that never listened, does not block any sender; notes may be lost."""
        leave = threading.Event()

        def hang(_: Note) -> None:
            leave.wait(PATIENCE)

        bus.listen(hang)

        def send() -> None:
            for _ in range(5_000):
                peer.send(bus.address, Grown(SESSION))
                bus.send(peer.address, Grown(SESSION))

        sending = threading.Thread(target=send)
        sending.start()
        sending.join(PATIENCE)
        leave.set()
        assert not sending.is_alive()

    def test_after_a_flood_notes_are_heard_again(self, bus: Bus, peer: Bus) -> None:
        heard = threading.Event()
        last = Wake(SESSION, "last")

        def hear(note: Note) -> None:
            if note == last:
                heard.set()

        bus.listen(hear)
        for _ in range(20_000):
            peer.send(bus.address, Grown(SESSION))
        assert _eventually(heard, lambda: peer.send(bus.address, last))

    def test_a_large_preview_is_cut_or_dropped(self, bus: Bus, peer: Bus) -> None:
        """Of a preview that is too large its beginning arrives, or nothing; what comes after it arrives."""
        heard = SimpleQueue[Note]()
        bus.listen(heard.put)
        text = "ab" * 5_000_000
        peer.send(bus.address, Delta(SESSION, "step", 1, 0, text))
        peer.send(bus.address, Grown(SESSION))
        note = heard.get(timeout=PATIENCE)
        if isinstance(note, Delta):
            assert note.text
            assert text.startswith(note.text)
            note = heard.get(timeout=PATIENCE)
        assert note == Grown(SESSION)

    def test_many_threads_may_send(self, bus: Bus, peer: Bus) -> None:
        heard = SimpleQueue[Note]()
        bus.listen(heard.put)

        def send(name: str) -> None:
            for number in range(50):
                peer.send(bus.address, Delta(SESSION, name, 1, number, name * 200))

        threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first = heard.get(timeout=PATIENCE)
        assert isinstance(first, Delta)
        while not heard.empty():
            note = heard.get()
            assert isinstance(note, Delta)
            assert note.text == note.step * 200


def _eventually(event: threading.Event, nudge: Callable[[], None]) -> bool:
    for _ in range(200):
        nudge()
        if event.wait(PATIENCE / 200):
            return True
    return False
